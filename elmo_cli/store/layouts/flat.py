"""flat: the vectors of all sentences in one data set, what is known of them in columns."""

from __future__ import annotations

import json
from array import array as integers
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import h5py
import numpy as np

from elmo_cli import hdf5
from elmo_cli.arrays import AnyArray
from elmo_cli.store.layouts.base import (
    Facts,
    Handle,
    Key,
    Layout,
    SentenceInfo,
    SentenceReader,
    StoredSentence,
    ValueSink,
    is_number,
)
from elmo_cli.store.layouts.documents import document_and_place
from elmo_cli.store.layouts.rows import RowLayout, Rows, RowWriter
from elmo_cli.store.quantization import INT8
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence


class FlatWriter(RowWriter):
    """Writes the vectors, then what is known of the sentences in columns."""

    def __init__(self, layout: Layout, file: h5py.File, spec: FileSpec, sink: ValueSink) -> None:
        super().__init__(layout, file, spec, sink)
        self._columns = _FlatColumns()

    def add(self, stored: StoredSentence) -> None:
        super().add(stored)
        self._columns.add(stored)

    def finish(self) -> Facts:
        attributes = super().finish()
        for name, values in self._columns.arrays().items():
            dataset = hdf5.create_contiguous(self.file, name, values.shape, values.dtype)
            if values.size:
                dataset[...] = values
        return attributes


class FlatReader(SentenceReader):
    """The sentences of a `flat` file; handles are positions."""

    def __init__(self, layout: Layout, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        super().__init__(layout, file, attributes)
        self._opened: dict[str, Rows] = {}
        self._has_texts = "text_ends" in file
        self._has_documents = "document_ends" in file

    @property
    def records(self) -> frozenset[str]:
        of_documents = {"document", "part offset"} if self._has_documents else set()
        return frozenset({"tokens"} | of_documents)

    def __len__(self) -> int:
        return max(0, self._rows("offsets").shape[0] - 1)

    def find(self, key: Key) -> int:
        if is_number(str(key)):
            position = self._position_of_key(int(str(key)))
        else:
            position = self._positions.get(document_and_place(key))
        if position is None:
            raise self.no_sentence(key)
        return position

    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        begin, end = self._span(int(handle))
        vectors = self._rows("vectors")
        *layers, dim = vectors.shape[1:]
        tokens = [] if self.pooled else [end - begin]
        return (*layers, *tokens, dim), vectors.dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, AnyArray | None]:
        begin, end = self._span(int(handle))
        values = self._rows("vectors").read(begin, end, layer)
        if values.dtype != INT8:
            return values, None
        return values, self._rows("scales").read(begin, end, layer)

    def key(self, handle: Handle) -> int:
        return self._integer("keys", int(handle))

    def info(self, handle: Handle) -> SentenceInfo:
        position = int(handle)
        tokens = tuple(self._strings("token", *self._offsets(position)))
        text = self._string("text", position) if self._has_texts else ""
        document = self._string("document", position) if self._has_documents else ""
        if not document:
            return SentenceInfo(tokens=tokens, text=text or " ".join(tokens))
        return SentenceInfo(
            tokens=tokens,
            text=text or " ".join(tokens),
            document=document,
            place=self._integer("places", position),
            offset=self._integer("part_offsets", position),
        )

    @cached_property
    def _keys(self) -> AnyArray:
        return self._rows("keys").read(0, len(self))

    @cached_property
    def _positions(self) -> dict[tuple[str, int] | None, int]:
        """Document and number within it -> position."""
        if not self._has_documents:
            return {}
        documents = self._strings("document", 0, len(self))
        places = self._rows("places").read(0, len(self)).tolist()
        positions: dict[tuple[str, int] | None, int] = {}
        for position, (document, place) in enumerate(zip(documents, places, strict=True)):
            if document:
                positions[document, place] = position
        return positions

    def _position_of_key(self, number: int) -> int | None:
        position = int(np.searchsorted(self._keys, number))
        is_listed = position < len(self._keys) and int(self._keys[position]) == number
        return position if is_listed else None

    def _span(self, position: int) -> tuple[int, int]:
        """The rows of a sentence in `vectors`."""
        return (position, position + 1) if self.pooled else self._offsets(position)

    def _offsets(self, position: int) -> tuple[int, int]:
        """The tokens of a sentence among those of all sentences."""
        begin, end = self._rows("offsets").read(position, position + 2).tolist()
        if not 0 <= begin <= end:
            raise self.corrupt(f"data set 'offsets' goes from {begin} to {end}")
        return begin, end

    def _integer(self, name: str, position: int) -> int:
        return int(self._rows(name).read(position, position + 1)[0])

    def _string(self, name: str, position: int) -> str:
        return self._strings(name, position, position + 1)[0]

    def _strings(self, name: str, begin: int, end: int) -> list[str]:
        """Strings `begin` to `end` of the pair NAME_bytes, NAME_ends."""
        if begin == end:
            return []
        # Each string begins where the one before it ends, the first at 0.
        cuts = self._rows(f"{name}_ends").read(max(0, begin - 1), end).tolist()
        if begin == 0:
            cuts = [0, *cuts]
        start = cuts[0]
        content = self._rows(f"{name}_bytes").read(start, max(cuts)).tobytes()
        strings = []
        try:
            for string_begin, string_end in pairwise(cuts):
                encoded = content[string_begin - start : string_end - start]
                strings.append(encoded.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            raise self.corrupt(f"data set '{name}_bytes': {error}") from None
        return strings

    def _rows(self, name: str) -> Rows:
        if name not in self._opened:
            self._opened[name] = Rows(self.file, name)
        return self._opened[name]


class Flat(RowLayout):
    """The data sets of section `flat` of SCHEMA.md."""

    name = "flat"
    writer = FlatWriter
    reader = FlatReader
    needs = frozenset({"tokens", "text order"})
    supports_int8 = True
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
        return np.ascontiguousarray(values.swapaxes(0, 1)) if values.ndim == 3 else values


class _FlatColumns:
    """Collects what is known of the sentences besides their vectors, by name of the data set."""

    def __init__(self) -> None:
        self._scales = bytearray()
        self._scales_shape: tuple[int, ...] | None = None  # of one row
        self._bytes = {name: bytearray() for name in ("token", "text", "document")}
        self._integers: dict[str, Any] = defaultdict(partial(integers, "q"))
        self._integers["offsets"].append(0)

    def add(self, stored: StoredSentence) -> None:
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

    def _add_strings(self, name: str, strings: Sequence[str]) -> None:
        content = self._bytes[name]
        ends = self._integers[f"{name}_ends"]
        for string in strings:
            # JSON can contain half a surrogate pair, which is kept.
            content += string.encode("utf-8", "surrogatepass")
            ends.append(len(content))

    def arrays(self) -> dict[str, AnyArray]:
        """The data sets in their order; lines and documents only where some sentence has one."""
        arrays: dict[str, AnyArray] = {}
        if self._scales_shape is not None:
            arrays["scales"] = np.frombuffer(self._scales, "<f4").reshape(-1, *self._scales_shape)
        arrays["offsets"] = self._column("offsets")
        arrays["keys"] = self._column("keys")
        for name, content in self._bytes.items():
            if content or name == "token":
                arrays[f"{name}_bytes"] = np.frombuffer(content, "u1")
                arrays[f"{name}_ends"] = self._column(f"{name}_ends")
        if self._bytes["document"]:
            arrays["places"] = self._column("places")
            arrays["part_offsets"] = self._column("part_offsets")
        return arrays

    def _column(self, name: str) -> AnyArray:
        return np.frombuffer(self._integers[name], "<i8")
