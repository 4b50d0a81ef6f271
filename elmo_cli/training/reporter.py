"""The Reporter that a training run reports to, and the Estimate of its duration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from elmo_cli.fit import FitPoint
from elmo_cli.text.input_report import InputReport


@dataclass(frozen=True)
class Estimate:
    """How long training will take, unless `patience` ends it.

    Attributes:
        seconds: time until the first limit, evaluations not included.
        tokens: tokens that are left to read in each direction.
        epochs: passes over the text that are left, possibly fractional.
        rate: tokens per second, as measured.
        limit: name of the first limit: "max_steps", "max_epochs" or "max_seconds".
    """

    seconds: float
    tokens: int
    epochs: float
    rate: float
    limit: str


class SkippedRow(NamedTuple):
    """A row of a data file that is left out: its file and line, and what is wrong with it."""

    where: str
    problem: str


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

    def fit(self, points: Sequence[FitPoint]) -> None:
        """How well the data fit the model and each other, before the first step."""

    def skipped(self, rows: Sequence[SkippedRow]) -> None:
        """Rows of data files that are left out."""

    def progress(self, what: str, done: float, total: float | None, detail: str = "") -> None:
        """How far the run is, in tokens (predictions, where a text is measured)."""

    def estimate(self, estimate: Estimate) -> None:
        """How long training will take, before its first step."""


SILENT = Reporter()
