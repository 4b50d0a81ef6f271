"""A file that appears under its name when it is whole and on the disk."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from elmo_cli.errors import OutputError


def write_whole(path: Path, write: Callable[[BinaryIO], object], hint: str) -> None:
    """Write PATH.part and rename it to PATH.

    Args:
        write: puts the content into the file that it is given.
        hint: of the error.
    Raises:
        OutputError: the file can't be written; nothing is left of it, an old PATH is untouched.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if not isinstance(error, (OSError, RuntimeError)):  # torch's where a disk is full
            raise
        raise OutputError(f"{path}: can't be written ({error})", hint) from None
