"""Weight files from anywhere: a child process tries first whether HDF5 crashes on them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import h5py

from elmo_cli.child import Place, in_child
from elmo_cli.errors import WeightFileError
from elmo_cli.hdf5 import open_hdf5_file

_PIECE_BYTES = 1 << 24


def try_in_child(paths: Sequence[Place | None]) -> None:
    """Let a child process do with weight files what their readers will do here.

    It takes milliseconds: numbers that lie in the file as they are need no code that could crash,
    so that only packed ones are read.

    Args:
        paths: the files of one model; None for one that it lacks.
    Raises:
        WeightFileError: HDF5 crashes on one of them, gets stuck, or takes too much memory.
    """
    for path in paths:
        if path is not None:
            in_child(partial(_try, path), [path], WeightFileError)


def holds_bilm(path: Place) -> bool:
    """Whether a file has the weights of a biLM in it, as a child process finds.

    Raises:
        WeightFileError: as `try_in_child`.
        OSError, RuntimeError: it is no whole HDF5 file.
    """
    return in_child(partial(_holds_bilm, path), [path], WeightFileError)


def _holds_bilm(path: Place) -> bool:
    with open_hdf5_file(path) as file:
        return "char_embed" in file


def _try(path: Place) -> None:
    """Open a file and all that is in it; what is merely wrong with it, its reader says better."""
    with suppress(Exception), open_hdf5_file(path) as file:
        names: list[str] = []
        with suppress(Exception):
            file.visit(names.append)
        for name in [*list(file), *names]:
            with suppress(Exception):
                _try_item(file.get(name))


def _try_item(item: object) -> None:
    if not isinstance(item, h5py.Dataset) or item.dtype.kind != "f" or item.chunks is None:
        return
    # As far as the memory of this process goes; the reader refuses what claims more.
    row_bytes = max(1, item.nbytes // max(1, len(item)))
    step = max(1, _PIECE_BYTES // row_bytes)
    for begin in range(0, len(item), step):
        item[begin : begin + step]
