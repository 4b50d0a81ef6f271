"""Texts next to the points of a figure, written where they cover nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from elmo_cli.arrays import Float64Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation

_TEXT_FONT = 8.5  # points; a smaller one cannot be read where the figure is 7 inches wide


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
    _TextPosition("center", 0, 11),
    _TextPosition("center", 0, -11),
)


def write_texts(axes: Axes, points: Float64Array, texts: Sequence[str], n_queries: int) -> int:
    """Write texts next to points where they cover nothing, and return the number of texts.

    No other point may be nearer to a text than its own, because a reader would take the text for
    that of the nearest point. Isolated points come first. The first `n_queries` points come before
    all others, and their texts are written even if they cover something.
    """
    pixels = axes.transData.transform(points)  # (point, 2)
    radius = 3 * axes.figure.dpi / 72
    covered = np.hstack([pixels - radius, pixels + radius])  # (box, 4): left, bottom, right, top
    frame = axes.get_window_extent()
    n_shown = 0
    isolated_first = _isolated_first(pixels)
    queries_first = sorted(isolated_first, key=lambda number: number >= n_queries)
    for number in queries_first:
        is_query = number < n_queries
        for position in _TEXT_POSITIONS:
            text = _add_text(axes, texts[number], points[number], position)
            extent = text.get_window_extent().padded(4, 0)
            box = np.array(extent.extents)  # (4,), as in `covered`
            is_inside = frame.x0 <= extent.x0 and extent.x1 <= frame.x1  # its point is inside
            is_free = is_inside and not _covers(box, covered) and _is_nearest(number, box, pixels)
            is_last_chance_of_query = is_query and position == _TEXT_POSITIONS[-1]
            if is_free or is_last_chance_of_query:
                covered = np.vstack([covered, box])
                n_shown += 1
                break
            text.remove()
    return n_shown


def _add_text(axes: Axes, text: str, point: Float64Array, position: _TextPosition) -> Annotation:
    x, y = point.tolist()
    return axes.annotate(
        text,
        (x, y),
        xytext=(position.x, position.y),
        textcoords="offset points",
        ha=position.alignment,
        va="center",
        fontsize=_TEXT_FONT,
        color="#333333",
    )


def _isolated_first(pixels: Float64Array) -> list[int]:
    """Return the numbers of points, (point, 2), by the distance to the nearest other point."""
    x, y = pixels.T
    distances = np.hypot(x[:, None] - x, y[:, None] - y)  # (point, point)
    nearest = np.sort(distances, 0)[:2][-1]  # the first is its own, 0; (point,)
    order: list[int] = np.argsort(-nearest, kind="stable").tolist()
    return order


def _is_nearest(point: int, box: Float64Array, pixels: Float64Array) -> bool:
    """Whether no other point is nearer to a box (left, bottom, right, top) than this one.

    Args:
        point: its number.
        pixels: all points, (point, 2).
    """
    outside = np.maximum(box[:2] - pixels, pixels - box[2:]).clip(min=0)  # (point, axis)
    distances = np.hypot(*outside.T)
    return bool(distances[point] <= distances.min())


def _covers(box: Float64Array, others: Float64Array) -> bool:
    """Whether a box (left, bottom, right, top) overlaps one of `others`, (box, 4)."""
    overlaps = (others[:, :2] < box[2:]) & (others[:, 2:] > box[:2])  # (box, axis)
    return bool(overlaps.all(1).any())
