"""OUT.part and its log, the files of an unfinished output: their paths, and whether they exist."""

from __future__ import annotations

import os
from pathlib import Path

from elmo_cli.errors import OutputError
from elmo_cli.files import StrPath, check_output_path, resolve


def part_path(out: StrPath) -> Path:
    """The unfinished file of OUT."""
    return Path(f"{resolve(out)}.part")


def log_path(part: StrPath) -> Path:
    """The log of an unfinished file."""
    return Path(f"{part}.log")


def check_new_output(out: StrPath, *, overwrite: bool, resume: bool) -> None:
    """Raise an OutputError if no embeddings file can be written to OUT.

    Args:
        overwrite: replace what exists.
        resume: continue an unfinished output.
    """
    part = part_path(out)
    # Unlike the methods of Path, these accept a name that is too long, which is refused below.
    has_unfinished_run = os.path.exists(part) and os.path.exists(log_path(part))
    if has_unfinished_run and os.path.isfile(out) and not overwrite and not resume:
        raise OutputError(
            "exists, and the run that is to replace it is unfinished",
            "`resume=True` continues that run, `overwrite=True` starts over",
            where=out,
            resumable=True,
        )
    check_output_path(out, overwrite=overwrite or resume, regular=True)


def is_unfinished(path: StrPath) -> bool:
    """Whether a file is the partial file of an unfinished output."""
    return os.fspath(path).endswith(".part") and log_path(path).exists()


def is_finished(out: StrPath) -> bool:
    """Whether OUT exists, and there is no unfinished output that is to replace it."""
    return resolve(out).exists() and not part_path(out).exists()
