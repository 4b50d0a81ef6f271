"""Plots of tokens in two dimensions: a figure with text next to points, or an interactive page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elmo_cli.analysis.labelled_vectors import LabelSettings, join_labels
from elmo_cli.analysis.neighbors import Query
from elmo_cli.analysis.query import Occurrence, find_tokens
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.arrays import Float32Array, Float64Array
from elmo_cli.files import StrPath, new_file
from elmo_cli.plot.figure import (
    COLORS,
    GRAY,
    as_label,
    check_format,
    new_figure,
    plain,
)
from elmo_cli.plot.plane import cluster, principal_components, unit_vectors
from elmo_cli.store.reader import Embeddings, open_embeddings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_TOKENS = 500  # more occurrences of a word are thinned out; k-means and PCA stay fast
_QUERY = "query"
_OTHER = "other"
_PAGE_CONTEXT = 40  # tokens on either side
_FIGURE_CONTEXTS = (3, 2, 1, 0)  # tokens on either side, the first that fit
_MAX_TEXT = 42  # characters, as are the next two
_MAX_TITLE = 80
_MAX_NAME = 36
_TOOLTIP = """<div style="max-width: 30em; white-space: normal">
@before <b>@token</b> @after<div style="color: #555555">@group, @position</div></div>"""


@dataclass(frozen=True)
class _PointStyle:
    size: int  # in pixels
    color: str
    marker: str  # the shape in matplotlib
    page_marker: str  # the shape in bokeh


_QUERY_STYLE = _PointStyle(22, "black", "*", "star")
_OTHER_STYLE = _PointStyle(10, GRAY, "h", "hex")
_STYLES = (
    _PointStyle(10, COLORS[0], "o", "circle"),
    _PointStyle(10, COLORS[1], "^", "triangle"),
    _PointStyle(10, COLORS[2], "s", "square"),
    _PointStyle(10, COLORS[3], "D", "diamond"),
    _PointStyle(10, COLORS[4], "v", "inverted_triangle"),
    _PointStyle(10, COLORS[5], "P", "plus"),
)


@dataclass(frozen=True)
class _PlotGroup:
    """Tokens that are drawn alike."""

    name: str
    rows: list[int]  # of its tokens
    style: _PointStyle


@dataclass(frozen=True)
class _TextPosition:
    """Where a text may be: on one side of its point, at a distance in points (1/72 inch)."""

    alignment: str  # horizontal
    x: int
    y: int


_TEXT_POSITIONS = (
    _TextPosition("left", 8, 0),
    _TextPosition("right", -8, 0),
    _TextPosition("left", 8, 4),
    _TextPosition("right", -8, 4),
    _TextPosition("left", 8, -4),
    _TextPosition("right", -8, -4),
)


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
        occurrences, _ = find_tokens(view, f"={word}", "all")
        tokens = _thinned_out(occurrences)
        groups = None
        if labels is not None:
            labels_file, settings = labels
            groups = _labels_of(tokens, embeddings, labels_file, settings)
        vectors = np.stack([view.vector(token.key, token.position) for token in tokens])
        count = f"n = {len(tokens):,}"
        if len(tokens) < len(occurrences):
            count += f" of {len(occurrences):,}"
        title = f"“{word}” in {Path(path).name}, layer {view.layer} ({count})"
        return PlottedTokens(title, tokens, vectors, groups)


def _thinned_out(occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    """Return at most `MAX_TOKENS` occurrences, evenly spaced."""
    step = max(1, len(occurrences) / MAX_TOKENS)
    n_kept = min(MAX_TOKENS, len(occurrences))
    return [occurrences[int(number * step)] for number in range(n_kept)]


def _labels_of(
    tokens: Sequence[Occurrence], embeddings: Embeddings, labels_file: str, settings: LabelSettings
) -> list[str]:
    """Return the label of each token."""
    find = embeddings.reader.find  # not by key: a sentence may have several
    joined = join_labels(embeddings, labels_file, settings)
    sentence_labels = {find(sentence.key): sentence.labels for sentence in joined.sentences}
    return [sentence_labels[find(token.key)][token.position or 0] for token in tokens]


def read_neighbors(
    view: LayerView,
    queries: Sequence[Query],
    neighbors: Sequence[Sequence[tuple[Occurrence, float]]],
) -> PlottedTokens:
    """Read the vectors of the neighbors that `nearest` found.

    The groups are the queries and the neighbors of each. A token that is near several queries
    belongs to the nearest one; a query that is near another one stays a query.
    """
    query_tokens = [query.token for query in queries]
    tokens_of_file = {query.token for query in queries if query.source == view.path}
    nearest_queries: dict[Occurrence, tuple[float, int]] = {}  # cosine, and number of the query
    for number, neighbors_of_query in enumerate(neighbors):
        for token, cosine in neighbors_of_query:
            is_query = token in tokens_of_file
            is_nearer = token not in nearest_queries or cosine > nearest_queries[token][0]
            if not is_query and is_nearer:
                nearest_queries[token] = (cosine, number)
    names = [f"near {token} {' '.join(token.context(1))}".rstrip() for token in query_tokens]
    neighbor_groups = [names[number] for _, number in nearest_queries.values()]
    query_vectors = [query.vector for query in queries]
    neighbor_vectors = [view.vector(token.key, token.position) for token in nearest_queries]
    return PlottedTokens(
        title=f"nearest neighbors in {Path(view.path).name}, layer {view.layer}",
        tokens=[*query_tokens, *nearest_queries],
        vectors=np.stack([*query_vectors, *neighbor_vectors]),
        groups=[_QUERY] * len(queries) + neighbor_groups,
    )


def draw_tokens(plotted: PlottedTokens, path: StrPath, n_clusters: int | None = None) -> None:
    """Draw tokens as a figure (.png, .svg or .pdf) or as a page with hover and zoom (.html).

    The axes are the first two principal components of the vectors, each divided by its length.
    Tokens without groups are divided into `n_clusters`, as by `cluster`, on the first 50. In a
    figure, text that would cover something is left out. A page needs no other files.

    Raises:
        OutputError, ElmoError: the file cannot be written; or as `check_format`.
    """
    is_page = check_format(path, of_tokens=True) == "html"
    components, fractions = principal_components(unit_vectors(plotted.vectors))
    names = plotted.groups
    if not names:
        names = [f"cluster {number + 1}" for number in cluster(components, n_clusters)]
    axis_names = [
        f"principal component {number + 1} ({fractions[number]:.0%} of the variance)"
        for number in (0, 1)
    ]
    write = _write_page if is_page else _write_figure
    write(plotted, components[:, :2], _plot_groups(names), axis_names, path)


def _plot_groups(names: Sequence[str]) -> list[_PlotGroup]:
    """Return the queries, and the other groups by size; small ones share the last group.

    Args:
        names: the name of the group of each token.
    """
    sizes = Counter(name for name in names if name != _QUERY)
    by_size = [name for name, _ in sizes.most_common()]
    if len(by_size) > len(_STYLES):
        by_size = by_size[: len(_STYLES) - 1]
    styles = {_QUERY: _QUERY_STYLE}
    styles.update(zip(by_size, _STYLES, strict=False))
    shown_names = [name if name in styles else _OTHER for name in names]
    styles.setdefault(_OTHER, _OTHER_STYLE)  # a group may have this name

    groups = []
    for group_name, style in styles.items():
        rows = [row for row, name in enumerate(shown_names) if name == group_name]
        if rows:
            groups.append(_PlotGroup(group_name, rows, style))
    return groups


def _write_figure(
    plotted: PlottedTokens,
    points: Float64Array,
    groups: list[_PlotGroup],
    axis_names: list[str],
    path: StrPath,
) -> None:
    with new_figure(path, 9, 6.5) as figure:
        axes = figure.subplots()
        for group in groups:
            x, y = points[group.rows].T
            axes.scatter(
                x,
                y,
                s=(0.6 * group.style.size) ** 2,
                color=group.style.color,
                marker=group.style.marker,
                label=f"{as_label(group.name, _MAX_NAME)} ({len(group.rows)})",
                edgecolor="white",
                linewidth=0.5,
            )
        axes.margins(0.12, 0.06)
        x_name, y_name = axis_names
        axes.set(xlabel=x_name, ylabel=y_name)
        axes.set_title(as_label(plotted.title, _MAX_TITLE))
        names_are_short = sum(len(group.name) for group in groups) < 50
        figure.legend(ncols=7 if names_are_short else 3, loc="outside lower center")
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # texts change nothing any more
        texts = [_text(token) for token in plotted.tokens]
        n_shown = _write_texts(axes, points, texts)
        if n_shown < len(points):
            axes.set_xlabel(f"{x_name}; context is shown for {n_shown} of {len(points)} points")


def _text(token: Occurrence) -> str:
    """Return a token in brackets with as many tokens on either side as there is room for."""
    for n_tokens in _FIGURE_CONTEXTS:
        before, word, after = token.context(n_tokens)
        marked = f"[{word}]" if word else ""
        text = f"{before} {marked} {after}"
        if len(text) <= _MAX_TEXT:
            break
    return as_label(text.strip() or str(token), _MAX_TEXT)


def _write_texts(axes: Axes, points: Float64Array, texts: Sequence[str]) -> int:
    """Write texts next to points, isolated ones first, where they cover nothing; count them."""
    pixels = axes.transData.transform(points)  # (point, 2)
    radius = 3 * axes.figure.dpi / 72
    covered = np.hstack([pixels - radius, pixels + radius])  # (box, 4): left, bottom, right, top
    frame = axes.get_window_extent()
    n_shown = 0
    for n in _isolated_first(pixels):
        for position in _TEXT_POSITIONS:
            text = axes.annotate(
                texts[n],
                points[n],
                xytext=(position.x, position.y),
                textcoords="offset points",
                ha=position.alignment,
                va="center",
                fontsize=7,
                color="#333333",
            )
            box = np.array(text.get_window_extent().padded(4, 0).extents)
            is_inside = frame.x0 <= box[0] and box[2] <= frame.x1  # its point is inside
            if is_inside and not _covers(box, covered):
                covered = np.vstack([covered, box])
                n_shown += 1
                break
            text.remove()
    return n_shown


def _isolated_first(pixels: Float64Array) -> list[int]:
    """Return the numbers of points, (point, 2), by the distance to the nearest other point."""
    x, y = pixels.T
    distances = np.hypot(x[:, None] - x, y[:, None] - y)  # (point, point)
    nearest = np.sort(distances, 0)[:2][-1]  # the first is its own, 0; (point,)
    order: list[int] = np.argsort(-nearest, kind="stable").tolist()
    return order


def _covers(box: Float64Array, others: Float64Array) -> bool:
    """Whether a box (left, bottom, right, top) overlaps one of `others`, (box, 4)."""
    overlaps = (others[:, :2] < box[2:]) & (others[:, 2:] > box[:2])  # (box, axis)
    return bool(overlaps.all(1).any())


def _write_page(
    plotted: PlottedTokens,
    points: Float64Array,
    groups: list[_PlotGroup],
    axis_names: list[str],
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
    for group in groups:
        style: Any = {
            "marker": group.style.page_marker,
            "color": group.style.color,
            "size": group.style.size,
            "legend_label": f"{plain(group.name, _MAX_NAME)} ({len(group.rows)})",
        }
        page.scatter(source=_page_columns(group, plotted.tokens, points), **style)
    page.add_tools(HoverTool(tooltips=_TOOLTIP))
    page.legend.click_policy = "hide"
    page.add_layout(page.legend[0], "right")
    title = plain(plotted.title, _MAX_TITLE)
    page.add_layout(Title(text=PlainText(text=title)), "above")  # `$$` starts no formula
    page.xaxis.axis_label, page.yaxis.axis_label = axis_names
    page.toolbar.logo = None
    with new_file(path) as file:
        file.write(file_html(page, INLINE, title).encode("utf-8", "replace"))


def _page_columns(
    group: _PlotGroup, tokens: Sequence[Occurrence], points: Float64Array
) -> dict[str, list[Any]]:
    """Return what the page knows of the points of a group; the tooltip shows it."""
    columns: dict[str, list[Any]] = {"before": [], "token": [], "after": []}
    columns |= {"group": [], "position": [], "x": [], "y": []}
    for row in group.rows:
        before, token, after = tokens[row].context(_PAGE_CONTEXT)
        x, y = points[row].tolist()
        columns["before"].append(before)
        columns["token"].append(token)
        columns["after"].append(after)
        columns["group"].append(group.name)
        columns["position"].append(str(tokens[row]))
        columns["x"].append(x)
        columns["y"].append(y)
    return columns
