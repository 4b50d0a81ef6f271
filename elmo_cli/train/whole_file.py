"""A file of a training run, which appears under its name when it is whole and on the disk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from elmo_cli.errors import OutputError
from elmo_cli.whole_file import whole_file


def write_whole(path: Path, write: Callable[[BinaryIO], object], hint: str) -> None:
    """Write a file and give it its name.

    Args:
        write: puts the content into the file that it is given.
        hint: of the error.
    Raises:
        OutputError: the file can't be written; nothing is left of it, an old PATH is untouched.
    """
    try:
        with whole_file(path, durable=True) as file:
            write(file)
    except (OSError, RuntimeError) as error:  # torch's where a disk is full
        raise OutputError(f"{path}: can't be written ({error})", hint) from None
