"""Layouts with one large data set for all sentences: written row by row, read through a map."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import h5py
import numpy as np
from h5py import h5d

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.hdf5 import open_dataset, read_dataset, reading
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layouts.base import Layout
from elmo_cli.store.layouts.dataset_writer import create_dataset, create_file
from elmo_cli.store.layouts.stored_sentence import Array, Facts, StoredSentence, Totals
from elmo_cli.store.spec import DTYPES, FileSpec

_BUFFER_BYTES = 1 << 22


class RowLayout(Layout):
    """A layout whose first data set holds the vectors of all sentences, named `rows_name`."""

    alignment = 4096
    copies_values = False
    rows_name: ClassVar[str]

    def data_start(self, spec: FileSpec, row_shape: tuple[int, ...]) -> int:
        shape = (1, *(max(1, size) for size in row_shape))
        with create_file(None, self.alignment) as file:
            dataset = create_dataset(file, self.rows_name, shape, DTYPES[spec.dtype])
            return int(dataset.id.get_offset())

    def write(
        self, file: h5py.File, sentences: Iterable[StoredSentence], spec: FileSpec, totals: Totals
    ) -> Facts:
        if totals.row_shape is None:
            vectors = None
        else:
            shape = (totals.rows, *totals.row_shape)
            vectors = RowWriter(file, self.rows_name, shape, totals.dtype)
            vectors.with_values = totals.with_values
        columns = self.columns(file, totals)
        for stored in sentences:
            if vectors is not None:
                vectors.add(stored.values)
            columns.add(stored)
        columns.close()
        return Facts() if vectors is None else Facts(extents=vectors.close())

    def columns(self, file: h5py.File, totals: Totals) -> Columns:
        """What the file holds of the sentences besides their vectors."""
        return Columns()


class Columns:
    """No columns; layouts override it."""

    def add(self, stored: StoredSentence) -> None:
        """Add the next sentence."""

    def close(self) -> None:
        """Write what is held back."""


class RowWriter:
    """A new contiguous data set of a known number of rows; its values may be left out."""

    def __init__(
        self, file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        self.with_values = True
        self._dataset, self._shape = create_dataset(file, name, shape, dtype), shape
        self._held: list[Array] = []
        self._bytes = self._n_written = 0

    def add(self, rows: Array) -> None:
        """Write the next rows, (row, …)."""
        if rows.shape[1:] != self._shape[1:]:
            raise ValueError(f"rows of {rows.shape[1:]} in a data set of {self._shape}")
        if not self.with_values:
            self._n_written += len(rows)
            return
        self._held.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= _BUFFER_BYTES:
            self._flush()

    def close(self) -> list[tuple[int, int]]:
        """Write what is held back; address and number of bytes of the values that were left out."""
        self._flush()
        if self._n_written != len(self._dataset):
            raise ValueError(f"{self._n_written} rows of {len(self._dataset)} were written")
        address = self._dataset.id.get_offset()
        left_out = not self.with_values and address is not None
        return [(int(address), self._dataset.nbytes)] if left_out else []

    def _flush(self) -> None:
        if self._held:
            rows = np.concatenate(self._held)
            if rows.size:
                self._dataset[self._n_written : self._n_written + len(rows)] = rows
            self._n_written += len(rows)
        self._held, self._bytes = [], 0


class Rows:
    """Reads rows of a data set, from the mapped file where its values are contiguous in it."""

    def __init__(self, file: h5py.File, name: str) -> None:
        """Open the data set `name` of the root.

        Raises:
            EmbeddingsFileError: it is missing, has no rows, or its values are not in the file.
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
    offset, layout = dataset.id.get_offset(), dataset.id.get_create_plist().get_layout()
    is_plain = layout == h5d.CONTIGUOUS and dataset.dtype.kind in "fiu" and not file.userblock_size
    if offset is None or not is_plain or not dataset.size:
        return None
    try:
        mapped = np.memmap(file.filename, dataset.dtype, "r", int(offset), dataset.shape)
    except (OSError, ValueError):  # a file system that cannot map files; HDF5 reads the same values
        return None
    return mapped.view(np.ndarray)
