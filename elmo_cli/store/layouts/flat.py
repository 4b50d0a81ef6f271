"""flat: the vectors of all sentences in one array, with columns beside it; for large corpora."""

from __future__ import annotations

import json
from array import array as integers
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import h5py
import numpy as np

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.int8 import INT8
from elmo_cli.store.layouts.base import SentenceReader, is_number, is_pooled
from elmo_cli.store.layouts.dataset_writer import create_dataset
from elmo_cli.store.layouts.documents import document_and_place
from elmo_cli.store.layouts.rows import Columns, RowLayout, Rows, RowWriter
from elmo_cli.store.layouts.stored_sentence import (
    Array,
    Handle,
    Key,
    Scales,
    SentenceInfo,
    StoredSentence,
    Totals,
)
from elmo_cli.text.sentence import Sentence


class Flat(RowLayout):
    """The data sets of section `flat` of SCHEMA.md."""

    name = "flat"
    rows_name = "vectors"
    needs = frozenset({"tokens", "text order"})
    supports_int8 = True
    metadata_bytes = (36, 14)

    def identity(self, sentence: Sentence) -> bytes:
        text = sentence.text or " ".join(sentence.tokens)
        document: tuple[object, ...] = ()
        if sentence.document:
            document = (sentence.document, sentence.place, sentence.offset)
        return json.dumps([sentence.key, sentence.tokens, text, *document]).encode("ascii")

    def to_file(self, array: Array, *, pooled: bool) -> Array:
        if pooled:
            return array[np.newaxis]
        return array.swapaxes(0, 1) if array.ndim == 3 else array

    def from_file(self, values: Array, *, pooled: bool) -> Array:
        if pooled:
            return np.asarray(values[0])
        return np.ascontiguousarray(values.swapaxes(0, 1)) if values.ndim == 3 else values

    def columns(self, file: h5py.File, totals: Totals) -> Columns:
        return _FlatColumns(file, totals)

    def open(self, file: h5py.File, attributes: Mapping[str, Any]) -> SentenceReader:
        return FlatReader(self, file, attributes)

    def python_example(self, key: Key, reader: SentenceReader) -> list[str]:
        position = int(reader.find(key))
        values, scales = reader.stored(position)
        layer = "layer, " * (values.ndim == 3)
        rows, axes, lines = f"[{position}]", f"{layer}dim", []
        if not reader.pooled:
            lines = [f"begin, end = file['offsets'][{position}:{position + 2}]"]
            rows, axes = "[begin:end]", f"token, {layer}dim"
        scaled = "" if scales is None else f" * file['scales']{rows}[..., None]"
        return [*lines, f"array = file['vectors']{rows}{scaled}  # axes: {axes}"]


class _Strings:
    """Many strings as one array of bytes and the end of each."""

    def __init__(self) -> None:
        self.bytes, self.ends = bytearray(), integers("q")

    def add(self, *strings: str) -> int:
        """Add strings; how many there are now."""
        end, joined = len(self.bytes), "".join(strings)
        # JSON can contain half a surrogate pair, which is kept.
        self.bytes += joined.encode("utf-8", "surrogatepass")
        if joined.isascii():
            lengths = list(map(len, strings))
        else:
            lengths = [len(string.encode("utf-8", "surrogatepass")) for string in strings]
        self.ends.extend(accumulate(lengths[1:], initial=end + lengths[0]) if lengths else ())
        return len(self.ends)


class _FlatColumns(Columns):
    """What is known of the sentences; texts and documents are written only where needed."""

    def __init__(self, file: h5py.File, totals: Totals) -> None:
        self._file, self._scales = file, None
        if totals.dtype == INT8 and totals.row_shape is not None:
            shape = (totals.rows, *totals.row_shape[:-1])
            self._scales = RowWriter(file, "scales", shape, np.dtype("<f4"))
        self._offsets, self._keys = integers("q", [0]), integers("q")
        self._places, self._part_offsets = integers("q"), integers("q")
        self._tokens, self._texts, self._documents = _Strings(), _Strings(), _Strings()

    def add(self, stored: StoredSentence) -> None:
        sentence = stored.sentence
        if self._scales is not None and stored.scales is not None:
            self._scales.add(stored.scales)
        self._offsets.append(self._tokens.add(*sentence.tokens))
        self._texts.add("" if sentence.text == " ".join(sentence.tokens) else sentence.text)
        self._documents.add(sentence.document or "")
        self._keys.append(sentence.key)
        self._places.append(sentence.place if sentence.document else 0)
        self._part_offsets.append(sentence.offset if sentence.document else 0)

    def close(self) -> None:
        if self._scales is not None:
            self._scales.close()
        self._write("offsets", self._offsets)
        self._write("keys", self._keys)
        self._write_strings("token", self._tokens)
        if self._texts.bytes:
            self._write_strings("text", self._texts)
        if self._documents.bytes:
            self._write_strings("document", self._documents)
            self._write("places", self._places)
            self._write("part_offsets", self._part_offsets)

    def _write_strings(self, name: str, strings: _Strings) -> None:
        self._write(f"{name}_bytes", strings.bytes, "u1")
        self._write(f"{name}_ends", strings.ends)

    def _write(self, name: str, content: bytearray | integers[int], dtype: str = "<i8") -> None:
        values = np.frombuffer(content, dtype)
        dataset = create_dataset(self._file, name, values.shape, values.dtype)
        if values.size:
            dataset[...] = values


class FlatReader(SentenceReader):
    """The sentences of a `flat` file; handles are positions."""

    def __init__(self, layout: Flat, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        self._layout, self._file, self._path = layout, file, str(file.filename)
        self.pooled = is_pooled(attributes)
        self._opened: dict[str, Rows] = {}
        self._has_texts, self._has_documents = "text_ends" in file, "document_ends" in file
        self._n = max(0, len(self._rows("offsets")) - 1)

    @property
    def records(self) -> frozenset[str]:
        return frozenset({"tokens", *(("document", "part offset") if self._has_documents else ())})

    def __len__(self) -> int:
        return self._n

    def handles(self) -> Iterator[Handle]:
        return iter(range(self._n))

    def key(self, handle: Handle) -> int:
        return self._integer("keys", int(handle))

    def find(self, key: Key) -> int:
        number = int(key) if isinstance(key, str) and is_number(key) else key
        if isinstance(number, int):
            position = int(np.searchsorted(self._keys, number))
            found = position if position < self._n and self._keys[position] == number else None
        else:
            found = self._positions.get(document_and_place(key) or ("", 0))
        if found is None:
            numbers = f"numbers go from {self.key(0)} to {self.key(self._n - 1)}" if self._n else ""
            raise KeyError(f"{self._path}: no sentence {key!r}; {numbers or 'the file has none'}")
        return found

    def shape(self, handle: Handle) -> tuple[int, ...]:
        begin, end = self._span(int(handle))
        *layers, dim = self._rows("vectors").shape[1:]
        return (*layers, dim) if self.pooled else (*layers, end - begin, dim)

    def stored(self, handle: Handle) -> tuple[Array, Scales | None]:
        begin, end = self._span(int(handle))
        values = self._rows("vectors").read(begin, end)
        is_int8 = values.dtype == INT8
        return values, self._rows("scales").read(begin, end) if is_int8 else None

    def example(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        return (self.shape(0), self._rows("vectors").dtype) if self._n else None

    def identity(self, handle: Handle) -> bytes:
        return self._layout.identity(self.info(handle).sentence())

    def info(self, handle: Handle, position: int | None = None) -> SentenceInfo:
        i = int(handle)
        tokens = tuple(self._strings("token", *self._offsets(i)))
        text = self._strings("text", i, i + 1)[0] if self._has_texts else ""
        info = SentenceInfo(i, self.key(i), tokens, text or " ".join(tokens))
        document = self._strings("document", i, i + 1)[0] if self._has_documents else ""
        if not document:
            return info
        place, offset = self._integer("places", i), self._integer("part_offsets", i)
        return SentenceInfo(i, info.key, tokens, info.text, document, place, offset)

    @cached_property
    def _keys(self) -> Array:
        return self._rows("keys").read(0, self._n)

    @cached_property
    def _positions(self) -> dict[tuple[str, int], int]:
        """Document and number within it -> position."""
        if not self._has_documents:
            return {}
        documents = self._strings("document", 0, self._n)
        places = self._rows("places").read(0, self._n).tolist()
        return {pair: i for i, pair in enumerate(zip(documents, places, strict=True)) if pair[0]}

    def _span(self, position: int) -> tuple[int, int]:
        """The rows of a sentence in `vectors`."""
        return (position, position + 1) if self.pooled else self._offsets(position)

    def _offsets(self, position: int) -> tuple[int, int]:
        begin, end = self._rows("offsets").read(position, position + 2).tolist()
        if not 0 <= begin <= end:
            raise self._corrupt(f"data set 'offsets' goes from {begin} to {end}")
        return begin, end

    def _integer(self, name: str, position: int) -> int:
        return int(self._rows(name).read(position, position + 1)[0])

    def _strings(self, name: str, begin: int, end: int) -> list[str]:
        """Strings `begin` to `end` of the pair NAME_bytes, NAME_ends."""
        if begin == end:
            return []
        ends = self._rows(f"{name}_ends").read(max(0, begin - 1), end).tolist()
        ends = ends if begin else [0, *ends]
        if ends != sorted(ends):
            raise self._corrupt(f"data set '{name}_ends' decreases")
        content = self._rows(f"{name}_bytes").read(ends[0], ends[-1]).tobytes()
        cuts = pairwise(end - ends[0] for end in ends)
        try:
            return [content[a:b].decode("utf-8", "surrogatepass") for a, b in cuts]
        except UnicodeDecodeError as error:
            raise self._corrupt(f"data set '{name}_bytes': {error}") from None

    def _rows(self, name: str) -> Rows:
        """One of the data sets, of a type and shape that the layout allows."""
        if name not in self._opened:
            rows = Rows(self._file, name)
            kinds, n_axes = _KINDS.get(name, ("iu", (1,)))
            fits = rows.dtype.kind in kinds or (name == "vectors" and rows.dtype == INT8)
            if not fits or len(rows.shape) not in n_axes:
                raise self._corrupt(f"data set {name!r} has {rows.dtype} in shape {rows.shape}")
            self._opened[name] = rows
        return self._opened[name]

    def _corrupt(self, what: str) -> EmbeddingsFileError:
        return EmbeddingsFileError(f"{self._path}: {what}", CORRUPT_HINT)


_KINDS = {"vectors": ("f", (2, 3)), "scales": ("f", (1, 2))}  # kinds of dtype, numbers of axes
