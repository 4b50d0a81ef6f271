"""Contiguous data sets of rows: written row by row, read through a memory map."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

import h5py
import numpy as np
from h5py import h5d, h5s, h5t

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.hdf5 import open_dataset, read_dataset, reading
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layouts.base import Layout
from elmo_cli.store.layouts.dataset_writer import create_file, dataset_properties
from elmo_cli.store.layouts.stored_sentence import Array, Facts, StoredSentence, Totals
from elmo_cli.store.spec import DTYPES, FileSpec

_BUFFER_BYTES = 1 << 22


class RowLayout(Layout):
    """A layout with one data set for the vectors of all sentences, written first.

    Attributes:
        rows_name: its name.
    """

    alignment = 4096
    rows_name: ClassVar[str]

    def data_start(self, spec: FileSpec, row_shape: tuple[int, ...]) -> int:
        shape = (1, *(max(1, size) for size in row_shape))
        with create_file(None, self.alignment) as file:
            offset = _create(file, self.rows_name, shape, DTYPES[spec.dtype]).get_offset()
        return int(offset)

    def write(
        self, file: h5py.File, sentences: Iterable[StoredSentence], spec: FileSpec, totals: Totals
    ) -> Facts:
        return self._write(file, sentences, totals, RowWriter)

    def write_around(
        self, file: h5py.File, sentences: Iterable[StoredSentence], spec: FileSpec, totals: Totals
    ) -> Facts:
        return self._write(file, sentences, totals, UnwrittenRows)

    @abstractmethod
    def _write(
        self,
        file: h5py.File,
        sentences: Iterable[StoredSentence],
        totals: Totals,
        rows: type[RowWriter],
    ) -> Facts:
        """Write a file; `rows` writes the vectors, or leaves them out."""


class RowWriter:
    """A new contiguous data set of a known number of rows."""

    def __init__(
        self, file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self._dataset = h5py.Dataset(_create(file, name, shape, dtype))
        self._shape = shape
        self._held: list[Array] = []
        self._n_held = self._n_written = self._bytes = 0

    def add(self, rows: Array) -> None:
        """Write the next rows, (row, …)."""
        if rows.shape[1:] != self._shape[1:]:
            raise ValueError(f"rows of shape {rows.shape[1:]} among rows of {self._shape[1:]}")
        self._held.append(rows)
        self._n_held += len(rows)
        self._bytes += rows.nbytes
        if self._bytes >= _BUFFER_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is held back; all rows must have come."""
        self._flush()
        if self._n_written != self._shape[0]:
            raise ValueError(f"{self._n_written} rows of {self._shape[0]} were written")

    def _flush(self) -> None:
        if self._n_held:
            end = self._n_written + self._n_held
            self._dataset[self._n_written : end] = np.concatenate(self._held)
        self._n_written += self._n_held
        self._held, self._n_held, self._bytes = [], 0, 0


class UnwrittenRows(RowWriter):
    """Rows whose values are in the file already."""

    def add(self, rows: Array) -> None:
        self._n_written += len(rows)


def write_rows(file: h5py.File, name: str, values: Array) -> None:
    """Write a contiguous data set as a whole."""
    dataset = _create(file, name, values.shape, values.dtype)
    if values.size:
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray(values))


def _create(
    file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> h5d.DatasetID:
    space = h5s.create_simple(shape)
    kind = h5t.py_create(dtype)
    return h5d.create(file.id, name.encode("ascii"), kind, space, dataset_properties())


class Rows:
    """Reads rows of a data set, from the mapped file where its values are contiguous in it.

    Attributes:
        shape, dtype: of the data set.
    """

    def __init__(self, file: h5py.File, name: str) -> None:
        """Open the data set `name` of the root.

        Raises:
            EmbeddingsFileError: it is missing, has no rows or no values of its own.
        """
        self._where = f"{file.filename}: data set {name!r}"
        with reading(self._where, EmbeddingsFileError):
            try:
                self._dataset = open_dataset(file, name)
            except KeyError:
                raise EmbeddingsFileError(f"{self._where} is missing", CORRUPT_HINT) from None
            self.shape: tuple[int, ...] = tuple(self._dataset.shape or ())
            self.dtype: np.dtype[Any] = self._dataset.dtype
            self._mapped = _mapped(file, self._dataset)
        if not self.shape:
            raise EmbeddingsFileError(f"{self._where} has no rows", CORRUPT_HINT)

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, begin: int, end: int) -> Array:
        """Rows `begin` to `end` as a new array.

        Raises:
            EmbeddingsFileError: they do not exist, or cannot be read.
        """
        if not 0 <= begin <= end <= len(self):
            what = f"rows {begin} to {end} of {len(self)} do not exist"
            raise EmbeddingsFileError(f"{self._where}: {what}", CORRUPT_HINT)
        if self._mapped is not None:
            return np.array(self._mapped[begin:end])
        with reading(f"{self._where}, rows {begin} to {end}", EmbeddingsFileError):
            return read_dataset(self._dataset, slice(begin, end))


def _mapped(file: h5py.File, dataset: h5py.Dataset) -> Array | None:
    """The values as a memory map; None where they are not contiguous or cannot be mapped."""
    properties = dataset.id.get_create_plist()
    offset = dataset.id.get_offset()
    if properties.get_layout() != h5d.CONTIGUOUS or offset is None or not dataset.size:
        return None
    if file.userblock_size or dataset.dtype.kind not in "fiu":
        return None
    try:
        mapped = np.memmap(file.filename, dataset.dtype, "r", int(offset), dataset.shape)
    except (OSError, ValueError):  # a file system that cannot map files; HDF5 reads the same values
        return None
    return mapped.view(np.ndarray)
