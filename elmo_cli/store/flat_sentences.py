"""Sentences of the layouts that hold all rows in one array: `flat` and `bilm-types`."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.damage import DAMAGED
from elmo_cli.store.datasets import Array, Form
from elmo_cli.store.int8 import INT8, restored
from elmo_cli.store.naming import Facts, Key, document_and_place, is_number
from elmo_cli.store.rows import PlainRows, rows_of

_ROWS = {"numbers": (2,), "documents": (3,)}  # shapes; of other integers a row is one


class FlatSentences:
    """The sentences of a `flat` file.

    Args:
        file: open for reading.
        mapped: the same file mapped, None to read through HDF5 alone.
        pooled: whether `vectors` has a row a sentence, not a row a token.
    """

    def __init__(self, file: h5py.File, mapped: mmap.mmap | None, pooled: bool) -> None:
        self._file = file
        self._name = str(file.filename)
        self._mapped = mapped
        self._pooled = pooled
        self._rows: dict[str, PlainRows] = {}
        self._n = max(0, self.rows("offsets").shape[0] - 1)

    def rows(self, name: str) -> PlainRows:
        """The rows of one of the datasets of the layout.

        Raises:
            EmbeddingsFileError: it is not there, or holds something else.
        """
        if name not in self._rows:
            dataset = self._file.get(name)
            if not isinstance(dataset, h5py.Dataset) or not dataset.shape:
                raise EmbeddingsFileError(f"{self._name}: no dataset `{name}`", DAMAGED)
            asked = _asked_instead(name, dataset)
            if asked:
                what = f"{dataset.dtype} in rows of shape {dataset.shape[1:]}, not {asked}"
                raise EmbeddingsFileError(f"{self._name}: `{name}` holds {what}", DAMAGED)
            self._rows[name] = rows_of(dataset, self._mapped)
        return self._rows[name]

    def has(self, name: str) -> bool:
        """Whether the file has a dataset that not every file needs."""
        return name in self._file

    def integers(self, name: str) -> NDArray[np.int64]:
        """All rows of a dataset of integers, (row, …).

        Raises:
            EmbeddingsFileError: it is not there, or holds something else.
        """
        rows = self.rows(name)
        return rows.read(0, rows.shape[0]).astype(np.int64, copy=False)

    def __len__(self) -> int:
        return self._n

    def keys(self) -> Iterator[int]:
        """All numbers, in order."""
        starts = [*self._numbers[:, 0].tolist(), self._n]
        for run, key in enumerate(self._numbers[:, 1].tolist()):
            yield from range(key, key + starts[run + 1] - starts[run])

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """Where runs of consecutive keys begin: (run, 2), position and key."""
        if not self.has("numbers"):
            return np.zeros((min(1, self._n), 2), np.int64)
        found = self.integers("numbers")
        if self._n and not len(found):
            what = f"numbers has no rows for {self._n} sentences"
            raise EmbeddingsFileError(f"{self._name}: {what}", DAMAGED)
        return found

    def position(self, key: Key) -> int:
        """The place of a sentence in this file: of its number, or of its document and place.

        Raises:
            KeyError: no such sentence; the message says what numbers there are.
        """
        if isinstance(key, str) and is_number(key):
            key = int(key)
        found = self._numbered(key) if isinstance(key, int) else self._in_document(key)
        if found is None:
            numbers = "it has none" if not self._n else f"numbers go from {self._span()}"
            raise KeyError(f"{self._name}: no sentence {key!r}; {numbers}")
        return found

    def _span(self) -> str:
        first, last = self._numbers[0, 1], self._numbers[-1]
        return f"{first} to {last[1] + self._n - 1 - last[0]}"

    def _numbered(self, number: int) -> int | None:
        run = int(np.searchsorted(self._numbers[:, 1], number, "right")) - 1
        if run < 0:
            return None
        position = int(self._numbers[run, 0]) + number - int(self._numbers[run, 1])
        end = self._numbers[run + 1, 0] if run + 1 < len(self._numbers) else self._n
        return position if position < end else None

    def _in_document(self, key: str | tuple[object, ...]) -> int | None:
        named = document_and_place(key)
        document, place = named if named else (None, 0)
        for begin, end, first_place in self._runs_of_document.get(document or "", ()):
            if 0 <= place - first_place < end - begin:
                return begin + place - first_place
        return None

    def shape(self, key: Key) -> tuple[int, ...]:
        """The shape that `array` gives, without reading values."""
        begin, end = self._span_of_rows(self.position(key))
        *layers, dim = self.rows("vectors").shape[1:]
        return (*layers, dim) if self._pooled else (*layers, end - begin, dim)

    def array(self, key: Key) -> Array:
        """A sentence's array: (layer, token, dim), or (token, dim) where it has one layer."""
        begin, end = self._span_of_rows(self.position(key))
        rows = self._vectors(begin, end)
        if self._pooled:
            rows = rows[0]
        elif rows.ndim == 3:
            rows = np.ascontiguousarray(np.moveaxis(rows, 1, 0))
        return rows

    def example(self) -> Form | None:
        """Shape and type of the array of the first sentence."""
        if not self._n:
            return None
        stored = self.stored_dtype
        dtype = np.dtype(np.float32) if stored == INT8 else stored
        return self.shape(next(self.keys())), dtype

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """Type of the values in the file; int8 is read as float32."""
        return self.rows("vectors").dtype

    def _vectors(self, begin: int, end: int) -> Array:
        rows = self.rows("vectors").read(begin, end)
        if self.stored_dtype != INT8:
            return rows
        return restored(rows, self.rows("scales").read(begin, end))

    def _span_of_rows(self, position: int) -> tuple[int, int]:
        n_rows = self.rows("vectors").shape[0]
        begin, end = (position, position + 1) if self._pooled else self._span_of_tokens(position)
        if not 0 <= begin <= end <= n_rows:
            what = f"sentence at position {position} is rows {begin} to {end} of {n_rows}"
            raise EmbeddingsFileError(f"{self._name}: {what}", DAMAGED)
        return begin, end

    def _span_of_tokens(self, position: int) -> tuple[int, int]:
        begin, end = self.rows("offsets").read(position, position + 2).tolist()
        return begin, end

    def facts(self, key: Key) -> Facts:
        """All that was known of a sentence when it was written."""
        position = self.position(key)
        begin, end = self._span_of_tokens(position)
        tokens = tuple(self._strings("token", begin, end))
        run = int(np.searchsorted(self._numbers[:, 0], position, "right")) - 1
        return Facts(
            int(self._numbers[run, 1]) + position - int(self._numbers[run, 0]),
            tokens=tokens,
            text=self._text(position, tokens),
            **self._document_of(position),
        )

    def _text(self, position: int, tokens: tuple[str, ...]) -> str:
        at = int(np.searchsorted(self._own_texts, position))
        if at < len(self._own_texts) and self._own_texts[at] == position:
            return self._strings("text", at, at + 1)[0]
        return " ".join(tokens)

    @cached_property
    def _own_texts(self) -> NDArray[np.int64]:
        """Positions of the sentences whose text is not their tokens joined by a space."""
        return self.integers("texts") if self.has("texts") else np.zeros(0, np.int64)

    def _document_of(self, position: int) -> dict[str, Any]:
        runs, names = self._documents
        run = int(np.searchsorted(runs[:, 0], position, "right")) - 1
        if run < 0 or not names[run]:
            return {}
        begin, place, offset = runs[run].tolist()
        return {"document": names[run], "place": place + position - begin, "offset": offset}

    @cached_property
    def _documents(self) -> tuple[NDArray[np.int64], list[str]]:
        """Runs of sentences of one document, (run, 3): position, place, offset; and its key."""
        if not self.has("documents"):
            return np.zeros((0, 3), np.int64), []
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
        blob = self.rows(f"{what}_bytes").read(start, ends[-1]).tobytes()
        cuts = [0, *(end - start for end in ends)]
        if cuts != sorted(cuts):
            raise EmbeddingsFileError(f"{self._name}: {what}_ends goes down", DAMAGED)
        try:
            return [blob[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(cuts)]
        except UnicodeDecodeError as error:
            raise EmbeddingsFileError(f"{self._name}: {what}_bytes: {error}", DAMAGED) from None


def _asked_instead(name: str, dataset: h5py.Dataset) -> str:
    """What a dataset of the layout has to hold; empty if it does."""
    kind, row = dataset.dtype.kind, dataset.shape[1:]
    if name == "vectors":
        fits = (kind == "f" or dataset.dtype == INT8) and len(row) in (1, 2)
        return "" if fits else "floats in (dim,) or (layer, dim)"
    if name == "scales":
        return "" if kind == "f" and len(row) <= 1 else "floats in () or (layer,)"
    asked = _ROWS.get(name, ())
    if name.endswith("_bytes"):
        return "" if dataset.dtype.itemsize == 1 and row == asked else "single bytes"
    return "" if kind in "iu" and row == asked else f"integers in {asked}"


class TypeRows:
    """The rows of a `bilm-types` file: one vector (projection,) a line of its vocabulary."""

    def __init__(self, file: h5py.File, mapped: mmap.mmap | None) -> None:
        self._name = str(file.filename)
        dataset = file.get("embedding")
        self._rows = rows_of(dataset, mapped) if isinstance(dataset, h5py.Dataset) else None

    def __len__(self) -> int:
        return self._rows.shape[0] if self._rows else 0

    def keys(self) -> Iterator[int]:
        """All rows, from 0."""
        yield from range(len(self))

    def _row(self, key: Key) -> int:
        if isinstance(key, str) and is_number(key):
            key = int(key)
        if not isinstance(key, int) or not 0 <= key < len(self):
            what = f"no row {key!r}; it has {len(self)}, numbered as its vocabulary is, from 0"
            raise KeyError(f"{self._name}: {what}")
        return key

    def shape(self, key: Key) -> tuple[int, ...]:
        """(projection,) for a row that is there."""
        self._row(key)
        return self._rows.shape[1:] if self._rows else ()

    def example(self) -> Form | None:
        """Shape and type of a row."""
        return (self._rows.shape[1:], self._rows.dtype) if self._rows and len(self) else None

    def array(self, key: Key) -> Array:
        """One row, (projection,)."""
        row = self._row(key)
        values: Array = self._rows.read(row, row + 1)[0] if self._rows else np.zeros(0)
        return values

    def facts(self, key: Key) -> Facts:
        """Only the number of the row: types are in the vocabulary, not in the file."""
        return Facts(self._row(key))
