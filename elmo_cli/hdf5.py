"""HDF5 files of any room: opening one, and what h5py's errors and a file's claims are worth."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_tb
from typing import IO, Literal

import h5py

from elmo_cli.child import FACTOR, FLOOR
from elmo_cli.errors import ElmoError
from elmo_cli.files import NO_LOCKS

# What HDF5 says where this process has the file open already, and without a lock.
_OPEN_WITHOUT_LOCK = "file locking flag"


def open_hdf5_file(
    path: str | os.PathLike[str] | IO[bytes], mode: Literal["r", "r+"] = "r"
) -> h5py.File:
    """Open an HDF5 file that is there.

    HDF5 takes a file system that knows no locks for one where another program holds the lock.

    Raises:
        OSError: as of `h5py.File`; with an `errno` if the system said it, not HDF5 itself.
    """
    try:
        return h5py.File(path, mode)
    except OSError as error:
        if error.errno not in NO_LOCKS and _OPEN_WITHOUT_LOCK not in str(error):
            raise
    return h5py.File(path, mode, locking=False)


def is_from_hdf5(error: BaseException) -> bool:
    """Whether an error came out of h5py, which has as many kinds for damage as Python has.

    What h5py called may have raised it, but for what it called back here.
    """
    inside = False
    for frame, _ in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        inside = package == "h5py" or (inside and package != "elmo_cli")
    return inside


@contextmanager
def hdf5_errors(as_error: Callable[[Exception], ElmoError]) -> Iterator[None]:
    """Raise what h5py raises as what `as_error` makes of it, but for MemoryError."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        if not is_from_hdf5(error):
            raise
        raise as_error(error) from None


def cut_off(error: BaseException) -> str:
    """How much of a file is there, if h5py could not open it because the rest is missing."""
    stored = re.search(r"truncated file: eof = (\d+).*stored_eof = (\d+)", str(error))
    return f"{stored[1]} bytes of {stored[2]} are there" if stored else ""


def most_bytes(file: h5py.File) -> int:
    """The bytes that an array in a file can have at most, by `FLOOR` and `FACTOR`."""
    return FLOOR + FACTOR * int(file.id.get_filesize())
