"""Contiguous data sets: created with space for their values, and read by rows."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.hdf5 import NoSuchNameError, open_dataset, read_dataset, reading
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layouts.base import Array

TRACKED = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED


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
    offset = dataset.id.get_offset()  # None where the values are not contiguous
    is_plain = dataset.dtype.kind in "fiu" and not file.userblock_size
    if offset is not None and is_plain and dataset.size:
        with suppress(OSError, ValueError):  # a file system that cannot map files
            mapped = np.memmap(file.filename, dataset.dtype, "r", int(offset), dataset.shape)
            return mapped.view(np.ndarray)
    return None


def create_dataset(
    file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> h5py.Dataset:
    """Create a contiguous data set in the root, with space for its values and no values yet."""
    space, kind = h5s.create_simple(shape), h5t.py_create(dtype)
    return h5py.Dataset(h5d.create(file.id, name.encode("ascii"), kind, space, contiguous()))


def contiguous() -> h5p.PropDCID:
    """Properties of a data set: contiguous, allocated at once, never filled, without times."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_layout(h5d.CONTIGUOUS)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    return properties
