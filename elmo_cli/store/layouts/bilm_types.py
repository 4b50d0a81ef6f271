"""bilm-types: one vector per line of a vocabulary (`dump_token_embeddings` of bilm-tf)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.store.layouts.base import Sample, SentenceReader, is_number
from elmo_cli.store.layouts.rows import RowLayout, Rows
from elmo_cli.store.layouts.stored_sentence import (
    Array,
    Handle,
    Key,
    SentenceInfo,
)
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence


class BilmTypes(RowLayout):
    """One data set, (type, projection); row i is line i of the vocabulary."""

    name = "bilm-types"
    rows_name = "embedding"
    unit = "types"
    needs = frozenset({"text order"})
    metadata_bytes = (12, 0)

    def identity(self, sentence: Sentence) -> bytes:
        return b""  # the file records nothing of a type but its row

    def to_file(self, array: Array, *, pooled: bool) -> Array:
        return array.reshape(1, -1)

    def from_file(self, values: Array, *, pooled: bool) -> Array:
        return np.asarray(values[0])

    def _check_array(self, sentence: Sentence, array: Array, spec: FileSpec) -> None:
        if array.ndim > 2 or array.size != array.shape[-1]:
            what = f"holds one vector per line, got an array of shape {array.shape}"
            hint = "give a vocabulary, one type per line; layout bilm holds sentences"
            raise UsageError(f"{sentence.where}: layout {self.name} {what}", hint)

    def open(self, file: h5py.File, attributes: Mapping[str, Any]) -> SentenceReader:
        return TypeReader(file, self.rows_name)

    def matches(self, file: h5py.File, sample: Sample) -> bool:
        return [(name, dataset.ndim) for name, dataset in sample] == [(self.rows_name, 2)]

    def python_example(self, key: Key, reader: SentenceReader) -> list[str]:
        row = reader.find(key)
        return [f"array = file['{self.rows_name}'][{row}]  # row = line of the vocabulary"]


class TypeReader(SentenceReader):
    """The rows of a file of types; handles are rows."""

    def __init__(self, file: h5py.File, name: str) -> None:
        self._path = str(file.filename)
        self._rows = Rows(file, name) if name in file else None

    def __len__(self) -> int:
        return len(self._rows) if self._rows else 0

    def handles(self) -> Iterator[Handle]:
        return iter(range(len(self)))

    def find(self, key: Key) -> int:
        if isinstance(key, str) and is_number(key):
            key = int(key)
        if not isinstance(key, int) or not 0 <= key < len(self):
            what = f"no row {key!r}; it has {len(self)}, numbered from 0 as in its vocabulary"
            raise KeyError(f"{self._path}: {what}")
        return key

    def key(self, handle: Handle) -> int:
        return int(handle)

    def shape(self, handle: Handle) -> tuple[int, ...]:
        return self._rows.shape[1:] if self._rows else ()

    def stored(self, handle: Handle) -> tuple[Array, None]:
        if self._rows is None:
            raise KeyError(f"{self._path}: no row {handle}")
        return self._rows.read(int(handle), int(handle) + 1), None

    def info(self, handle: Handle, position: int | None = None) -> SentenceInfo:
        return SentenceInfo(int(handle), int(handle))

    def identity(self, handle: Handle) -> bytes:
        return b""

    def example(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        return (self._rows.shape[1:], self._rows.dtype) if self._rows and len(self) else None
