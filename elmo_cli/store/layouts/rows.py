"""Layouts with one large data set for all sentences; and the simplest of them, bilm-types."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import h5py
import numpy as np
from h5py import h5d

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.hdf5 import NoSuchNameError, open_dataset, read_dataset, reading
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layouts.base import Layout, Sample, SentenceReader, is_number
from elmo_cli.store.layouts.dataset_writer import create_dataset
from elmo_cli.store.layouts.stored_sentence import (
    Array,
    ArrayType,
    Facts,
    Handle,
    Key,
    Stored,
    ValueSink,
)
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence


class RowLayout(Layout):
    """A layout whose first data set holds the vectors of all sentences, named `rows_name`."""

    alignment = 4096
    data_start = 3 * 4096
    rows_name: ClassVar[str]

    def write(self, file: h5py.File, sentences: Stored, spec: FileSpec, sink: ValueSink) -> Facts:
        row_shape, address, n = None, 0, 0
        for stored in sentences:
            values = stored.values
            if row_shape is None:
                row_shape = values.shape[1:]
                vectors = create_dataset(
                    file, self.rows_name, (sink.n_rows, *row_shape), values.dtype
                )
                address = vectors.id.get_offset() or 0  # nothing has no address
            if values.shape[1:] != row_shape:
                raise ValueError(f"rows of {values.shape[1:]} after rows of {row_shape}")
            if values.size:
                sink.put(address, values)
            address += values.nbytes
            n += len(values)
        if n != sink.n_rows:
            raise ValueError(f"{n} rows were written, not {sink.n_rows}")
        return {}


class Rows:
    """Reads rows of a data set, from the mapped file where its values are contiguous in it."""

    def __init__(self, file: h5py.File, name: str) -> None:
        self._where = f"{file.filename}: data set {name!r}"
        with reading(self._where, EmbeddingsFileError):
            try:
                dataset = open_dataset(file, name)
            except NoSuchNameError:
                raise self.corrupt("is missing") from None
            self.shape: tuple[int, ...] = tuple(dataset.shape or ())
            self.dtype: np.dtype[Any] = dataset.dtype
            self._dataset = dataset
            self._mapped = _mapped(file, dataset)
        if not self.shape:
            raise self.corrupt("has no rows")

    def read(self, begin: int, end: int, layer: int | None = None) -> Array:
        """Read rows `begin` to `end` as a new array; of one index of the second axis if given."""
        if not 0 <= begin <= end <= self.shape[0]:
            raise self.corrupt(f"has {self.shape[0]} rows, not {begin} to {end}")
        rows = slice(begin, end)
        selection = rows if layer is None else (rows, slice(layer, layer + 1))
        if self._mapped is not None:
            return np.array(self._mapped[selection])
        with reading(f"{self._where}, rows {begin} to {end}", EmbeddingsFileError):
            return read_dataset(self._dataset, selection)

    def corrupt(self, what: str) -> EmbeddingsFileError:
        """The error for something wrong in the data set."""
        return EmbeddingsFileError(f"{self._where} {what}", CORRUPT_HINT)


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


class TypeReader(SentenceReader):
    """The rows of a file of types; handles are rows."""

    layout: BilmTypes

    def __len__(self) -> int:
        return self._rows.shape[0] if self.layout.rows_name in self._file else 0

    def find(self, key: Key) -> int:
        if is_number(str(key)) and int(str(key)) < len(self):
            return int(str(key))
        raise self.no_sentence(key)

    def array_type(self, handle: Handle) -> ArrayType:
        return self._rows.shape[1:], self._rows.dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[Array, None]:
        return self._rows.read(int(handle), int(handle) + 1), None

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self._file, self.layout.rows_name)


class BilmTypes(RowLayout):
    """One vector per line of a vocabulary (`dump_token_embeddings` of bilm-tf), (type, dim)."""

    name = "bilm-types"
    reader = TypeReader
    rows_name = "embedding"
    unit = "types"
    metadata_bytes = (12, 0)

    def identity(self, sentence: Sentence) -> bytes:
        return b""  # the file records nothing of a type but its row

    def to_file(self, array: Array, *, pooled: bool) -> Array:
        return array.reshape(1, -1)

    def from_file(self, values: Array, *, pooled: bool) -> Array:
        return np.asarray(values[0])

    def holds(self, array: Array, n_tokens: int, *, pooled: bool) -> bool:
        return array.ndim <= 2 and array.size == array.shape[-1]

    def matches(self, file: h5py.File, sample: Sample) -> bool:
        return [(name, dataset.ndim) for name, dataset in sample] == [(self.rows_name, 2)]
