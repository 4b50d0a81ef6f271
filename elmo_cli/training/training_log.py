"""TrainingLog: the log of a training run, one JSON object per line."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from elmo_cli.files import output_errors
from elmo_cli.training.run_folder import LOG_FILE


class TrainingLog:
    """The log file in the folder of a run, created with its first line, truncated on resume.

    Each method raises an OutputError if the file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOG_FILE

    def append(self, line: dict[str, Any]) -> None:
        """Write one line at the end."""
        with output_errors(self._path, resumable=True), self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def synced_size(self) -> int:
        """The size of the file in bytes, all of which are on the disk; 0 without a file."""
        if not self._path.exists():
            return 0
        with output_errors(self._path, resumable=True), self._path.open("rb+") as file:
            os.fsync(file.fileno())
            return file.seek(0, os.SEEK_END)

    def truncate(self, size: int) -> None:
        """Remove what follows the first `size` bytes."""
        with output_errors(self._path):
            if self._path.exists() and self._path.stat().st_size > size:
                os.truncate(self._path, size)
