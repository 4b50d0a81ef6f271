"""The log of a training run: appended line by line, truncated on resume, read and drawn."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.errors import ElmoError, InputError, OutputError
from elmo_cli.files import new_file, output_errors
from elmo_cli.regular_files import check_regular
from elmo_cli.text.input_settings import InputReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from elmo_cli.lm.limits import Estimate

FILE_NAME = "log.jsonl"
_STYLES = {"average": "-", "forward": "--", "backward": ":"}
_WIDTH, _HEIGHT, _DPI = 11.0, 4.5, 150  # inches


class Reporter:
    """Receives what a training run reports, and ignores it."""

    def message(self, text: str) -> None:
        """One line of text about the run."""

    def log_line(self, line: dict[str, Any]) -> None:
        """A line of the log."""

    def reading(self, paths: Sequence[str], notes: InputReport) -> None:
        """Files are read from now on; `notes.bytes_read` grows with it."""

    def input_notes(self, notes: InputReport) -> None:
        """What the readers of text found, once all text is read."""

    def progress(self, what: str, done: float, total: float | None, detail: str = "") -> None:
        """How far the run is, in tokens (predictions, where a text is measured)."""

    def estimate(self, estimate: Estimate) -> None:
        """How long training will take, before its first step."""


SILENT = Reporter()


class TrainingLog:
    """The log file of a run, created with its first line.

    Each method raises an OutputError if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: dict[str, Any]) -> None:
        """Write one line at the end."""
        with output_errors(self.path, resumable=True), self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def synced_size(self) -> int:
        """The size of the file in bytes, all of which are on the disk; 0 without a file."""
        if not self.path.exists():
            return 0
        with output_errors(self.path, resumable=True), self.path.open("rb+") as file:
            os.fsync(file.fileno())
            return file.seek(0, os.SEEK_END)

    def truncate(self, size: int) -> None:
        """Remove what follows the first `size` bytes."""
        with output_errors(self.path):
            if self.path.exists() and self.path.stat().st_size > size:
                os.truncate(self.path, size)


def log_path(path: Path) -> Path:
    """The log that a name stands for: itself, or the one in a folder."""
    return path / FILE_NAME if path.is_dir() else path


def read_log(path: Path) -> list[dict[str, Any]]:
    """The lines of a log, in order.

    Raises:
        InputError: no such file, or a line that is not of a log.
    """
    check_regular(path, InputError)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        hint = f"`elmo pretrain` writes {FILE_NAME} into the folder of its model"
        raise InputError(f"{path}: cannot be read as a log ({reason})", hint) from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line)
            evaluated = content.get("heldout", dict.fromkeys(_STYLES, 0))
            drawn = [content["step"], content["tokens"], content.get("loss", 0)]
            if not all(isinstance(x, (int, float)) for x in (*drawn, *map(evaluated.get, _STYLES))):
                raise TypeError
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            what = f"{path}, line {number}: not a line of a training log"
            raise InputError(what, f"give the {FILE_NAME} of a run") from None
        found.append(content)
    return found


def draw_curves(paths: Sequence[Path], picture: Path) -> None:
    """Draw losses and held-out perplexities of some runs into one picture.

    Args:
        paths: logs, or folders that contain one.
        picture: file to write; its suffix is the format: .png, .svg or .pdf.
    Raises:
        InputError: of `read_log`, or a log without a line.
        OutputError: the picture cannot be written, or its name has no suffix.
        ElmoError: matplotlib is not installed.
    """
    if not (suffix := picture.suffix.lstrip(".")):
        # matplotlib would add one, and replace a file that nobody has named.
        raise OutputError(f"{picture}: has no suffix for the format", "`-o curves.png`")
    try:
        from matplotlib.figure import Figure
    except ImportError:
        what, hint = "curves: matplotlib is not installed", "`pip install '.[plot]'` from a clone"
        raise ElmoError(what, hint) from None
    logs = [_named_log(path) for path in paths]
    figure = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, (name, lines) in enumerate(logs):
        _draw_run(left, right, name, lines, f"C{number % 10}")
    for axes, title in ((left, "training loss"), (right, "held-out perplexity")):
        axes.set(xlabel="tokens", title=title)
        axes.grid(alpha=0.3)
        if axes.has_data():
            axes.legend(fontsize="small")
    if any(0 < value < float("inf") for line in right.lines for value in line.get_ydata()):
        right.set_yscale("log")
        right.yaxis.set_major_formatter("{x:g}")
        right.yaxis.set_minor_formatter("{x:g}")
    try:
        with new_file(picture) as file:
            figure.savefig(file, dpi=_DPI, format=suffix)
    except ValueError as error:  # a suffix that is no format
        reason = str(error).split(" (supported")[0]
        raise OutputError(f"{picture}: cannot be drawn ({reason})", "`-o curves.png`") from None


def _named_log(path: Path) -> tuple[str, list[dict[str, Any]]]:
    path = log_path(path)
    lines = read_log(path)
    if not lines:
        raise InputError(f"{path}: no line in it yet", "wait for the first line of the run")
    return path.resolve().parent.name if path.name == FILE_NAME else path.stem, lines


def _draw_run(left: Axes, right: Axes, name: str, lines: list[dict[str, Any]], color: str) -> None:
    # In a label `$` would start a formula, and a leading `_` would hide the line.
    name = name.encode("utf-8", "backslashreplace").decode().replace("$", r"\$")
    name = f" {name}" if name.startswith("_") else name
    losses = [(line["tokens"], line["loss"]) for line in lines if "loss" in line]
    if losses:
        is_sampled = any(line.get("sampled_softmax") for line in lines)
        label = f"{name} (sampled softmax)" if is_sampled else name
        left.plot(*zip(*losses, strict=True), color=color, linewidth=1, label=label)
    evaluations = [line for line in lines if "heldout" in line]
    for direction, style in _STYLES.items() if evaluations else ():
        tokens = [line["tokens"] for line in evaluations]
        values = [line["heldout"][direction] for line in evaluations]
        marker = "o" if direction == "average" else None
        label = f"{name}, {direction}"
        right.plot(tokens, values, style, color=color, marker=marker, ms=3, label=label)
