"""flat: the vectors of all sentences in one data set, and what is known of them in columns."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence

import h5py
import numpy as np

from elmo_cli import hdf5
from elmo_cli.arrays import AnyArray
from elmo_cli.files import StrPath
from elmo_cli.store.layouts.base import (
    Facts,
    Layout,
    StoredSentence,
    ValueSink,
)
from elmo_cli.store.layouts.flat_reader import FlatReader
from elmo_cli.store.layouts.rows import RowLayout, RowWriter
from elmo_cli.store.layouts.spool import Spool
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

_MAX_PENDING = 1 << 18  # values in memory, in `SentenceColumns`


class FlatWriter(RowWriter):
    """Writes the vectors, then what is known of the sentences in columns."""

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._columns = SentenceColumns(os.path.dirname(file.filename))

    def add(self, stored: StoredSentence) -> None:
        super().add(stored)
        self._columns.add(stored)

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

    def identity(self, sentence: Sentence) -> bytes:
        facts = [sentence.key, sentence.tokens, sentence.text or " ".join(sentence.tokens)]
        if sentence.document:
            facts += [sentence.document, sentence.place, sentence.offset]
        return json.dumps(facts).encode("ascii")

    def to_file(self, array: AnyArray, *, pooled: bool) -> AnyArray:
        if pooled:
            return array[np.newaxis]
        return array.swapaxes(0, 1) if array.ndim == 3 else array

    def from_file(self, values: AnyArray, *, pooled: bool) -> AnyArray:
        if pooled:
            return np.asarray(values[0])
        return values.swapaxes(0, 1) if values.ndim == 3 else values


class SentenceColumns:
    """Collects what is known of the sentences besides their vectors, by name of the data set.

    Args:
        folder: the folder of temporary files; its disk needs space for the columns.
        has_tokens: whether the tokens are columns, too.
    """

    def __init__(self, folder: StrPath, *, has_tokens: bool = True) -> None:
        self._scales = Spool(folder, "<f4")
        self._row_shape_of_scales: tuple[int, ...] | None = None
        self._has_tokens = has_tokens
        self._bytes: dict[str, Spool] = {}
        self._integers: dict[str, Spool] = {}
        for name in ("token", "text", "document"):
            self._bytes[name] = Spool(folder, "u1")
            self._integers[f"{name}_ends"] = Spool(folder, "<i8")
        for name in ("offsets", "keys", "places", "part_offsets"):
            self._integers[name] = Spool(folder, "<i8")
        self._append("offsets", 0)
        self._n_tokens = 0

    def add(self, stored: StoredSentence) -> None:
        """Add a sentence."""
        sentence = stored.sentence
        if stored.scales is not None:
            self._scales.pending.frombytes(stored.scales.tobytes())
            self._row_shape_of_scales = stored.scales.shape[1:]
        has_own_text = sentence.text != " ".join(sentence.tokens)
        if self._has_tokens:
            self._add_strings("token", sentence.tokens)
        self._add_strings("text", [sentence.text if has_own_text else ""])
        self._add_strings("document", [sentence.document or ""])
        self._n_tokens += len(sentence.tokens)
        self._append("offsets", self._n_tokens)
        self._append("keys", sentence.key)
        self._append("places", sentence.place if sentence.document else 0)
        self._append("part_offsets", sentence.offset if sentence.document else 0)
        if self._n_pending() > _MAX_PENDING:
            for spool in self._spools():
                spool.move_to_disk()

    def _append(self, name: str, number: int) -> None:
        self._integers[name].pending.append(number)

    def _add_strings(self, name: str, strings: Sequence[str]) -> None:
        content = self._bytes[name]
        end = len(content)
        pending = content.pending
        ends = self._integers[f"{name}_ends"].pending
        for string in strings:
            # JSON can contain half a surrogate pair, which is kept.
            encoded = string.encode("utf-8", "surrogatepass")
            pending.frombytes(encoded)
            end += len(encoded)
            ends.append(end)

    def _n_pending(self) -> int:
        """About how many values are in memory: bytes of tokens and texts, and sentences."""
        n_token_bytes = len(self._bytes["token"].pending)
        n_text_bytes = len(self._bytes["text"].pending)
        n_sentences = len(self._integers["keys"].pending)
        return n_token_bytes + n_text_bytes + n_sentences

    def data_sets(self) -> Iterator[tuple[str, Spool, tuple[int, ...]]]:
        """Yield the name, the values and the shape of a row of each data set, in file order.

        Data sets of lines and documents exist only if some sentence has one.
        """
        if self._row_shape_of_scales is not None:
            yield "scales", self._scales, self._row_shape_of_scales
        yield "offsets", self._integers["offsets"], ()
        yield "keys", self._integers["keys"], ()
        for name, content in self._bytes.items():
            if len(content) or (name == "token" and self._has_tokens):
                yield f"{name}_bytes", content, ()
                yield f"{name}_ends", self._integers[f"{name}_ends"], ()
        if len(self._bytes["document"]):
            yield "places", self._integers["places"], ()
            yield "part_offsets", self._integers["part_offsets"], ()

    def close(self) -> None:
        """Remove the temporary files."""
        for spool in self._spools():
            spool.close()

    def _spools(self) -> list[Spool]:
        return [self._scales, *self._bytes.values(), *self._integers.values()]
