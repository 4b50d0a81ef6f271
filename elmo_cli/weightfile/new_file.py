"""A new HDF5 file that appears under its name when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py

from elmo_cli.errors import OutputError


@contextmanager
def new_file(path: str | Path) -> Iterator[h5py.File]:
    """Open PATH.part for writing; rename it to PATH when the block ends well.

    Raises:
        OutputError: the file can't be written; nothing is left of it, an old PATH is untouched.
    """
    part = Path(f"{path}.part")
    try:
        with h5py.File(part, "w") as file:
            yield file
        os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            raise OutputError(
                f"{path}: can't be written ({error.strerror or error})",
                "choose a folder that you can write to, with space left",
            ) from None
        raise
