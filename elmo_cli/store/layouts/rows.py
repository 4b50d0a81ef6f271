"""RowLayout: layouts with one large data set for the vectors of all sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import h5py
import numpy as np

from elmo_cli import hdf5
from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.layouts.base import (
    Facts,
    Layout,
    SentenceWriter,
    ValueSink,
)
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.store.quantization import INT8
from elmo_cli.store.spec import FileSpec


@dataclass(frozen=True, kw_only=True)
class _Expected:
    """What the data sets of a name can be.

    Attributes:
        kinds: of the dtype, as NumPy has them; "i1" is int8.
        n_axes: how many axes they can have.
    """

    kinds: tuple[str, ...]
    n_axes: tuple[int, ...]


_EXPECTED = {
    "vectors": _Expected(kinds=("f", "i1"), n_axes=(2, 3)),
    "scales": _Expected(kinds=("f",), n_axes=(1, 2)),
    "embedding": _Expected(kinds=("f",), n_axes=(2,)),
}
_EXPECTED_COLUMN = _Expected(kinds=("i", "u"), n_axes=(1,))  # of any other name


class Rows:
    """Reads rows of a data set, which has to exist and to be what is expected of its name."""

    def __init__(self, file: h5py.File, name: str) -> None:
        self._path = file.filename
        self._name = f"data set {name!r}"
        with hdf5.reading(self._path, EmbeddingsFileError, self._name):
            try:
                self._dataset = hdf5.open_dataset(file, name)
            except hdf5.NoSuchNameError:
                raise self.corrupt("is missing") from None
            self.shape: tuple[int, ...] = tuple(self._dataset.shape or ())
            self.dtype: np.dtype[Any] = self._dataset.dtype
            self._mapped = hdf5.mapped_values(self._dataset)
        expected = _EXPECTED.get(name, _EXPECTED_COLUMN)
        kind = "i1" if self.dtype == INT8 else self.dtype.kind
        if kind not in expected.kinds or len(self.shape) not in expected.n_axes:
            raise self.corrupt(f"has {self.dtype} in shape {self.shape}")

    def read(self, begin: int, end: int, layer: int | None = None) -> AnyArray:
        """Read rows `begin` to `end`; of one index of the second axis if given.

        Where the file is mapped into memory, they are a read-only view of it.
        """
        if not 0 <= begin <= end <= self.shape[0]:
            raise self.corrupt(f"has no rows {begin} to {end}, it ends at {self.shape[0]}")
        rows = slice(begin, end)
        selection = rows if layer is None else (rows, slice(layer, layer + 1))
        if self._mapped is not None:
            mapped: AnyArray = self._mapped[selection]
            return mapped
        part = f"{self._name}, rows {begin} to {end}"
        with hdf5.reading(self._path, EmbeddingsFileError, part):
            return hdf5.read_dataset(self._dataset, selection)

    def corrupt(self, problem: str) -> EmbeddingsFileError:
        """The error for something wrong in the data set."""
        return EmbeddingsFileError(f"{self._name} {problem}", CORRUPT_HINT, where=self._path)


class RowWriter(SentenceWriter):
    """Writes the data set that holds the vectors of all sentences."""

    layout: RowLayout

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._address = 0  # of the next values in the file
        self._n_rows = 0
        self._shapes: set[tuple[int, ...]] = set()  # of one row

    def add(self, stored: StoredSentence) -> None:
        """Add the rows of a sentence; its values go to the sink."""
        self.add_rows(stored.values)

    def add_rows(self, values: AnyArray) -> None:
        """Add the next rows, (row, …); they go to the sink."""
        if not self._shapes:
            self._create_dataset(values)
        if values.size:
            self.sink.put(self._address, values)
        self._shapes.add(values.shape[1:])
        self._address += values.nbytes
        self._n_rows += len(values)

    def finish(self) -> Facts:
        n_expected = self.sink.n_rows
        if self._n_rows != n_expected or len(self._shapes) > 1:
            held = f"{self._n_rows} of {len(self._shapes)} shapes"
            raise EmbeddingsFileError(
                f"expected {n_expected} vectors of one shape, found {held}",
                "embed the text again",
                where=self.file.filename,
            )
        return {}

    def _create_dataset(self, values: AnyArray) -> None:
        shape = (self.sink.n_rows, *values.shape[1:])
        dataset = hdf5.create_contiguous(self.file, self.layout.rows_name, shape, values.dtype)
        self._address = dataset.id.get_offset() or 0  # nothing has no address


class RowLayout(Layout):
    """A layout whose first data set holds the vectors of all sentences, named `rows_name`."""

    writer = RowWriter
    alignment = 4096
    data_start = 3 * 4096
    rows_name: ClassVar[str]
