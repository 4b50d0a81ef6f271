"""Plot of one sentence: its dependency tree, and what a structural probe predicts of it."""

from __future__ import annotations

import json
import math
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import StrPath
from elmo_cli.plot.figure import COLORS, GRAY, as_label, layer_name, new_figure
from elmo_cli.regular_files import INVALID_JSON, check_regular

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
_GOLD_DEPTH: Any = {"marker": "o", "linestyle": "", "color": COLORS[0]}
_PREDICTED_DEPTH: Any = {
    **_GOLD_DEPTH,
    "marker": "^",
    "color": COLORS[3],
    "markerfacecolor": "none",
}
_SEGMENTS = 40  # of a drawn arc

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
            for number, line in enumerate(_lines(file), 1):
                where = f"{path}, line {number}"
                tree = _parse_tree(line, where)
                if sentence in (None, tree.key):
                    _check_size(tree, where)
                    return tree
    except OSError as error:
        problem = f"can't be read ({error.strerror or error})"
        raise InputError(problem, _HINT, where=path) from None
    if sentence is None:
        raise InputError("contains no trees", _HINT, where=path)
    hint = "`sentence` is the `key` of a line of this file"
    raise UsageError("no such sentence", hint, where=f"`sentence={sentence}`")


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; a line of more than `_MOST_BYTES` in several pieces."""
    while line := file.readline(_MOST_BYTES):
        yield line


def _check_size(tree: PredictedTree, where: str) -> None:
    n_words = len(tree.words)
    if n_words > _MOST_WORDS:
        hint = f"`sentence` names a sentence of at most {_MOST_WORDS} words"
        raise UsageError(f"sentence {tree.key} has {n_words} words", hint, where=where)


def _parse_tree(line: bytes, where: str) -> PredictedTree:
    try:
        return _tree(json.loads(line))
    except INVALID_JSON:
        raise InputError("not a predicted tree", _HINT, where=where) from None


def _tree(content: Any) -> PredictedTree:
    """Return the tree of the JSON object of a sentence; raise one of `INVALID_JSON` otherwise."""
    words = content["words"]
    if not isinstance(words, list) or not words:
        raise ValueError("no words")
    if not all(isinstance(word, str) for word in words):
        raise ValueError("a word is not a string")
    n_words = len(words)
    punctuation = content["punctuation"]
    if not all(type(number) is int and 1 <= number <= n_words for number in punctuation):
        raise ValueError("punctuation that is not the number of a word")
    gold_edges = None
    edges = None
    gold_depths = None
    depths = None
    if "edges" in content:
        gold_edges = _edges(content["gold_edges"], n_words)
        edges = _edges(content["edges"], n_words)
    else:
        gold_depths = _depths(content["gold_depths"], n_words)
        depths = _depths(content["depths"], n_words)
    return PredictedTree(
        key=str(content["key"]),
        layer=str(content["layer"]),
        words=tuple(words),
        is_punctuation=tuple(number in punctuation for number in range(1, n_words + 1)),
        gold_edges=gold_edges,
        edges=edges,
        gold_depths=gold_depths,
        depths=depths,
    )


def _edges(pairs: Sequence[Sequence[int]], n_words: int) -> frozenset[Edge]:
    """Return pairs of numbers from 1 as edges; raise one of `INVALID_JSON` if they are not."""
    edges = set()
    for first, second in pairs:
        if type(first) is not int or type(second) is not int:  # True and False are no numbers
            raise ValueError("not two integers")
        if not 1 <= first < second <= n_words:
            raise ValueError("not two numbers of words in rising order")
        edges.add((first - 1, second - 1))
    return frozenset(edges)


def _depths(numbers: Sequence[float], n_words: int) -> tuple[float, ...]:
    """Return the depths of all words; raise one of `INVALID_JSON` if they are not."""
    if not all(type(number) in (int, float) for number in numbers):
        raise ValueError("a depth that is not a number")
    depths = tuple(float(number) for number in numbers)
    if len(depths) != n_words or not all(map(math.isfinite, depths)):
        raise ValueError("not a finite depth for each word")
    return depths


def draw_tree(tree: PredictedTree) -> InlineFigure:
    """Draw the words of a sentence with its edges or depths.

    Raises:
        ElmoError: as `new_figure`.
    """
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
        scale: of the characters, at most 1, so that the line fits into the widest figure.
    """

    labels: list[str]
    centers: list[float]
    length: float
    scale: float

    @property
    def width(self) -> float:
        """The width of the figure, in inches."""
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
    highest = max(above.values(), default=1.0)
    lowest = max(below.values(), default=1.0)
    found = gold & predicted
    width = max(_MIN_WIDTH, line.width)
    legend_columns = 3 if width > _LEGEND_WIDTH else 1
    legend_height = 0.4 if legend_columns == 1 else 0.0  # of its second and third line
    height = 1.2 + _LEVEL * (highest + lowest) + legend_height
    with new_figure(width, height) as figure:
        axes = figure.subplots()
        for edge in sorted(gold):
            _draw_arc(axes, line, edge, above[edge], _FOUND if edge in found else _MISSED)
        for edge in sorted(predicted):
            _draw_arc(axes, line, edge, -below[edge], _FOUND if edge in found else _WRONG)
        _draw_words(axes, line, tree.is_punctuation)
        axes.set(xlim=(0, line.length), ylim=(-lowest - 1, highest + 1))
        axes.set_axis_off()
        axes.set_title(f"sentence {as_label(tree.key)}, {layer_name(tree.layer)}")
        axes.plot([], [], label=f"in both: {len(found)} of {len(gold)} edges", **_FOUND)
        axes.plot([], [], label="only in the treebank (above)", **_MISSED)
        axes.plot([], [], label="only predicted (below)", **_WRONG)
        figure.legend(ncols=legend_columns, loc="outside lower center")
    return figure


def _draw_words(axes: Axes, line: _WordLine, is_punctuation: Sequence[bool]) -> None:
    style: Any = {"ha": "center", "va": "center", "fontsize": _LARGEST_FONT * line.scale}
    for label, center, is_gray in zip(line.labels, line.centers, is_punctuation, strict=True):
        axes.text(center, 0, label, color=GRAY if is_gray else "black", **style)


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
    first, second = edge
    left = line.centers[first]
    right = line.centers[second]
    middle = (left + right) / 2
    radius = (right - left) / 2
    base = math.copysign(0.45, level)  # beside the words
    xs = []
    ys = []
    for step in range(_SEGMENTS + 1):
        angle = math.pi * step / _SEGMENTS
        xs.append(middle - radius * math.cos(angle))
        ys.append(base + level * math.sin(angle))
    axes.plot(xs, ys, **style)


def _draw_depths(
    tree: PredictedTree, gold: Sequence[float], predicted: Sequence[float]
) -> InlineFigure:
    """Draw the depth of each word in the tree and as predicted, the root at the top."""
    line = _word_line(tree.words)
    with new_figure(max(_MIN_WIDTH, line.width), 3.6) as figure:
        axes = figure.subplots()
        axes.vlines(line.centers, gold, predicted, color=GRAY, linewidth=0.8)
        axes.plot(line.centers, gold, label="in the treebank", **_GOLD_DEPTH)
        axes.plot(line.centers, predicted, label="predicted", **_PREDICTED_DEPTH)
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
