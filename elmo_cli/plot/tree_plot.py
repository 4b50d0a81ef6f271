"""Plot of one sentence: its dependency tree, and what a structural probe predicts of it."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import COLORS, GRAY, as_label, layer_name, new_figure
from elmo_cli.regular_files import check_regular

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from elmo_cli.plot.inline_figure import InlineFigure

_MOST_WORDS = 80  # of a sentence, so that each can be read
_MOST_BYTES = 1 << 20  # of a line
_MAX_WORD = 20  # characters of a word
_HINT = "give the file that `elmo probe --structural … --trees FILE` wrote"
# Sizes in inches and points.
_MAX_WIDTH = 16.0
_CHARACTER = 0.085  # width at the largest font
_MARGIN = 0.5
_MIN_WIDTH = 4.5
_LEGEND_WIDTH = 7.0  # of a figure, from which the legend has room side by side
_LARGEST_FONT = 10.0
_LEVEL = 0.3  # height of an arc over one more arc
_MOST_LEVELS = 8.0
_GAP = 2.0  # between words, in characters
_FOUND: Any = {"color": COLORS[0], "linewidth": 1.4}
_MISSED: Any = {"color": GRAY, "linewidth": 1.2, "linestyle": (0, (1.5, 1.5))}
_WRONG: Any = {"color": COLORS[3], "linewidth": 1.2, "linestyle": (0, (4, 2))}
_POINTS_PER_SEGMENT = 40  # of a drawn arc
# What contents of another kind raise while they are read.
_INVALID = (LookupError, TypeError, ValueError, AttributeError, RecursionError)

Edge = tuple[int, int]  # indices of words, the lower first


@dataclass(frozen=True)
class PredictedTree:
    """A sentence of `elmo probe --structural … --trees`.

    Attributes:
        key: of the sentence in its embeddings file.
        is_punctuation: of each word.
        gold_edges, edges: of the tree and predicted, without punctuation; None for depths.
        gold_depths, depths: of the words; None for distances.
    """

    key: str
    layer: str
    words: tuple[str, ...]
    is_punctuation: tuple[bool, ...]
    gold_edges: frozenset[Edge] | None
    edges: frozenset[Edge] | None
    gold_depths: tuple[float, ...] | None
    depths: tuple[float, ...] | None


def read_tree(path: StrPath, sentence: str | None = None) -> PredictedTree:
    """Read one sentence of a file of `elmo probe --structural … --trees`.

    Args:
        sentence: its key; None for the first sentence.
    Raises:
        InputError: the file cannot be read or has other contents.
        UsageError: there is no such sentence, or it has too many words.
    """
    check_regular(path, InputError)
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(_MOST_BYTES), b""), 1):
                where = f"{path}, line {number}"
                tree = _parse_tree(line, where)
                if sentence in (None, tree.key):
                    return _checked_size(tree, where)
    except OSError as error:
        problem = f"can't be read ({error.strerror or error})"
        raise InputError(problem, _HINT, where=path) from None
    if sentence is None:
        raise InputError("contains no trees", _HINT, where=path)
    hint = "`sentence` is the `key` of a line of this file"
    raise UsageError("no such sentence", hint, where=f"`sentence={sentence}`")


def _checked_size(tree: PredictedTree, where: str) -> PredictedTree:
    n_words = len(tree.words)
    if n_words > _MOST_WORDS:
        hint = f"`sentence` names a sentence of at most {_MOST_WORDS} words"
        raise UsageError(f"sentence {tree.key} has {n_words} words", hint, where=where)
    return tree


def _parse_tree(line: bytes, where: str) -> PredictedTree:
    try:
        content = json.loads(line)
        words = content["words"]
        if not isinstance(words, list) or not words or set(map(type, words)) != {str}:
            raise ValueError("words")
        punctuation = set(content["punctuation"])
        is_of_edges = "edges" in content
        return PredictedTree(
            key=str(content["key"]),
            layer=str(content["layer"]),
            words=tuple(words),
            is_punctuation=tuple(number in punctuation for number in range(1, len(words) + 1)),
            gold_edges=_edges(content["gold_edges"], len(words)) if is_of_edges else None,
            edges=_edges(content["edges"], len(words)) if is_of_edges else None,
            gold_depths=None if is_of_edges else _depths(content["gold_depths"], len(words)),
            depths=None if is_of_edges else _depths(content["depths"], len(words)),
        )
    except _INVALID:
        raise InputError("not a predicted tree", _HINT, where=where) from None


def _edges(pairs: Sequence[Sequence[int]], n_words: int) -> frozenset[Edge]:
    """Return pairs of numbers from 1 as edges; raise one of `_INVALID` if they are not."""
    edges = set()
    for first, second in pairs:
        is_edge = 1 <= first < second <= n_words
        if not is_edge or type(first) is not int or type(second) is not int:
            raise ValueError("not two numbers of words")
        edges.add((first - 1, second - 1))
    return frozenset(edges)


def _depths(numbers: Sequence[float], n_words: int) -> tuple[float, ...]:
    depths = tuple(float(number) for number in numbers)
    if len(depths) != n_words or not all(map(math.isfinite, depths)):
        raise ValueError("depths")
    return depths


def draw_tree(tree: PredictedTree) -> InlineFigure:
    """Draw the words of a sentence with its edges or depths; raises the errors of `new_figure`."""
    if tree.edges is not None and tree.gold_edges is not None:
        return _draw_edges(tree, tree.gold_edges, tree.edges)
    return _draw_depths(tree, tree.gold_depths or (), tree.depths or ())


@dataclass(frozen=True)
class _WordLine:
    """The words of a sentence side by side.

    Attributes:
        labels: the words as they are drawn.
        centers: their positions on the x axis, in characters.
        length: of the line, in characters.
        scale: by which characters are smaller than the largest, so that the line fits.
    """

    labels: list[str]
    centers: list[float]
    length: float
    scale: float

    @property
    def width(self) -> float:
        """Of the figure, in inches."""
        return self.length * self.scale * _CHARACTER + _MARGIN


def _word_line(words: Sequence[str]) -> _WordLine:
    labels = [as_label(word, _MAX_WORD) for word in words]
    centers = []
    end = 0.0
    for label in labels:
        width = max(2, sum(_columns(letter) for letter in label)) + _GAP
        centers.append(end + width / 2)
        end += width
    scale = min(1.0, (_MAX_WIDTH - _MARGIN) / (end * _CHARACTER))
    return _WordLine(labels=labels, centers=centers, length=end, scale=scale)


def _columns(letter: str) -> int:
    """Return the width of a character: twice that of a letter for Chinese, Japanese and Korean."""
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _draw_edges(
    tree: PredictedTree, gold: frozenset[Edge], predicted: frozenset[Edge]
) -> InlineFigure:
    """Draw the edges of the tree above the words, and the predicted ones below them."""
    line = _word_line(tree.words)
    above = _levels(gold)
    below = _levels(predicted)
    n_levels = max([*above.values()], default=1) + max([*below.values()], default=1)
    found = gold & predicted
    width = max(_MIN_WIDTH, line.width)
    legend_columns = 3 if width > _LEGEND_WIDTH else 1
    height = 1.2 + _LEVEL * n_levels + (0.4 if legend_columns == 1 else 0)
    with new_figure(width, height) as figure:
        axes = figure.subplots()
        for edge in sorted(gold):
            _draw_arc(axes, line, edge, above[edge], _FOUND if edge in found else _MISSED)
        for edge in sorted(predicted):
            _draw_arc(axes, line, edge, -below[edge], _FOUND if edge in found else _WRONG)
        for number, label in enumerate(line.labels):
            color = GRAY if tree.is_punctuation[number] else "black"
            style: Any = {"ha": "center", "va": "center", "color": color}
            size = _LARGEST_FONT * line.scale
            axes.text(line.centers[number], 0, label, fontsize=size, **style)
        top = max([*above.values()], default=1) + 1
        bottom = max([*below.values()], default=1) + 1
        axes.set(xlim=(0, line.length), ylim=(-bottom, top))
        axes.set_axis_off()
        axes.set_title(f"sentence {as_label(tree.key)}, {layer_name(tree.layer)}")
        axes.plot([], [], label=f"in both: {len(found)} of {len(gold)} edges", **_FOUND)
        axes.plot([], [], label="only in the treebank (above)", **_MISSED)
        axes.plot([], [], label="only predicted (below)", **_WRONG)
        figure.legend(ncols=legend_columns, loc="outside lower center")
    return figure


def _levels(edges: frozenset[Edge]) -> dict[Edge, float]:
    """Return the height of each arc: above those between its ends, at most `_MOST_LEVELS`."""
    levels: dict[Edge, float] = {}
    for first, second in sorted(edges, key=lambda edge: edge[1] - edge[0]):
        inside = [
            level for (start, end), level in levels.items() if first <= start and end <= second
        ]
        levels[first, second] = 1 + max(inside, default=0.0)
    highest = max(levels.values(), default=1.0)
    factor = min(1.0, _MOST_LEVELS / highest)
    return {edge: level * factor for edge, level in levels.items()}


def _draw_arc(axes: Axes, line: _WordLine, edge: Edge, level: float, style: Any) -> None:
    """Draw half an ellipse, above the words for a level above 0 and below them otherwise."""
    left, right = (line.centers[word] for word in edge)
    base = math.copysign(0.45, level)  # beside the words
    xs = []
    ys = []
    for step in range(_POINTS_PER_SEGMENT + 1):
        angle = math.pi * step / _POINTS_PER_SEGMENT
        xs.append((left + right) / 2 - (right - left) / 2 * math.cos(angle))
        ys.append(base + level * math.sin(angle))
    axes.plot(xs, ys, **style)


def _draw_depths(
    tree: PredictedTree, gold: Sequence[float], predicted: Sequence[float]
) -> InlineFigure:
    """Draw the depth of each word in the tree and as predicted, the root at the top."""
    line = _word_line(tree.words)
    with new_figure(max(_MIN_WIDTH, line.width), 3.6) as figure:
        axes = figure.subplots()
        gold_style: Any = {"marker": "o", "linestyle": "", "color": COLORS[0]}
        style: Any = {"marker": "^", "linestyle": "", "color": COLORS[3], "markerfacecolor": "none"}
        axes.vlines(line.centers, gold, predicted, color=GRAY, linewidth=0.8)
        axes.plot(line.centers, gold, label="in the treebank", **gold_style)
        axes.plot(line.centers, predicted, label="predicted", **style)
        axes.set_xticks(line.centers, line.labels, fontsize=_LARGEST_FONT * line.scale)
        axes.tick_params(axis="x", length=0, top=False)
        for label, is_punctuation in zip(axes.get_xticklabels(), tree.is_punctuation, strict=True):
            label.set_color(GRAY if is_punctuation else "black")
        axes.set(xlim=(0, line.length), ylabel="depth")
        axes.margins(y=0.12)
        axes.invert_yaxis()
        axes.grid(axis="y", alpha=0.3)
        axes.set_title(f"sentence {as_label(tree.key)}, {layer_name(tree.layer)}")
        figure.legend(ncols=2, loc="outside lower center")
    return figure
