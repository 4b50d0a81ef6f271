"""flat: the vectors of all sentences in one array, with offsets and tokens; for large corpora."""

from __future__ import annotations

import json
from array import array as integers
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.int8 import INT8, dequantize
from elmo_cli.store.layouts.base import (
    SentenceReader,
    axes_comment,
    is_number,
    is_pooled,
)
from elmo_cli.store.layouts.documents import document_and_place
from elmo_cli.store.layouts.rows import RowLayout, Rows, RowWriter, write_rows
from elmo_cli.store.layouts.stored_sentence import (
    Array,
    Facts,
    Handle,
    Key,
    SentenceInfo,
    StoredSentence,
    Totals,
)
from elmo_cli.text.sentence import Sentence

_ROW_SHAPES = {"numbers": (2,), "documents": (3,)}  # other integers are one for each row


class Flat(RowLayout):
    """The data sets of section `flat` of SCHEMA.md."""

    name = "flat"
    needs = frozenset({"tokens", "text order"})
    supports_int8 = True
    rows_name = "vectors"
    file_axes = ("token", "layer", "dim")

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

    def _write(
        self,
        file: h5py.File,
        sentences: Iterable[StoredSentence],
        totals: Totals,
        rows: type[RowWriter],
    ) -> Facts:
        writers: list[RowWriter] = []
        if totals.row_shape is not None:
            shape = (totals.rows, *totals.row_shape)
            writers.append(rows(file, self.rows_name, shape, totals.dtype))
            if totals.dtype == INT8:
                writers.append(RowWriter(file, "scales", shape[:-1], np.dtype("<f4")))
        columns = _Columns()
        for stored in sentences:
            for writer, values in zip(writers, (stored.values, stored.scales), strict=False):
                if values is not None:
                    writer.add(values)
            columns.add(stored.sentence)
        for writer in writers:
            writer.close()
        columns.write(file)
        return Facts()

    def open(self, file: h5py.File, attributes: Mapping[str, Any]) -> FlatReader:
        return FlatReader(self, file, attributes)

    def python_example(self, key: Key, reader: SentenceReader) -> list[str]:
        position = reader.find(key)
        values, scales = reader.stored(position)
        shape = values.shape[1:] if reader.pooled else values.shape
        comment = axes_comment(shape, self.file_axes, pooled=reader.pooled)
        rows = f"[{position}]" if reader.pooled else "[begin:end]"
        scale = "" if scales is None else f" * file['scales']{rows}[..., None]"
        lines = [f"array = file['vectors']{rows}{scale}  # {comment}"]
        if not reader.pooled:
            offsets = f"file['offsets'][{position}:{position} + 2]"
            lines.insert(0, f"begin, end = {offsets}  # sentence i: offsets[i:i + 2]")
        return lines


class _Strings:
    """Many strings as one array of bytes and the end of each."""

    def __init__(self) -> None:
        self._bytes, self._ends = bytearray(), integers("q")

    def add(self, strings: Iterable[str]) -> int:
        """Add strings; how many there are now."""
        for string in strings:
            # JSON can contain half a surrogate pair, which is kept.
            self._bytes += string.encode("utf-8", "surrogatepass")
            self._ends.append(len(self._bytes))
        return len(self._ends)

    def write(self, file: h5py.File, name: str) -> None:
        write_rows(file, f"{name}_bytes", np.frombuffer(self._bytes, np.uint8))
        write_rows(file, f"{name}_ends", np.frombuffer(self._ends, "<i8"))


class _Runs:
    """Rows of integers, stored only where they do not follow from the row before."""

    def __init__(self, *steps: int) -> None:
        self._steps = steps  # by which each number grows from position to position; the first by 1
        self._last: tuple[int, ...] | None = None
        self._rows = integers("q")

    def add(self, *row: int, new: bool = False) -> bool:
        """Add a row, of which the first number is the position; whether it begins a run."""
        if self._last is not None and not new:
            n = row[0] - self._last[0]
            expected = (
                start + n * step for start, step in zip(self._last, self._steps, strict=True)
            )
            if row == tuple(expected):
                return False
        self._rows.extend(row)
        self._last = row
        return True

    def write(self, file: h5py.File, name: str) -> None:
        write_rows(file, name, np.frombuffer(self._rows, "<i8").reshape(-1, len(self._steps)))


class _Columns:
    """All but the vectors: what is known of the sentences."""

    def __init__(self) -> None:
        self._offsets, self._numbers = integers("q", [0]), _Runs(1, 1)
        self._tokens, self._texts = _Strings(), _Strings()
        self._text_positions = integers("q")
        self._documents, self._document_keys = _Runs(1, 1, 0), _Strings()
        self._document: str | None = None

    def add(self, sentence: Sentence) -> None:
        position = len(self._offsets) - 1
        self._offsets.append(self._tokens.add(sentence.tokens))
        self._numbers.add(position, sentence.key)
        if sentence.text and sentence.text != " ".join(sentence.tokens):
            self._text_positions.append(position)
            self._texts.add((sentence.text,))
        self._add_document(position, sentence)

    def _add_document(self, position: int, sentence: Sentence) -> None:
        key = sentence.document or ""
        if not key and not self._document:
            return  # sentences outside of documents: nothing to count, no run to end
        row = (position, sentence.place, sentence.offset) if key else (position, 0, 0)
        if self._documents.add(*row, new=key != self._document):
            self._document_keys.add((key,))
            self._document = key

    def write(self, file: h5py.File) -> None:
        write_rows(file, "offsets", np.frombuffer(self._offsets, "<i8"))
        self._tokens.write(file, "token")
        self._numbers.write(file, "numbers")
        if self._document is not None:
            self._documents.write(file, "documents")
            self._document_keys.write(file, "document")
        if self._text_positions:
            write_rows(file, "texts", np.frombuffer(self._text_positions, "<i8"))
            self._texts.write(file, "text")


class FlatReader(SentenceReader):
    """The sentences of a `flat` file; handles are positions."""

    def __init__(self, layout: Flat, file: h5py.File, attributes: Mapping[str, Any]) -> None:
        self._layout, self._file, self._path = layout, file, str(file.filename)
        self.pooled = is_pooled(attributes)
        self._opened: dict[str, Rows] = {}
        self._n = max(0, len(self.rows("offsets")) - 1)

    @property
    def records(self) -> frozenset[str]:
        has_documents = self.has("documents")
        return frozenset({"tokens", *(("document", "part offset") if has_documents else ())})

    def has(self, name: str) -> bool:
        """Whether the file has a data set that not every file needs."""
        return name in self._file

    def rows(self, name: str) -> Rows:
        """The rows of one of the data sets of the layout.

        Raises:
            EmbeddingsFileError: it is missing, or of another type or shape.
        """
        if name not in self._opened:
            rows = Rows(self._file, name)
            if expected := _expected_instead(name, rows):
                what = f"{rows.dtype} in rows of shape {rows.shape[1:]}, not {expected}"
                raise self._corrupt(f"data set {name!r} holds {what}")
            self._opened[name] = rows
        return self._opened[name]

    def integers(self, name: str) -> NDArray[np.int64]:
        """All rows of a data set of integers; none where it is missing."""
        if not self.has(name):
            return np.zeros((0, *_ROW_SHAPES.get(name, ())), np.int64)
        rows = self.rows(name)
        return rows.read(0, len(rows)).astype(np.int64, copy=False)

    def __len__(self) -> int:
        return self._n

    def handles(self) -> Iterator[Handle]:
        return iter(range(self._n))

    def key(self, handle: Handle) -> int:
        run = int(np.searchsorted(self._numbers[:, 0], int(handle), "right")) - 1
        return int(self._numbers[run, 1]) + int(handle) - int(self._numbers[run, 0])

    def find(self, key: Key) -> int:
        if isinstance(key, str) and is_number(key):
            key = int(key)
        found = self._numbered(key) if isinstance(key, int) else self._in_document(key)
        if found is None:
            numbers = f"numbers go from {self.key(0)} to {self.key(self._n - 1)}" if self._n else ""
            raise KeyError(f"{self._path}: no sentence {key!r}; {numbers or 'the file has none'}")
        return found

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """Where runs of consecutive keys begin: (run, 2), position and key."""
        if not self.has("numbers"):
            return np.zeros((min(1, self._n), 2), np.int64)
        found = self.integers("numbers")
        if self._n and (not len(found) or found[0, 0] != 0):
            raise self._corrupt("data set 'numbers' does not begin with sentence 0")
        return found

    def _numbered(self, number: int) -> int | None:
        run = int(np.searchsorted(self._numbers[:, 1], number, "right")) - 1
        if run < 0:
            return None
        position = int(self._numbers[run, 0]) + number - int(self._numbers[run, 1])
        end = self._numbers[run + 1, 0] if run + 1 < len(self._numbers) else self._n
        return position if position < end else None

    def _in_document(self, key: Key) -> int | None:
        document, place = document_and_place(key) or ("", 0)
        for begin, end, first_place in self._runs_of_document.get(document, ()):
            if 0 <= place - first_place < end - begin:
                return begin + place - first_place
        return None

    def shape(self, handle: Handle) -> tuple[int, ...]:
        begin, end = self._rows_of(int(handle))
        *layers, dim = self.rows("vectors").shape[1:]
        return (*layers, dim) if self.pooled else (*layers, end - begin, dim)

    def stored(self, handle: Handle) -> tuple[Array, NDArray[np.float32] | None]:
        begin, end = self._rows_of(int(handle))
        values = self.rows("vectors").read(begin, end)
        is_int8 = values.dtype == INT8
        return values, self.rows("scales").read(begin, end) if is_int8 else None

    def array(self, handle: Handle) -> Array:
        values, scales = self.stored(handle)
        if scales is not None:
            values = dequantize(values, scales)
        return self._layout.from_file(values, pooled=self.pooled)

    def example(self) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        return (self.shape(0), self.rows("vectors").dtype) if self._n else None

    def identity(self, handle: Handle) -> bytes:
        return self._layout.identity(self.info(handle).sentence())

    def tokens(self, handle: Handle) -> tuple[str, ...]:
        return tuple(self._strings("token", *self._tokens_of(int(handle))))

    def info(self, handle: Handle, position: int | None = None) -> SentenceInfo:
        position, tokens = int(handle), self.tokens(handle)
        document, place, offset = self._document_of(position)
        text = self._text(position, tokens)
        return SentenceInfo(position, self.key(handle), tokens, text, document, place, offset)

    def _rows_of(self, position: int) -> tuple[int, int]:
        begin, end = (position, position + 1) if self.pooled else self._tokens_of(position)
        if not 0 <= begin <= end <= len(self.rows("vectors")):
            what = f"is rows {begin} to {end} of {len(self.rows('vectors'))}"
            raise self._corrupt(f"sentence at position {position} {what}")
        return begin, end

    def _tokens_of(self, position: int) -> tuple[int, int]:
        begin, end = self.rows("offsets").read(position, position + 2).tolist()
        return begin, end

    def _text(self, position: int, tokens: tuple[str, ...]) -> str:
        at = int(np.searchsorted(self._own_texts, position))
        if at < len(self._own_texts) and self._own_texts[at] == position:
            return self._strings("text", at, at + 1)[0]
        return " ".join(tokens)

    @cached_property
    def _own_texts(self) -> NDArray[np.int64]:
        """Positions of the sentences whose text is not their tokens joined by a space."""
        return self.integers("texts")

    def _document_of(self, position: int) -> tuple[str | None, int, int | None]:
        runs, names = self._documents
        run = int(np.searchsorted(runs[:, 0], position, "right")) - 1
        if run < 0 or not names[run]:
            return None, 0, None
        begin, place, offset = runs[run].tolist()
        return names[run], place + position - begin, offset

    @cached_property
    def _documents(self) -> tuple[NDArray[np.int64], list[str]]:
        """Runs of sentences of one document, (run, 3): position, place, offset; and its key."""
        runs = self.integers("documents")
        return runs, self._strings("document", 0, len(runs))

    @cached_property
    def _runs_of_document(self) -> dict[str, list[tuple[int, int, int]]]:
        """Document key -> runs of its sentences: first position, end, place of the first."""
        runs, names = self._documents
        ends = [*runs[1:, 0].tolist(), self._n][: len(runs)]
        found: dict[str, list[tuple[int, int, int]]] = {}
        for name, (begin, place, _), end in zip(names, runs.tolist(), ends, strict=True):
            if name:
                found.setdefault(name, []).append((begin, end, place))
        return found

    def _strings(self, what: str, begin: int, end: int) -> list[str]:
        """Strings `begin` to `end` of the pair WHAT_bytes, WHAT_ends."""
        if begin == end:
            return []
        before = max(0, begin - 1)
        ends = self.rows(f"{what}_ends").read(before, end).tolist()
        start = ends.pop(0) if begin else 0
        cuts = [0, *(end - start for end in ends)]
        if cuts != sorted(cuts):
            raise self._corrupt(f"data set '{what}_ends' decreases")
        content = self.rows(f"{what}_bytes").read(start, ends[-1]).tobytes()
        try:
            return [content[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(cuts)]
        except UnicodeDecodeError as error:
            raise self._corrupt(f"data set '{what}_bytes': {error}") from None

    def _corrupt(self, what: str) -> EmbeddingsFileError:
        return EmbeddingsFileError(f"{self._path}: {what}", CORRUPT_HINT)


def _expected_instead(name: str, rows: Rows) -> str:
    """What a data set of the layout has to hold; empty if it does."""
    kind, row = rows.dtype.kind, rows.shape[1:]
    if name == "vectors":
        fits = (kind == "f" or rows.dtype == INT8) and len(row) in (1, 2)
        return "" if fits else "floats in (dim,) or (layer, dim)"
    if name == "scales":
        return "" if kind == "f" and len(row) <= 1 else "floats in () or (layer,)"
    expected = _ROW_SHAPES.get(name, ())
    if name.endswith("_bytes"):
        return "" if rows.dtype.itemsize == 1 and row == expected else "single bytes"
    return "" if kind in "iu" and row == expected else f"integers in {expected}"
