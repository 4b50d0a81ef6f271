"""bilm-types: one vector per line of a vocabulary (`dump_token_embeddings` of bilm-tf)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import UsageError
from elmo_cli.store.layouts.base import SentenceReader, is_number
from elmo_cli.store.layouts.rows import RowLayout, Rows, RowWriter
from elmo_cli.store.layouts.sentence_datasets import Sample
from elmo_cli.store.layouts.stored_sentence import (
    Array,
    Facts,
    Handle,
    Key,
    SentenceInfo,
    StoredSentence,
    Totals,
)
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence


class BilmTypes(RowLayout):
    """One data set `embedding`, (type, projection); row i is line i of the vocabulary."""

    name = "bilm-types"
    unit = "types"
    needs = frozenset({"text order"})
    rows_name = "embedding"

    def identity(self, sentence: Sentence) -> bytes:
        return b""  # the file records nothing of a type but its row

    def to_file(self, array: Array, *, pooled: bool) -> Array:
        return array.reshape(1, -1)

    def from_file(self, values: Array, *, pooled: bool) -> Array:
        return np.asarray(values[0])

    def _check_array(self, sentence: Sentence, array: Array, spec: FileSpec) -> None:
        if array.ndim > 2 or array.size != array.shape[-1]:
            raise UsageError(
                f"{sentence.where}: layout {self.name} holds one vector per line, got an array of "
                f"shape {array.shape}",
                "give a vocabulary, one type per line; layout bilm holds sentences",
            )

    def _write(
        self,
        file: h5py.File,
        sentences: Iterable[StoredSentence],
        totals: Totals,
        rows: type[RowWriter],
    ) -> Facts:
        if totals.row_shape is not None:
            vectors = rows(file, self.rows_name, (totals.rows, *totals.row_shape), totals.dtype)
            for stored in sentences:
                vectors.add(stored.values)
            vectors.close()
        return Facts()

    def open(self, file: h5py.File, attributes: Mapping[str, Any]) -> SentenceReader:
        return TypeReader(self, file)

    def matches(self, file: h5py.File, sample: Sample) -> bool:
        return [(name, dataset.ndim) for name, dataset in sample] == [(self.rows_name, 2)]

    def python_example(self, key: Key, reader: SentenceReader) -> list[str]:
        row = reader.find(key)
        return [
            f"array = file['{self.rows_name}'][{row}]  # row = line of the vocabulary"
        ]


class TypeReader(SentenceReader):
    """The rows of a `bilm-types` file; handles are rows."""

    def __init__(self, layout: BilmTypes, file: h5py.File) -> None:
        self._path = str(file.filename)
        name = layout.rows_name
        self._rows = Rows(file, name) if name in file else None

    def __len__(self) -> int:
        return len(self._rows) if self._rows else 0

    def handles(self) -> Iterator[Handle]:
        return iter(range(len(self)))

    def key(self, handle: Handle) -> int:
        return int(handle)

    def find(self, key: Key) -> int:
        if isinstance(key, str) and is_number(key):
            key = int(key)
        if not isinstance(key, int) or not 0 <= key < len(self):
            what = f"no row {key!r}; it has {len(self)}, numbered from 0 as in its vocabulary"
            raise KeyError(f"{self._path}: {what}")
        return key

    def shape(self, handle: Handle) -> tuple[int, ...]:
        return self._rows.shape[1:] if self._rows else ()

    def stored(self, handle: Handle) -> tuple[Array, NDArray[np.float32] | None]:
        if self._rows is None:
            raise KeyError(f"{self._path}: no row {handle}")
        return self._rows.read(int(handle), int(handle) + 1), None

    def array(self, handle: Handle) -> Array:
        return np.asarray(self.stored(handle)[0][0])

    def tokens(self, handle: Handle) -> None:
        return None

    def info(self, handle: Handle, position: int | None = None) -> SentenceInfo:
        return SentenceInfo(int(handle), int(handle))

    def identity(self, handle: Handle) -> bytes:
        return b""

    def example(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        return (self._rows.shape[1:], self._rows.dtype) if self._rows and len(self) else None
