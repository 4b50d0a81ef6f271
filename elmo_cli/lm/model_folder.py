"""The folder that a model is made in: what all who train do with it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from elmo_cli.errors import OutputError, UsageError


def refuse_both(*, overwrite: bool, resume: bool) -> None:
    """Refuse to begin anew and to go on.

    Raises:
        UsageError: both are asked for.
    """
    if overwrite and resume:
        raise UsageError(
            "--overwrite and --resume: one begins anew, the other goes on",
            "leave out `--overwrite` to keep what is done",
        )


def refuse_no_folder(folder: Path) -> None:
    """Refuse a place where something else is.

    Raises:
        OutputError: it is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: a file, not a folder", "name a folder with `-o`")


def is_same(one: Path, other: Path) -> bool:
    """Whether two folders are one, under whatever names; False where one is not there."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def new_folder(folder: Path) -> None:
    """Make the folder of a model.

    Raises:
        OutputError: it can't be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder}: can't be made ({error.strerror})",
            "give a place that can be written to with `-o`",
        ) from None


def remove(folder: Path, paths: Iterable[Path]) -> None:
    """Remove what an earlier run has left in `folder`; what is not there need not be.

    Raises:
        OutputError: it can't be removed.
    """
    try:
        for path in paths:
            path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder}: can't be written to ({error.strerror})", "name another with `-o`"
        ) from None
