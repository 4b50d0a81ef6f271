"""A new HDF5 file that appears under its name when it is whole."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np

from elmo_cli.errors import OutputError
from elmo_cli.files import new_file
from elmo_cli.weightfile.transforms import Array


@contextmanager
def new_hdf5(path: str | Path) -> Iterator[h5py.File]:
    """An HDF5 file that is made in memory, then written and renamed to PATH.

    Raises:
        OutputError: the file can't be written; nothing is left of it, an old PATH is untouched.
    """
    # In memory, because HDF5 crashes the process where a disk is full while it closes a file.
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        yield file
    with new_file(path) as whole:
        whole.write(content.getbuffer())


def add_array(file: h5py.File, path: str | Path, name: str, array: Array, dtype: str) -> None:
    """Add an array to the new file PATH.

    Raises:
        OutputError: a finite value is beyond what `dtype` holds.
    """
    try:
        with np.errstate(over="raise"):
            values = array.astype(dtype)
    except FloatingPointError:
        raise OutputError(
            f"{path}: {name} has a value beyond {dtype}, the greatest is {np.abs(array).max():g}",
            "`--dtype float32`",
        ) from None
    file.create_dataset(name, data=values)
