"""Plots of tokens in two dimensions: a figure with text next to points, or an interactive page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elmo_cli.analysis.labelled_vectors import LabelSettings, join_labels
from elmo_cli.analysis.neighbors import Query
from elmo_cli.analysis.query import Occurrence, find_tokens
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.arrays import Float32Array, Float64Array
from elmo_cli.files import StrPath, new_file
from elmo_cli.plot.figure import COLORS, GRAY, as_label, check_format, new_figure, plain
from elmo_cli.plot.plane import cluster, principal_components, unit_vectors
from elmo_cli.store.reader import open_embeddings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_TOKENS = 500  # more occurrences of a word are thinned out
_PlotGroup = tuple[str, list[int], int, str, str, str]  # name, rows, and as in _STYLES
_QUERY, _OTHER = "query", "other"
# Size of a point in pixels, color, and the name of its shape in matplotlib and in bokeh.
_PAGE_MARKERS = ("circle", "triangle", "square", "diamond", "inverted_triangle", "plus")
_STYLES = tuple(zip((10,) * 6, COLORS, "o^sDvP", _PAGE_MARKERS, strict=True))
_PAGE_CONTEXT = 40  # tokens on either side
_MAX_TEXT, _MAX_TITLE, _MAX_NAME = 42, 80, 36  # characters
# Where a text may be: its horizontal alignment, and its distance from the point in points.
_SIDES = [(side, x, y) for y in (0, 4, -4) for side, x in (("left", 8), ("right", -8))]
_TOOLTIP = """<div style="max-width: 30em; white-space: normal">
@before <b>@token</b> @after<div style="color: #555555">@group, @position</div></div>"""


class PlottedTokens(NamedTuple):
    """Tokens to draw."""

    title: str
    tokens: list[Occurrence]
    vectors: Float32Array  # (token, dim)
    groups: list[str] | None = None  # the name of the group of each token; None: clusters


def read_word(
    path: StrPath, word: str, layer: int | None, labels: tuple[str, LabelSettings] | None = None
) -> PlottedTokens:
    """Read at most `MAX_TOKENS` evenly spaced occurrences of a word (case-insensitive).

    Args:
        layer: its number; None for the highest or only layer.
        labels: a file with a label per token, which become the groups, and how it is read.
    Raises:
        UsageError: the word or the layer does not occur, or the vectors are not of tokens.
        ElmoError: as `join_labels`.
    """
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings, layer)
        view.check_per_token()
        found, _ = find_tokens(view, f"={word}", "all")
        step = max(1, len(found) / MAX_TOKENS)
        tokens = [found[int(n * step)] for n in range(min(MAX_TOKENS, len(found)))]
        groups = None
        if labels is not None:
            joined, find = join_labels(embeddings, *labels), embeddings.reader.find
            # Not by key: a sentence may have several.
            labels_of = {find(one.key): one.labels for one in joined.sentences}
            groups = [labels_of[find(token.key)][token.position or 0] for token in tokens]
        vectors = np.stack([view.vector(token.key, token.position) for token in tokens])
        of_all = f" of {len(found):,}" * (len(found) > len(tokens))
        title = f"“{word}” in {Path(path).name}, layer {view.layer} (n = {len(tokens):,}{of_all})"
        return PlottedTokens(title, tokens, vectors, groups)


def read_neighbors(
    view: LayerView,
    queries: Sequence[Query],
    neighbors: Sequence[Sequence[tuple[Occurrence, float]]],
) -> PlottedTokens:
    """Read the vectors of the neighbors that `nearest` found.

    The groups are the queries and the neighbors of each. A token that is near several queries
    belongs to the nearest one; a query that is near another one stays a query.
    """
    asked = [query.token for query in queries]
    of_file = {query.token for query in queries if query.source == view.path}
    nearest: dict[Occurrence, tuple[float, int]] = {}
    for number, near in enumerate(neighbors):
        for token, cosine in near:
            if token not in of_file:
                nearest[token] = max(nearest.get(token, (-2.0, 0)), (cosine, -number))
    names = [f"near {token} {' '.join(token.context(1))}".rstrip() for token in asked]
    groups = [_QUERY] * len(queries) + [names[-number] for _, number in nearest.values()]
    found = [view.vector(token.key, token.position) for token in nearest]
    vectors = np.stack([*(query.vector for query in queries), *found])
    title = f"nearest neighbors in {Path(view.path).name}, layer {view.layer}"
    return PlottedTokens(title, [*asked, *nearest], vectors, groups)


def draw_tokens(given: PlottedTokens, path: StrPath, n_clusters: int | None = None) -> None:
    """Draw tokens as a figure (.png, .svg or .pdf) or as a page with hover and zoom (.html).

    The axes are the first two principal components of the vectors, each divided by its length.
    Tokens without groups are divided into `n_clusters`, as by `cluster`, on the first 50. In a
    figure, text that would cover something is left out. A page needs no other files.

    Raises:
        OutputError, ElmoError: the file cannot be written; or as `check_format`.
    """
    components, fractions = principal_components(unit_vectors(given.vectors))
    points, numbers = components[:, :2], [] if given.groups else cluster(components, n_clusters)
    names = given.groups or [f"cluster {number + 1}" for number in numbers]
    axes = [f"principal component {n + 1} ({fractions[n]:.0%} of the variance)" for n in (0, 1)]
    is_page = check_format(path, html=True) == "html"
    (_write_page if is_page else _write_figure)(given, points, _groups(names), axes, path)


def _groups(names: Sequence[str]) -> list[_PlotGroup]:
    """Return the queries, and the other groups by size; small ones share the last group."""
    kept = [name for name, _ in Counter(names).most_common() if name != _QUERY]
    kept = kept[: None if len(kept) <= len(_STYLES) else len(_STYLES) - 1]
    styles = {_QUERY: (22, "black", "*", "star"), **dict(zip(kept, _STYLES, strict=False))}
    named = [name if name in styles else _OTHER for name in names]
    styles.setdefault(_OTHER, (10, GRAY, "h", "hex"))
    return [
        (name, [row for row, one in enumerate(named) if one == name], *style)
        for name, style in styles.items()
        if name in named
    ]


def _write_figure(
    given: PlottedTokens,
    points: Float64Array,
    groups: list[_PlotGroup],
    names: list[str],
    path: StrPath,
) -> None:
    with new_figure(path, 9, 6.5) as figure:
        axes = figure.subplots()
        for name, rows, size, color, marker, _ in groups:
            label = f"{as_label(name, _MAX_NAME)} ({len(rows)})"
            style: Any = {"s": (0.6 * size) ** 2, "edgecolor": "white", "linewidth": 0.5}
            axes.scatter(*points[rows].T, color=color, marker=marker, label=label, **style)
        axes.margins(0.12, 0.06)
        axes.set(xlabel=names[0], ylabel=names[1])
        axes.set_title(as_label(given.title, _MAX_TITLE))
        n_columns = 7 if sum(len(name) for name, *_ in groups) < 50 else 3
        figure.legend(ncols=n_columns, loc="outside lower center")
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # texts change nothing any more
        n_shown = _write_texts(axes, points, list(map(_text, given.tokens)))
        if n_shown < len(points):
            axes.set_xlabel(f"{names[0]}; context is shown for {n_shown} of {len(points)} points")


def _text(token: Occurrence) -> str:
    """Return a token in brackets with as many tokens on either side as there is room for."""
    contexts = [token.context(n) for n in (3, 2, 1, 0)]
    texts = [f"{before} {f'[{word}]' * bool(word)} {after}" for before, word, after in contexts]
    shown = next((text for text in texts if len(text) <= _MAX_TEXT), texts[-1])
    return as_label(shown.strip() or str(token), _MAX_TEXT)


def _write_texts(axes: Axes, points: Float64Array, texts: Sequence[str]) -> int:
    """Write texts next to points, isolated ones first, where they cover nothing; count them."""
    pixels = axes.transData.transform(points)
    radius = 3 * axes.figure.dpi / 72
    taken = np.hstack([pixels - radius, pixels + radius])  # left, bottom, right, top
    frame = axes.get_window_extent().extents
    nearest = np.sort(np.hypot(*(pixels[:, None] - pixels).T), 0)[:2][-1]
    for n in np.argsort(-nearest, kind="stable").tolist():
        for side, *shift in _SIDES:
            style: Any = {"ha": side, "va": "center", "fontsize": 7, "color": "#333333"}
            style |= {"xytext": shift, "textcoords": "offset points"}
            text = axes.annotate(texts[n], points[n], **style)
            box = text.get_window_extent().padded(4, 0).extents
            is_inside = frame[0] <= box[0] and box[2] <= frame[2]  # its point is inside
            covered = (taken[:, :2] < box[2:]) & (taken[:, 2:] > box[:2])
            if is_inside and not covered.all(1).any():
                taken = np.vstack([taken, box])
                break
            text.remove()
    return len(taken) - len(points)


def _write_page(
    given: PlottedTokens,
    points: Float64Array,
    groups: list[_PlotGroup],
    names: list[str],
    path: StrPath,
) -> None:
    from bokeh.embed import file_html
    from bokeh.models import HoverTool
    from bokeh.models.annotations import Title
    from bokeh.models.text import PlainText
    from bokeh.plotting import figure
    from bokeh.resources import INLINE

    tools = "pan,wheel_zoom,box_zoom,reset,save"
    page = figure(tools=tools, active_scroll="wheel_zoom", sizing_mode="stretch_both")
    for name, rows, size, color, _, marker in groups:
        tokens = [given.tokens[row] for row in rows]
        contexts = np.array([token.context(_PAGE_CONTEXT) for token in tokens]).T.tolist()
        data = dict(zip(("before", "token", "after"), contexts, strict=True))
        data |= {"group": [name] * len(rows), "position": list(map(str, tokens))}
        data |= dict(zip("xy", points[rows].T.tolist(), strict=True))
        label = f"{plain(name, _MAX_NAME)} ({len(rows)})"
        style: Any = {"marker": marker, "color": color, "size": size, "legend_label": label}
        page.scatter(source=data, **style)
    page.add_tools(HoverTool(tooltips=_TOOLTIP))
    page.legend.click_policy = "hide"
    page.add_layout(page.legend[0], "right")
    title = plain(given.title, _MAX_TITLE)
    page.add_layout(Title(text=PlainText(text=title)), "above")  # `$$` starts no formula
    page.xaxis.axis_label, page.yaxis.axis_label = names
    page.toolbar.logo = None
    with new_file(path) as file:
        file.write(file_html(page, INLINE, title).encode("utf-8", "replace"))
