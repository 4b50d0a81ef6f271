"""Plots of tokens in two dimensions: a figure with text next to points, or an interactive page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from elmo_cli.analysis.labelled_vectors import LabelFile, join_labels
from elmo_cli.analysis.neighbors import Neighbor, Query
from elmo_cli.analysis.query import Occurrence, find_tokens
from elmo_cli.analysis.vectors import LayerView
from elmo_cli.arrays import Float32Array, Float64Array
from elmo_cli.errors import UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import (
    EXTRA,
    as_label,
    check_format,
    new_figure,
    plain,
    write_figure,
)
from elmo_cli.plot.plane import cluster, principal_components, unit_vectors
from elmo_cli.plot.point_texts import write_texts
from elmo_cli.plot.token_groups import (
    CLUSTERS_NOTE,
    MAX_NAME,
    POINT_SIZE,
    QUERY_MARKER,
    QUERY_SIZE,
    PlotGroup,
    plot_groups,
)
from elmo_cli.plot.token_page import write_page
from elmo_cli.requirements import import_program
from elmo_cli.store.reader import Embeddings, open_embeddings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from elmo_cli.plot.inline_figure import InlineFigure

MAX_TOKENS = 500  # more occurrences of a word are thinned out; k-means and PCA stay fast
_FIGURE_CONTEXTS = (3, 2, 1, 0)  # tokens on either side, the first that fit
_MAX_TEXT = 42  # characters of a text next to a point
_MAX_TITLE = 80  # characters
_MAX_LABEL = MAX_NAME + 10  # characters of an entry in the legend: a name and a number


class PlottedTokens(NamedTuple):
    """Tokens to draw."""

    title: str
    tokens: list[Occurrence]
    vectors: Float32Array  # (token, dim)
    groups: list[str] | None = None  # the name of the group of each token; None: clusters
    n_queries: int = 0  # the first tokens, each a star among its neighbors
    note: str = ""  # for the user: what may explain the positions of some points


def read_word(
    path: StrPath, word: str, layer: int | None, labels: LabelFile | None = None
) -> PlottedTokens:
    """Read at most `MAX_TOKENS` evenly spaced occurrences of a word (case-insensitive).

    Args:
        layer: its number; None for the highest or only layer.
        labels: a label per token or, in plain text, per sentence, which become the groups.
    Raises:
        UsageError: the word does not occur at least twice, the layer is not in the file, or the
            vectors are not of tokens.
        ElmoError: as `join_labels`.
    """
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings, layer)
        view.check_per_token()
        occurrences, _ = find_tokens(view, f"={word}", "all")
        if len(occurrences) == 1:
            raise UsageError(
                f"{word!r} occurs once, which is nothing to compare",
                f"`elmo neighbors {path} {occurrences[0]}` lists what is similar",
                where=path,
            )
        tokens = _thinned_out(occurrences)
        groups = None
        if labels is not None:
            groups = _labels_of(tokens, embeddings, labels)
        vectors = np.stack([view.vector(token.key, token.position) for token in tokens])
        count = f"n = {len(tokens):,}"
        if len(tokens) < len(occurrences):
            count += f" of {len(occurrences):,}"
        title = f"“{word}” in {Path(path).name}, layer {view.layer} ({count})"
        return PlottedTokens(title, tokens, vectors, groups, note=_spelling_note(tokens))


def _spelling_note(tokens: Sequence[Occurrence]) -> str:
    """Name the rarer spellings of a word, such as the capitalized one; "" if there is only one."""
    counts: Counter[str] = Counter()
    for token in tokens:
        _, spelling, _ = token.context(0)
        counts[spelling] += 1
    (_, n_usual), *others = counts.most_common()
    if not others:
        return ""
    spellings = ", ".join(plain(spelling) for spelling, _ in others)
    n_others = len(tokens) - n_usual
    verb = "is" if n_others == 1 else "are"
    return (
        f"{n_others} of {len(tokens):,} {verb} spelled {spellings}; "
        "another spelling alone can set a point apart"
    )


def _thinned_out(occurrences: Sequence[Occurrence]) -> list[Occurrence]:
    """Return at most `MAX_TOKENS` occurrences, evenly spaced."""
    step = max(1, len(occurrences) / MAX_TOKENS)
    n_kept = min(MAX_TOKENS, len(occurrences))
    return [occurrences[int(number * step)] for number in range(n_kept)]


def _labels_of(
    tokens: Sequence[Occurrence], embeddings: Embeddings, labels: LabelFile
) -> list[str]:
    """Return the label of each token."""
    find = embeddings.reader.find  # not by key: a sentence may have several
    joined = join_labels(embeddings, labels.path, labels.settings, accepts_sentence_labels=True)
    sentence_labels = {find(sentence.key): sentence.labels for sentence in joined.sentences}
    return [sentence_labels[find(token.key)][token.position or 0] for token in tokens]


def read_neighbors(
    view: LayerView,
    queries: Sequence[Query],
    neighbors: Sequence[Sequence[Neighbor]],
) -> PlottedTokens:
    """Read the vectors of the neighbors that `nearest` found.

    Each query is a group with its neighbors; equal queries are one. A token that is near several
    queries belongs to the nearest one; a query that is near another one stays a query.
    """
    queries_in_file = {query.token for query in queries if query.source == view.path}
    distinct_queries: list[Query] = []
    seen: set[tuple[str, Occurrence]] = set()
    nearest_queries: dict[Occurrence, Query] = {}
    highest_cosines: dict[Occurrence, float] = {}  # to a query
    for query, neighbors_of_query in zip(queries, neighbors, strict=True):
        source_and_token = (query.source, query.token)
        if source_and_token in seen:
            continue
        seen.add(source_and_token)
        distinct_queries.append(query)
        for token, cosine in neighbors_of_query:
            is_query = token in queries_in_file
            is_nearer = token not in nearest_queries or cosine > highest_cosines[token]
            if not is_query and is_nearer:
                nearest_queries[token] = query
                highest_cosines[token] = cosine
    query_groups = [_group_name(query) for query in distinct_queries]
    neighbor_groups = [_group_name(query) for query in nearest_queries.values()]
    query_vectors = [query.vector for query in distinct_queries]
    neighbor_vectors = [view.vector(token.key, token.position) for token in nearest_queries]
    return PlottedTokens(
        title=f"nearest neighbors in {Path(view.path).name}, layer {view.layer}",
        tokens=[*(query.token for query in distinct_queries), *nearest_queries],
        vectors=np.stack([*query_vectors, *neighbor_vectors]),
        groups=query_groups + neighbor_groups,
        n_queries=len(distinct_queries),
    )


def _group_name(query: Query) -> str:
    token = query.token
    return f"near {token} {' '.join(token.context(1))}".rstrip()


@dataclass(frozen=True)
class _Projection:
    """Tokens in two dimensions, as a figure and a page show them.

    Attributes:
        points: the positions of the tokens, (token, 2).
        axis_names: of the horizontal and the vertical axis.
        legend_title: "" for none.
    """

    points: Float64Array
    groups: list[PlotGroup]
    axis_names: list[str]
    legend_title: str


def _projection(plotted: PlottedTokens, n_clusters: int | None) -> _Projection:
    """Project the vectors of tokens, and divide tokens without groups into clusters.

    Raises:
        ElmoError: scikit-learn is not installed.
    """
    import_program("sklearn", EXTRA)
    components, fractions = principal_components(unit_vectors(plotted.vectors))
    names = plotted.groups
    legend_title = ""
    if not names:
        names = [f"cluster {number + 1}" for number in cluster(components, n_clusters)]
        legend_title = CLUSTERS_NOTE
    axis_names = [
        f"principal component {number + 1} ({fractions[number]:.0%} of the variance)"
        for number in (0, 1)
    ]
    return _Projection(
        points=components[:, :2],
        groups=plot_groups(names, plotted.n_queries),
        axis_names=axis_names,
        legend_title=legend_title,
    )


def write_tokens(plotted: PlottedTokens, path: StrPath, n_clusters: int | None = None) -> None:
    """Write tokens as a figure (.png, .svg or .pdf) or as a page with hover and zoom (.html).

    A page needs no other files.

    Raises:
        OutputError, ElmoError: the file cannot be written; or as `check_format`.
    """
    if check_format(path, of_tokens=True) != "html":
        write_figure(draw_tokens(plotted, n_clusters), path)
        return
    shown = _projection(plotted, n_clusters)
    write_page(
        path,
        title=plain(plotted.title, _MAX_TITLE),
        tokens=plotted.tokens,
        points=shown.points,
        groups=shown.groups,
        axis_names=shown.axis_names,
        legend_title=shown.legend_title,
    )


def draw_tokens(plotted: PlottedTokens, n_clusters: int | None = None) -> InlineFigure:
    """Draw tokens as a figure; text that would cover something is left out.

    The axes are the first two principal components of the vectors, each divided by its length.
    Tokens without groups are divided into `n_clusters`, as by `cluster`, on the first 50.

    Raises:
        ElmoError: a library that the plot requires is not installed.
    """
    shown = _projection(plotted, n_clusters)
    points = shown.points
    with new_figure(7, 5.4) as figure:
        axes = figure.subplots()
        for group in shown.groups:
            _draw_group(axes, group, points)
        axes.margins(0.12, 0.06)
        x_name, y_name = shown.axis_names
        axes.set(xlabel=x_name, ylabel=y_name)
        axes.set_title(as_label(plotted.title, _MAX_TITLE))
        names_are_short = sum(len(group.name) for group in shown.groups) < 50
        n_columns = 7 if names_are_short else 3
        legend_title = shown.legend_title or None
        figure.legend(ncols=n_columns, loc="outside lower center", title=legend_title)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # texts do not change the layout
        texts = [_text(token) for token in plotted.tokens]
        n_shown = write_texts(axes, points, texts, plotted.n_queries)
        if n_shown < len(points):
            axes.set_xlabel(f"{x_name}; context is shown for {n_shown} of {len(points)} points")
    return figure


def _draw_group(axes: Axes, group: PlotGroup, points: Float64Array) -> None:
    """Draw the tokens of a group, its queries as stars, with one entry in the legend."""
    queries = [row for row in group.rows if row < group.n_queries]
    others = [row for row in group.rows if row >= group.n_queries]
    label: str | None = as_label(group.label, _MAX_LABEL)
    for rows, size, marker in (
        (others, POINT_SIZE, group.style.marker),
        (queries, QUERY_SIZE, QUERY_MARKER),
    ):
        if rows:
            x, y = points[rows].T
            axes.scatter(
                x,
                y,
                s=(0.6 * size) ** 2,
                color=group.style.color,
                marker=marker,
                label=label,
                edgecolor="white",
                linewidth=0.5,
            )
            label = None  # the legend has one entry per group


def _text(token: Occurrence) -> str:
    """Return a token in brackets with as many tokens on either side as there is room for."""
    for n_tokens in _FIGURE_CONTEXTS:
        before, word, after = token.context(n_tokens)
        marked = f"[{word}]" if word else ""
        text = f"{before} {marked} {after}"
        if len(text) <= _MAX_TEXT:
            break
    return as_label(text.strip() or str(token), _MAX_TEXT)
