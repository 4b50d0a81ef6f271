"""What a weight file contains, without torch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import h5py

from elmo_cli.errors import ElmoError, WeightFileError
from elmo_cli.hdf5 import dataset_names, open_dataset, open_hdf5, reading
from elmo_cli.isolate import StrPath, run_isolated

_PIECE_BYTES = 1 << 24


def holds_bilm(path: StrPath) -> bool:
    """Whether a file contains the weights of a biLM, found in a child process.

    Raises:
        WeightFileError: HDF5 crashes on it or exceeds a limit.
        OSError, RuntimeError: it is not a complete HDF5 file.
    """
    return run_isolated(partial(_holds_bilm, path), [path], WeightFileError)


def _holds_bilm(path: StrPath) -> bool:
    with open_hdf5(path) as file:
        return "char_embed" in file


def probe_hdf5(
    paths: Sequence[StrPath | None], error_class: type[ElmoError] = WeightFileError
) -> None:
    """Let a child process open all data sets of files and unpack those that are compressed.

    This finds what would crash a reader; what is wrong with a data set, its reader reports.

    Args:
        paths: HDF5 files; None for one that a model lacks.
    Raises:
        ElmoError: of `error_class`: HDF5 crashes on one of them or exceeds a limit, or its groups
            can't be listed, by external links for example.
    """
    for path in paths:
        if path is not None:
            run_isolated(partial(_probe, path, error_class), [path], error_class)


def _probe(path: StrPath, error_class: type[ElmoError]) -> None:
    try:
        file = open_hdf5(path)
    except OSError:
        return  # its reader says why
    with file, reading(path, error_class):
        for name in dataset_names(file):
            with suppress(Exception):
                _unpack(open_dataset(file, name))


def _unpack(dataset: h5py.Dataset) -> None:
    """Read compressed numbers, in pieces; others need no code that could crash."""
    if dataset.dtype.kind == "f" and dataset.chunks is not None:
        row_bytes = max(1, dataset.nbytes // max(1, len(dataset)))
        step = max(1, _PIECE_BYTES // row_bytes)
        for begin in range(0, len(dataset), step):
            dataset[begin : begin + step]
