"""open_hdf5_file: an HDF5 file, also on a file system that has no locks."""

from __future__ import annotations

import os
from typing import IO, Literal

import h5py

from elmo_cli.lock import NO_LOCKS

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
