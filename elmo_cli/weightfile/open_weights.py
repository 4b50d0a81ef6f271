"""Open weight files in HDF5, and their arrays, without importing torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial

import h5py

from elmo_cli.arrays import Float32Array
from elmo_cli.errors import WeightFileError
from elmo_cli.files import StrPath
from elmo_cli.hdf5 import dataset_names, max_content, open_dataset, open_hdf5, reading
from elmo_cli.isolate import run_isolated
from elmo_cli.messages import CORRUPT_HINT, format_bytes
from elmo_cli.regular_files import check_regular
from elmo_cli.weightfile.describe import find_dataset, read_values
from elmo_cli.weightfile.named_arrays import LARGEST_WEIGHT


class Hdf5Arrays:
    """The arrays of an open HDF5 file, as `NamedArrays`.

    Args:
        largest: the largest absolute value that is accepted.
    """

    def __init__(self, file: h5py.File, *, largest: float = LARGEST_WEIGHT) -> None:
        self._file = file
        self._largest = largest
        self._found: dict[str, h5py.Dataset | None] = {}

    @property
    def where(self) -> str:
        """The path of the file."""
        return str(self._file.filename)

    def stored_name(self, name: str) -> str:
        """The name itself."""
        return name

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a data set; None if it is missing."""
        dataset = self._find(name)
        if dataset is None:
            return None
        return tuple(dataset.shape or ())

    def read(self, name: str) -> Float32Array:
        """Read a data set that exists; or WeightFileError."""
        return read_values(self._find(name), largest=self._largest)

    def _find(self, name: str) -> h5py.Dataset | None:
        """Open a data set once, although its shape is asked for before it is read."""
        if name not in self._found:
            self._found[name] = find_dataset(self._file, name)
        return self._found[name]


def check_data_sets(paths: Sequence[StrPath | None]) -> None:
    """Open and decompress all data sets of weight files in a child process.

    Errors of single data sets, and of files that are not HDF5, are left to their readers.

    Args:
        paths: None for a file that a model lacks.
    Raises:
        WeightFileError: HDF5 crashes on a file or exceeds a limit, the groups of the file cannot
            be listed, or its arrays together are larger than a file of its size can hold.
    """
    for path in paths:
        if path is not None:
            run_isolated(partial(_decompress_all, path), [path], WeightFileError)


def _decompress_all(path: StrPath) -> None:
    with suppress(OSError), open_hdf5(path) as file, reading(path, WeightFileError):
        n_bytes = 0
        for name in dataset_names(file):
            dataset = None
            with suppress(Exception):  # the reader of the data set reports it
                dataset = open_dataset(file, name)
            if dataset is None:
                continue
            # An array may be within the limit of one, and each of a thousand compressed to nothing.
            n_bytes += dataset.nbytes
            if n_bytes > max_content(file):
                problem = f"its arrays have over {format_bytes(n_bytes)}, more than it can hold"
                raise WeightFileError(problem, CORRUPT_HINT, where=path)
            with suppress(Exception):
                if dataset.chunks:
                    for chunk in dataset.iter_chunks():
                        dataset[chunk]


@contextmanager
def open_weights(path: StrPath, *, largest: float = LARGEST_WEIGHT) -> Iterator[Hdf5Arrays]:
    """Open a weight file for reading; WeightFileError if it is missing or not HDF5.

    Args:
        largest: the largest absolute value that is accepted.
    """
    check_regular(path, WeightFileError)
    with reading(path, WeightFileError):
        file = open_hdf5(path)
    with file:
        yield Hdf5Arrays(file, largest=largest)
