"""An interactive page with a plot of tokens: hover, zoom and groups that can be hidden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from elmo_cli.analysis.query import Occurrence
from elmo_cli.arrays import Float64Array
from elmo_cli.files import StrPath, new_file
from elmo_cli.plot.token_groups import POINT_SIZE, QUERY_PAGE_MARKER, QUERY_SIZE, PlotGroup

_CONTEXT = 40  # tokens on either side
_TOOLTIP = """<div style="max-width: 30em; white-space: normal">
@before <b>@token</b> @after<div style="color: #555555">@group, @position</div></div>"""


def write_page(
    path: StrPath,
    *,
    title: str,
    tokens: Sequence[Occurrence],
    points: Float64Array,
    groups: list[PlotGroup],
    axis_names: list[str],
    legend_title: str,
) -> None:
    """Write a page that needs no other files and no network.

    Args:
        points: the positions of the tokens, (token, 2).
    """
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
            "marker": "marker",
            "color": group.style.color,
            "size": "size",
            "legend_label": group.label,
        }
        page.scatter(source=_page_columns(group, tokens, points), **style)
    page.add_tools(HoverTool(tooltips=_TOOLTIP))
    page.legend.click_policy = "hide"
    page.legend.title = legend_title
    page.add_layout(page.legend[0], "right")
    page.add_layout(Title(text=PlainText(text=title)), "above")  # `$$` starts no formula
    page.xaxis.axis_label, page.yaxis.axis_label = axis_names
    page.toolbar.logo = None
    with new_file(path) as file:
        file.write(file_html(page, INLINE, title).encode("utf-8", "replace"))


def _page_columns(
    group: PlotGroup, tokens: Sequence[Occurrence], points: Float64Array
) -> dict[str, list[Any]]:
    """Return what the page knows of the points of a group; the tooltip shows it."""
    columns: dict[str, list[Any]] = {"before": [], "token": [], "after": []}
    columns |= {"group": [], "position": [], "x": [], "y": [], "marker": [], "size": []}
    for row in group.rows:
        before, token, after = tokens[row].context(_CONTEXT)
        x, y = points[row].tolist()
        columns["before"].append(before)
        columns["token"].append(token)
        columns["after"].append(after)
        columns["group"].append(group.name)
        columns["position"].append(str(tokens[row]))
        columns["x"].append(x)
        columns["y"].append(y)
        is_query = row < group.n_queries
        columns["marker"].append(QUERY_PAGE_MARKER if is_query else group.style.page_marker)
        columns["size"].append(QUERY_SIZE if is_query else POINT_SIZE)
    return columns
