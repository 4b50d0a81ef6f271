"""OUT.part and its log, the files of an unfinished output: their paths, and whether they exist."""

from __future__ import annotations

import os
from pathlib import Path

from elmo_cli.files import StrPath, resolve


def part_path(out: StrPath) -> Path:
    """The unfinished file of OUT."""
    return Path(f"{resolve(out)}.part")


def log_path(part: StrPath) -> Path:
    """The log of an unfinished file."""
    return Path(f"{part}.log")


def is_unfinished(path: StrPath) -> bool:
    """Whether a file is the partial file of an unfinished output."""
    return os.fspath(path).endswith(".part") and log_path(path).exists()


def is_finished(out: StrPath) -> bool:
    """Whether OUT exists, and there is no unfinished output that is to replace it."""
    return resolve(out).exists() and not part_path(out).exists()
