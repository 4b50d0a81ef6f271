"""bilm-types: one row per line of a vocabulary, the vectors of types."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import h5py
import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.store.layouts.base import (
    Handle,
    Key,
    SampledDatasets,
    SentenceReader,
    is_number,
)
from elmo_cli.store.layouts.rows import RowLayout, Rows
from elmo_cli.text.sentence import Sentence


class TypeReader(SentenceReader):
    """The rows of a file of types; handles are rows."""

    layout: BilmTypes
    keeps_identity = True

    def __len__(self) -> int:
        return self._rows.shape[0] if self.layout.rows_name in self.file else 0

    def find(self, key: Key) -> int:
        if is_number(str(key)) and int(str(key)) < len(self):
            return int(str(key))
        raise self.no_sentence(key)

    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        return self._rows.shape[1:], self._rows.dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, None]:
        return self._rows.read(int(handle), int(handle) + 1), None

    @cached_property
    def _rows(self) -> Rows:
        return Rows(self.file, self.layout.rows_name)


class BilmTypes(RowLayout):
    """One vector per line of a vocabulary (`dump_token_embeddings` of bilm-tf), (type, dim)."""

    name = "bilm-types"
    reader = TypeReader
    unit = "types"
    noun = "type"
    metadata_bytes = (12, 0)
    rows_name = "embedding"

    def identity(self, sentence: Sentence) -> bytes:
        return b""  # the file records nothing of a type but its row

    def to_file(self, array: AnyArray, *, pooled: bool) -> AnyArray:
        return array.reshape(1, -1)

    def from_file(self, values: AnyArray, *, pooled: bool) -> AnyArray:
        return np.asarray(values[0])

    def holds(self, array: AnyArray, n_tokens: int, *, pooled: bool) -> bool:
        return array.ndim <= 2 and array.size == array.shape[-1]

    def matches(self, file: h5py.File, sample: SampledDatasets) -> bool:
        return [(name, dataset.ndim) for name, dataset in sample] == [(self.rows_name, 2)]
