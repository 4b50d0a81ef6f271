"""flat: the vectors of all sentences in one data set, and what is known of them in columns."""

from __future__ import annotations

import math
import os
from json.encoder import encode_basestring_ascii

import h5py
import numpy as np

from elmo_cli import hdf5
from elmo_cli.arrays import AnyArray
from elmo_cli.files import StrPath
from elmo_cli.store.layouts.base import (
    Facts,
    Layout,
    ValueSink,
)
from elmo_cli.store.layouts.flat_reader import FlatReader
from elmo_cli.store.layouts.rows import RowLayout, RowWriter
from elmo_cli.store.layouts.sentence_columns import SentenceColumns
from elmo_cli.store.layouts.spool import Spool
from elmo_cli.store.layouts.stored_sentence import StoredSentence
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence


class FlatWriter(RowWriter):
    """Writes the vectors, then what is known of the sentences in columns."""

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._columns = SentenceColumns(os.path.dirname(file.filename))

    def add(self, stored: StoredSentence) -> None:
        super().add(stored)
        self._columns.add(stored)

    def add_collected(self, values: AnyArray, columns: SentenceColumns) -> None:
        self.add_rows(values)
        self._columns.close()
        self._columns = columns

    def finish(self) -> Facts:
        attributes = super().finish()
        for name, spool, row_shape in self._columns.data_sets():
            _write_data_set(self.file, name, spool, row_shape)
        return attributes

    def close(self) -> None:
        self._columns.close()


def _write_data_set(file: h5py.File, name: str, spool: Spool, row_shape: tuple[int, ...]) -> None:
    """Write the values of a spool as a data set, one chunk at a time."""
    row_size = math.prod(row_shape)
    shape = (len(spool) // row_size, *row_shape)
    dataset = hdf5.create_contiguous(file, name, shape, spool.dtype)
    begin = 0
    for chunk in spool.chunks(row_size):
        rows = chunk.reshape(-1, *row_shape)
        dataset[begin : begin + len(rows)] = rows
        begin += len(rows)


class Flat(RowLayout):
    """The data sets of section `flat` of SCHEMA.md."""

    name = "flat"
    writer = FlatWriter
    reader = FlatReader
    needs = frozenset({"tokens", "text order"})
    records_lines = True
    supports_int8 = True
    tokens_first = True
    metadata_bytes = (36, 14)
    rows_name = "vectors"

    def new_columns(self, folder: StrPath) -> SentenceColumns:
        return SentenceColumns(folder)

    def identity(self, sentence: Sentence) -> bytes:
        # What `json.dumps` returns for a list of these, in less than half of the time.
        tokens = ", ".join(map(encode_basestring_ascii, sentence.tokens))
        text = encode_basestring_ascii(sentence.text or " ".join(sentence.tokens))
        document = ""
        if sentence.document:
            name = encode_basestring_ascii(sentence.document)
            document = f", {name}, {sentence.place}, {sentence.offset}"
        return f"[{sentence.key}, [{tokens}], {text}{document}]".encode("ascii")

    def to_file(self, array: AnyArray, *, pooled: bool) -> AnyArray:
        if pooled:
            return array[np.newaxis]
        return array.swapaxes(0, 1) if array.ndim == 3 else array

    def from_file(self, values: AnyArray, *, pooled: bool) -> AnyArray:
        if pooled:
            return np.asarray(values[0])
        return values.swapaxes(0, 1) if values.ndim == 3 else values
