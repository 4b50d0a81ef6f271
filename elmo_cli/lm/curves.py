"""Curves: the log of a run as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ElmoError, InputError, OutputError
from elmo_cli.files import new_file
from elmo_cli.lm.log import FILE_NAME, read_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT = 11.0, 4.5  # inches
_DOTS = 150  # an inch
_STYLES = {"average": "-", "forward": "--", "backward": ":"}


def draw_curves(places: Sequence[Path], picture: Path) -> None:
    """Draw losses and held-out perplexities of some runs into one picture.

    Args:
        places: logs, or folders of models that hold one.
        picture: file to write; its suffix says what: .png, .svg, .pdf.
    Raises:
        InputError: no log, or one that is empty or of something else.
        OutputError: the picture can't be written, or its name has no suffix.
        ElmoError: matplotlib is not installed.
    """
    if not (suffix := picture.suffix.lstrip(".")):
        # matplotlib would add one, and replace a file that nobody has named.
        raise OutputError(f"{picture}: has no suffix, which says what to draw", "`-o curves.png`")
    figure_of = _matplotlib()
    logs = [_named_log(place) for place in places]
    figure = figure_of(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (name, lines) in enumerate(logs):
        colour = f"C{number % 10}"
        _draw_losses(left, name, lines, colour)
        _draw_perplexities(right, name, lines, colour)
    for axes, title in ((left, "loss in training"), (right, "held-out perplexity")):
        axes.set_xlabel("tokens")
        axes.set_title(title)
        axes.grid(alpha=0.3)
        if axes.has_data():
            axes.legend(fontsize="small")
    if any(0 < value < math.inf for line in right.lines for value in line.get_ydata()):
        right.set_yscale("log")
        for which in (right.yaxis.set_major_formatter, right.yaxis.set_minor_formatter):
            which("{x:g}")
    try:
        with new_file(picture) as file:
            figure.savefig(file, dpi=_DOTS, format=suffix)
    except ValueError as error:  # a suffix that stands for no format
        reason = str(error).split(" (supported")[0]
        raise OutputError(f"{picture}: can't be drawn ({reason})", "`-o curves.png`") from None


def log_of(place: Path) -> Path:
    """The log that is meant by a name: itself, or the one in a folder."""
    return place / FILE_NAME if place.is_dir() else place


def _matplotlib() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ElmoError(
            "curves: matplotlib is not installed", "`pip install 'elmo-cli[plot]'` brings it"
        ) from None
    return Figure


def _named_log(place: Path) -> tuple[str, list[dict[str, Any]]]:
    path = log_of(place)
    lines = read_log(path)
    if not lines:
        raise InputError(f"{path}: no line in it yet", "wait for the first line of the run")
    return path.resolve().parent.name if path.name == FILE_NAME else path.stem, lines


def _draw_losses(axes: Axes, name: str, lines: list[dict[str, Any]], colour: str) -> None:
    points = [(line["tokens"], line["loss"]) for line in lines if "loss" in line]
    if points:
        is_sampled = any(line.get("sampled_softmax") for line in lines)
        label = _label(f"{name} (sampled softmax)" if is_sampled else name)
        axes.plot(*zip(*points, strict=True), color=colour, linewidth=1, label=label)


def _draw_perplexities(axes: Axes, name: str, lines: list[dict[str, Any]], colour: str) -> None:
    looks = [(line["tokens"], line["heldout"]) for line in lines if "heldout" in line]
    for direction, style in _STYLES.items():
        if looks:
            tokens = [at for at, _ in looks]
            values = [look[direction] for _, look in looks]
            marker = "o" if direction == "average" else None
            label = _label(f"{name}, {direction}")
            axes.plot(tokens, values, style, color=colour, marker=marker, ms=3, label=label)


def _label(text: str) -> str:
    """A label that stands in the legend as it is: to matplotlib `$` begins a formula, and `_` at
    the beginning hides the line."""
    shown = text.encode("utf-8", "backslashreplace").decode().replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
