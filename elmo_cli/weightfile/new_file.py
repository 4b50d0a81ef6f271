"""A new HDF5 file that appears under its name when it is whole."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import h5py

from elmo_cli.errors import OutputError


@contextmanager
def new_file(path: str | Path) -> Iterator[h5py.File]:
    """An HDF5 file that is made in memory, then written to PATH.part and renamed to PATH.

    Raises:
        OutputError: the file can't be written; nothing is left of it, an old PATH is untouched.
    """
    # In memory, because HDF5 crashes the process where a disk is full while it closes a file.
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        yield file
    part = Path(f"{path}.part")
    try:
        part.write_bytes(content.getbuffer())
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
