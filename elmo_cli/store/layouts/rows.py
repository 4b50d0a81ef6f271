"""Layouts with one large data set for the vectors of all sentences: flat and bilm-types."""

from __future__ import annotations

import json
from array import array as integers
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, ClassVar

import h5py
import numpy as np

from elmo_cli import hdf5
from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.layouts.base import (
    Facts,
    Handle,
    Key,
    Layout,
    SampledDatasets,
    SentenceInfo,
    SentenceReader,
    Stored,
    StoredSentence,
    ValueSink,
    is_number,
)
from elmo_cli.store.layouts.documents import document_and_place
from elmo_cli.store.quantization import INT8
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

# Name of a data set -> kinds of dtype, numbers of axes; columns are integers with one axis.
_KINDS = {"vectors": ("f i1", (2, 3)), "scales": ("f", (1, 2)), "embedding": ("f", (2,))}


class Rows:
    """Reads rows of a data set, which has to exist and to be of a type and shape in `_KINDS`."""

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
        kinds, n_axes = _KINDS.get(name, ("i u", (1,)))
        kind = "i1" if self.dtype == INT8 else self.dtype.kind
        if kind not in kinds.split() or len(self.shape) not in n_axes:
            raise self.corrupt(f"has {self.dtype} in shape {self.shape}")

    def read(self, begin: int, end: int, layer: int | None = None) -> AnyArray:
        """Read rows `begin` to `end` as a new array; of one index of the second axis if given."""
        if not 0 <= begin <= end <= self.shape[0]:
            raise self.corrupt(f"has no rows {begin} to {end}, it ends at {self.shape[0]}")
        rows = slice(begin, end)
        selection = rows if layer is None else (rows, slice(layer, layer + 1))
        if self._mapped is not None:
            return np.array(self._mapped[selection])
        part = f"{self._name}, rows {begin} to {end}"
        with hdf5.reading(self._path, EmbeddingsFileError, part):
            return hdf5.read_dataset(self._dataset, selection)

    def corrupt(self, what: str) -> EmbeddingsFileError:
        """The error for something wrong in the data set."""
        return EmbeddingsFileError(f"{self._name} {what}", CORRUPT_HINT, where=self._path)


class RowLayout(Layout):
    """A layout whose first data set holds the vectors of all sentences, named `rows_name`."""

    alignment = 4096
    data_start = 3 * 4096
    rows_name: ClassVar[str]

    def write(self, file: h5py.File, sentences: Stored, spec: FileSpec, sink: ValueSink) -> Facts:
        shapes, address, n = set[tuple[int, ...]](), 0, 0
        for stored in sentences:
            values = stored.values
            if not shapes:
                shape = sink.n_rows, *values.shape[1:]
                vectors = hdf5.create_contiguous(file, self.rows_name, shape, values.dtype)
                address = vectors.id.get_offset() or 0  # nothing has no address
            if values.size:
                sink.put(address, values)
            shapes.add(values.shape[1:])
            address += values.nbytes
            n += len(values)
        if n != sink.n_rows or len(shapes) > 1:
            what = f"expected {sink.n_rows} vectors of one shape, found {n} of {len(shapes)} shapes"
            raise EmbeddingsFileError(f"{file.filename}: {what}", "embed the text again")
        return {}


class TypeReader(SentenceReader):
    """The rows of a file of types; handles are rows."""

    layout: BilmTypes

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
    rows_name = "embedding"
    unit = "types"
    metadata_bytes = (12, 0)

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


class FlatReader(SentenceReader):
    """The sentences of a `flat` file; handles are positions."""

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        super().__init__(layout, file, attributes)
        self._opened: dict[str, Rows] = {}
        self._has_texts = "text_ends" in file
        self._has_documents = "document_ends" in file

    @property
    def records(self) -> frozenset[str]:
        return frozenset({"tokens", *(("document", "part offset") if self._has_documents else ())})

    def __len__(self) -> int:
        return max(0, self._rows("offsets").shape[0] - 1)

    def key(self, handle: Handle) -> int:
        return self._integer("keys", int(handle))

    def find(self, key: Key) -> int:
        if is_number(str(key)):
            number, keys = int(str(key)), self._keys
            position = int(np.searchsorted(keys, number))
            if keys[position : position + 1].tolist() == [number]:
                return position
        elif (found := document_and_place(key)) in self._positions:
            return self._positions[found]
        raise self.no_sentence(key)

    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        begin, end = self._span(int(handle))
        vectors = self._rows("vectors")
        *layers, dim = vectors.shape[1:]
        return (*layers, *(() if self.pooled else (end - begin,)), dim), vectors.dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, AnyArray | None]:
        rows = *self._span(int(handle)), layer
        values = self._rows("vectors").read(*rows)
        return values, self._rows("scales").read(*rows) if values.dtype == INT8 else None

    def info(self, handle: Handle) -> SentenceInfo:
        i = int(handle)
        tokens = tuple(self._strings("token", *self._offsets(i)))
        text = self._strings("text", i, i + 1)[0] if self._has_texts else ""
        text = text or " ".join(tokens)
        if not self._has_documents or not (document := self._strings("document", i, i + 1)[0]):
            return SentenceInfo(tokens, text)
        place, offset = self._integer("places", i), self._integer("part_offsets", i)
        return SentenceInfo(tokens, text, document, place, offset)

    @cached_property
    def _keys(self) -> AnyArray:
        return self._rows("keys").read(0, len(self))

    @cached_property
    def _positions(self) -> dict[tuple[str, int], int]:
        """Document and number within it -> position."""
        documents = self._strings("document", 0, len(self)) if self._has_documents else []
        places = self._rows("places").read(0, len(self)).tolist() if documents else []
        return {pair: i for i, pair in enumerate(zip(documents, places, strict=True)) if pair[0]}

    def _span(self, position: int) -> tuple[int, int]:
        """The rows of a sentence in `vectors`."""
        return (position, position + 1) if self.pooled else self._offsets(position)

    def _offsets(self, position: int) -> tuple[int, int]:
        begin, end = self._rows("offsets").read(position, position + 2).tolist()
        if not 0 <= begin <= end:
            raise self.corrupt(f"data set 'offsets' goes from {begin} to {end}")
        return begin, end

    def _integer(self, name: str, position: int) -> int:
        return int(self._rows(name).read(position, position + 1)[0])

    def _strings(self, name: str, begin: int, end: int) -> list[str]:
        """Strings `begin` to `end` of the pair NAME_bytes, NAME_ends."""
        if begin == end:
            return []
        ends = self._rows(f"{name}_ends").read(max(0, begin - 1), end).tolist()
        ends = ends if begin else [0, *ends]
        content = self._rows(f"{name}_bytes").read(ends[0], max(ends)).tobytes()
        try:
            cuts = pairwise(end - ends[0] for end in ends)
            return [content[a:b].decode("utf-8", "surrogatepass") for a, b in cuts]
        except UnicodeDecodeError as error:
            raise self.corrupt(f"data set '{name}_bytes': {error}") from None

    def _rows(self, name: str) -> Rows:
        if name not in self._opened:
            self._opened[name] = Rows(self.file, name)
        return self._opened[name]


class Flat(RowLayout):
    """The data sets of section `flat` of SCHEMA.md."""

    name = "flat"
    reader = FlatReader
    rows_name = "vectors"
    needs = frozenset({"tokens", "text order"})
    supports_int8 = True
    metadata_bytes = (36, 14)

    def identity(self, sentence: Sentence) -> bytes:
        known = [sentence.key, sentence.tokens, sentence.text or " ".join(sentence.tokens)]
        if sentence.document:
            known += [sentence.document, sentence.place, sentence.offset]
        return json.dumps(known).encode("ascii")

    def to_file(self, array: AnyArray, *, pooled: bool) -> AnyArray:
        if pooled:
            return array[np.newaxis]
        return array.swapaxes(0, 1) if array.ndim == 3 else array

    def from_file(self, values: AnyArray, *, pooled: bool) -> AnyArray:
        if pooled:
            return np.asarray(values[0])
        return np.ascontiguousarray(values.swapaxes(0, 1)) if values.ndim == 3 else values

    def write(self, file: h5py.File, sentences: Stored, spec: FileSpec, sink: ValueSink) -> Facts:
        columns = _FlatColumns()
        attributes = super().write(file, map(columns.add, sentences), spec, sink)
        for name, values in columns.finished().items():
            dataset = hdf5.create_contiguous(file, name, values.shape, values.dtype)
            if values.size:
                dataset[...] = values
        return attributes


class _FlatColumns:
    """Collects what is known of the sentences besides their vectors, by name of the data set."""

    def __init__(self) -> None:
        self._scales = bytearray()
        self._scales_shape: tuple[int, ...] | None = None  # of one row
        self._bytes = {name: bytearray() for name in ("token", "text", "document")}
        self._integers: dict[str, Any] = defaultdict(partial(integers, "q"))
        self._integers["offsets"].append(0)

    def add(self, stored: StoredSentence) -> StoredSentence:
        """Add a sentence."""
        sentence = stored.sentence
        if stored.scales is not None:
            self._scales += stored.scales.tobytes()
            self._scales_shape = stored.scales.shape[1:]
        has_own_text = sentence.text != " ".join(sentence.tokens)
        self._add_strings("token", sentence.tokens)
        self._add_strings("text", [sentence.text if has_own_text else ""])
        self._add_strings("document", [sentence.document or ""])
        n_tokens_so_far = len(self._integers["token_ends"])
        self._integers["offsets"].append(n_tokens_so_far)
        self._integers["keys"].append(sentence.key)
        self._integers["places"].append(sentence.place if sentence.document else 0)
        self._integers["part_offsets"].append(sentence.offset if sentence.document else 0)
        return stored

    def _add_strings(self, name: str, strings: Sequence[str]) -> None:
        content = self._bytes[name]
        ends = self._integers[f"{name}_ends"]
        for string in strings:
            # JSON can contain half a surrogate pair, which is kept.
            content += string.encode("utf-8", "surrogatepass")
            ends.append(len(content))

    def finished(self) -> dict[str, AnyArray]:
        """The data sets in their order; lines and documents only where some sentence has one."""
        found: dict[str, AnyArray] = {}
        if self._scales_shape is not None:
            found["scales"] = np.frombuffer(self._scales, "<f4").reshape(-1, *self._scales_shape)

        def add_columns(*names: str) -> None:
            found.update((name, np.frombuffer(self._integers[name], "<i8")) for name in names)

        add_columns("offsets", "keys")
        for name, content in self._bytes.items():
            if content or name == "token":
                found[f"{name}_bytes"] = np.frombuffer(content, "u1")
                add_columns(f"{name}_ends")
        if self._bytes["document"]:
            add_columns("places", "part_offsets")
        return found
