"""The Reporter that a training run reports to, and the Estimate of its duration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from elmo_cli.text.input_report import InputReport


class Estimate(NamedTuple):
    """How long training will take, unless `patience` ends it: seconds until the first limit,
    evaluations not included; tokens to read in each direction, and passes over the text; measured
    tokens per second; and the name of the limit."""

    seconds: float
    tokens: int
    epochs: float
    rate: float
    limit: str


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
