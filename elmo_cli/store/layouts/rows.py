"""flat and bilm-types: layouts with one large data set for the vectors of all sentences."""

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
    SentenceWriter,
    StoredSentence,
    ValueSink,
    is_number,
)
from elmo_cli.store.layouts.documents import document_and_place
from elmo_cli.store.quantization import INT8
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.sentence import Sentence

# Name of a data set -> kinds of dtype, numbers of axes.
_KINDS = {
    "vectors": (("f", "i1"), (2, 3)),
    "scales": (("f",), (1, 2)),
    "embedding": (("f",), (2,)),
}
_COLUMN_KINDS = (("i", "u"), (1,))  # of all other data sets


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
        kinds, n_axes = _KINDS.get(name, _COLUMN_KINDS)
        kind = "i1" if self.dtype == INT8 else self.dtype.kind
        if kind not in kinds or len(self.shape) not in n_axes:
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
        values = stored.values
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
