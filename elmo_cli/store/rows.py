"""Rows of a chunked dataset, mapped from the file where it can be, and the plain way beside it."""

from __future__ import annotations

import math
import mmap
from functools import cached_property
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.hdf5 import max_plausible_bytes
from elmo_cli.store.damage import DAMAGED, hdf5_errors


class PlainRows:
    """Rows as h5py reads them.

    Args:
        dataset: any dataset with at least one axis.
    """

    def __init__(self, dataset: h5py.Dataset) -> None:
        self._dataset = dataset
        self._n = int(dataset.shape[0])
        row_bytes = math.prod(dataset.shape[1:]) * dataset.dtype.itemsize
        self._most_rows = max_plausible_bytes(dataset.file) // max(1, row_bytes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._dataset.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        kind: np.dtype[Any] = self._dataset.dtype
        return kind

    def read(self, begin: int, end: int) -> NDArray[Any]:
        """Rows `begin` to `end` as a new array, (row, …).

        Raises:
            EmbeddingsFileError: they are not there, or can't be read.
        """
        self._check(begin, end)
        with hdf5_errors(lambda error: self._unreadable(begin, end, error)):
            rows: NDArray[Any] = self._dataset[begin:end]
        return rows

    def _unreadable(self, begin: int, end: int, error: Exception) -> EmbeddingsFileError:
        name = f"{self._dataset.file.filename}: {self._dataset.name}"
        return EmbeddingsFileError(
            f"{name}, rows {begin} to {end}: can't be read: {error}",
            "the file is damaged: copy it again, or make it anew",
        )

    def check(self) -> None:
        """Refuse rows that are only said to be there.

        Raises:
            EmbeddingsFileError: there are more than such a file can hold.
        """
        self._check(0, self._n)

    def _check(self, begin: int, end: int) -> None:
        """Begin and end may be what the file itself says, or what it says of other rows."""
        if 0 <= begin <= end <= self._n and end - begin <= self._most_rows:
            return
        why = "more than such a file can hold" if 0 <= begin <= end <= self._n else "not there"
        name = f"{self._dataset.file.filename}: {self._dataset.name}"
        raise EmbeddingsFileError(f"{name}, rows {begin} to {end} of {self._n}: {why}", DAMAGED)


class MappedRows(PlainRows):
    """Rows copied straight out of the mapped file, without HDF5 in between.

    Args:
        dataset: one that `can_map` allows.
        mapped: the whole file that it lies in.
    """

    def __init__(self, dataset: h5py.Dataset, mapped: mmap.mmap) -> None:
        super().__init__(dataset)
        self._mapped = mapped
        self._dtype = self.dtype
        self._shape = tuple(dataset.shape)
        self._row_values = int(np.prod(self._shape[1:], dtype=np.int64))
        self._chunk_rows = int(dataset.chunks[0])
        self._chunk_bytes = self._chunk_rows * self._row_values * self._dtype.itemsize

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    def read(self, begin: int, end: int) -> NDArray[Any]:
        self._check(begin, end)
        rows = np.empty((end - begin, *self._shape[1:]), self._dtype)
        for chunk in range(begin // self._chunk_rows, -(-end // self._chunk_rows)):
            start = chunk * self._chunk_rows
            first, last = max(begin, start), min(end, start + self._chunk_rows)
            offset = self._offsets.get(chunk)
            if offset is None:
                return super().read(begin, end)
            rows[first - begin : last - begin] = self._view(offset, first - start, last - first)
        return rows

    def _view(self, offset: int, row: int, n_rows: int) -> NDArray[Any]:
        row_bytes = self._row_values * self._dtype.itemsize
        offset += row * row_bytes
        if offset + n_rows * row_bytes > len(self._mapped):
            what = f"{self._dataset.file.filename}: {self._dataset.name}"
            raise EmbeddingsFileError(f"{what}: lies beyond the end of the file", DAMAGED)
        values = np.frombuffer(self._mapped, self._dtype, n_rows * self._row_values, offset)
        return values.reshape(n_rows, *self._shape[1:])

    @cached_property
    def _offsets(self) -> dict[int, int]:
        """Where each chunk begins in the file, but for those that are unwritten or of another size.

        To find one of them HDF5 walks over all before it; so they are taken in one walk.
        """
        offsets: dict[int, int] = {}

        def take(found: Any) -> None:
            if found.byte_offset is not None and found.size == self._chunk_bytes:
                offsets[int(found.chunk_offset[0]) // self._chunk_rows] = int(found.byte_offset)

        self._dataset.id.chunk_iter(take)
        return offsets


def can_map(dataset: h5py.Dataset) -> bool:
    """Whether chunks are whole rows, stored as they are, at offsets from the file's start.

    And whether HDF5 can tell these in one walk (1.12.3 and later).
    """
    return (
        hasattr(dataset.id, "chunk_iter")
        and dataset.chunks is not None
        and tuple(dataset.chunks[1:]) == tuple(dataset.shape[1:])
        and dataset.id.get_create_plist().get_nfilters() == 0
        and dataset.file.userblock_size == 0
    )


def rows_of(dataset: h5py.Dataset, mapped: mmap.mmap | None) -> PlainRows:
    """The rows of a dataset, the quickest way that gives them.

    Args:
        dataset: with at least one axis.
        mapped: the whole file, None where it can't be mapped.
    """
    if mapped is not None and can_map(dataset):
        return MappedRows(dataset, mapped)
    return PlainRows(dataset)
