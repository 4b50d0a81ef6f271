"""PlotGroup: tokens that a plot draws alike, with a style and one entry in the legend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from elmo_cli.plot.figure import COLORS, GRAY, plain

CLUSTERS_NOTE = "clusters of similar contexts (k-means), which need not be senses"
MAX_NAME = 36  # characters of the name of a group
_OTHER = "other"


@dataclass(frozen=True)
class PointStyle:
    color: str
    marker: str  # the shape in matplotlib
    page_marker: str  # the shape in bokeh


POINT_SIZE = 10  # in pixels
QUERY_SIZE = 22  # in pixels
QUERY_MARKER = "*"
QUERY_PAGE_MARKER = "star"
_OTHER_STYLE = PointStyle(GRAY, "h", "hex")
_STYLES = (
    PointStyle(COLORS[0], "o", "circle"),
    PointStyle(COLORS[1], "^", "triangle"),
    PointStyle(COLORS[2], "s", "square"),
    PointStyle(COLORS[3], "D", "diamond"),
    PointStyle(COLORS[4], "v", "inverted_triangle"),
    PointStyle(COLORS[5], "P", "plus"),
)
_COLORS_PER_MARKER = 4  # so that each of up to 24 queries has a style of its own


def _styles_of_queries() -> list[PointStyle]:
    """Return the styles, then their markers with the colors of other styles."""
    styles = []
    for shift in range(_COLORS_PER_MARKER):
        for number, style in enumerate(_STYLES):
            color = _STYLES[(number + shift) % len(_STYLES)].color
            styles.append(replace(style, color=color))
    return styles


@dataclass(frozen=True)
class PlotGroup:
    """Tokens that are drawn alike."""

    name: str
    rows: list[int]  # of its tokens
    style: PointStyle
    n_queries: int  # of all groups; rows below this number are queries, drawn as stars

    @property
    def label(self) -> str:
        """The entry of the group in the legend, with the number of its tokens besides queries."""
        n_tokens = sum(row >= self.n_queries for row in self.rows)
        return f"{plain(self.name, MAX_NAME)} ({n_tokens})"


def plot_groups(names: Sequence[str], n_queries: int) -> list[PlotGroup]:
    """Return the groups, the largest first; those of equal size by their first tokens.

    The smallest ones are joined if there are too few styles.

    Args:
        names: the name of the group of each token.
        n_queries: the number of the first tokens that are queries.
    """
    by_size = [name for name, _ in Counter(names).most_common()]
    styles = _styles_of_queries() if n_queries else list(_STYLES)
    if len(by_size) > len(styles):
        by_size = by_size[: len(styles) - 1]
    style_of = dict(zip(by_size, styles, strict=False))
    shown_names = [name if name in style_of else _OTHER for name in names]
    style_of.setdefault(_OTHER, _OTHER_STYLE)  # a group may have this name

    groups = []
    for group_name, style in style_of.items():
        rows = [row for row, name in enumerate(shown_names) if name == group_name]
        if rows:
            groups.append(PlotGroup(name=group_name, rows=rows, style=style, n_queries=n_queries))
    return groups
