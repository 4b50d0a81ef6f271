"""The log of a training run: appended line by line, truncated on resume."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elmo_cli.files import output_errors
from elmo_cli.text.input_settings import InputReport

if TYPE_CHECKING:
    from elmo_cli.lm.settings import Estimate

FILE_NAME = "log.jsonl"
RECORD_FILE = "finetune.json"  # next to the log, with the results of fine-tuning


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
