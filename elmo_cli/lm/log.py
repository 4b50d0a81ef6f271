"""The log of a run: JSON lines that a resumed run goes on with as if it had never stopped."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Protocol

from elmo_cli.errors import InputError, OutputError
from elmo_cli.lm.pretrain_config import RECIPE_FILE
from elmo_cli.regular_files import check_regular
from elmo_cli.text.input_settings import InputReport

FILE_NAME = "log.jsonl"


class Reporter(Protocol):
    """Receives what a training run reports."""

    def message(self, text: str) -> None:
        """One line of text about the run."""

    def log_line(self, line: dict[str, Any]) -> None:
        """A line of the log."""

    def input_notes(self, notes: InputReport) -> None:
        """What the readers of text found, once all text is read."""


class _Silent:
    def message(self, text: str) -> None:
        pass

    def log_line(self, line: dict[str, Any]) -> None:
        pass

    def input_notes(self, notes: InputReport) -> None:
        pass


SILENT: Reporter = _Silent()


class Log:
    """Lines of JSON, added one by one.

    Args:
        path: of the file; made with the first line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, line: dict[str, Any]) -> None:
        """Write one line at the end.

        Raises:
            OutputError: the file can't be written.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise self._unwritable(error) from None

    def safe_size(self) -> int:
        """Bytes of the file, 0 if there is none; they are on the disk when this returns.

        Raises:
            OutputError: they can't be brought there.
        """
        try:
            if not self.path.exists():
                return 0
            with self.path.open("rb+") as file:
                os.fsync(file.fileno())
                return file.seek(0, os.SEEK_END)
        except OSError as error:
            raise self._unwritable(error) from None

    def cut(self, size: int) -> None:
        """Drop what was written after the file had `size` bytes; a shorter file stays as it is.

        Raises:
            OutputError: the file can't be written.
        """
        try:
            if self.path.exists() and self.path.stat().st_size > size:
                os.truncate(self.path, size)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self.path}: can't be written ({error.strerror or error})",
            "free some space and `--resume`",
        )


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
        if (path.parent / RECIPE_FILE).exists() and not path.exists():
            hint = "a run without held-out text logs after `--log-steps` steps and at its end"
        raise InputError(f"{path}: can't be read as a log ({reason})", hint) from None
    found = []
    for number, line in enumerate(lines, 1):
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):
            content = None
        if not _is_of_a_log(content):
            raise InputError(
                f"{path}, line {number}: not a line of a training log",
                f"give the {FILE_NAME} of a run",
            )
        found.append(content)
    return found


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a number, and one that can be computed with: its whole numbers
    may have any length."""
    return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)


def _is_of_a_log(content: Any) -> bool:
    """Whether a line has what is drawn of it."""
    if not isinstance(content, dict):
        return False
    numbers = [content.get("step"), content.get("tokens")]
    if "loss" in content:
        numbers.append(content["loss"])
    if "heldout" in content:
        looked = content["heldout"]
        if not isinstance(looked, dict):
            return False
        numbers += [looked.get(name) for name in ("forward", "backward", "average")]
    return all(map(is_number, numbers))
