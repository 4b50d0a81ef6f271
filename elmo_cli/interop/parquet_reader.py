"""Read embeddings files in Parquet that elmo has written, as `open_embeddings` does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray, Int64Array
from elmo_cli.errors import EmbeddingsFileError, InputError, UsageError
from elmo_cli.hdf5 import reading
from elmo_cli.interop.parquet_index import ATTRIBUTE, IndexRows, SentenceIndex
from elmo_cli.interop.parquet_rows import EXTRA, LAYER, TOKEN, VECTOR
from elmo_cli.messages import CORRUPT_HINT, plural
from elmo_cli.requirements import import_program
from elmo_cli.store.layouts import (
    Handle,
    Key,
    Layout,
    SentenceReader,
    SentenceRun,
    is_number,
    layout_of_attributes,
)
from elmo_cli.store.layouts.documents import document_and_place
from elmo_cli.store.layouts.flat_reader import FlatReader
from elmo_cli.store.layouts.sentence_datasets import NameLayout
from elmo_cli.store.layouts.seqvec import ids_of_key
from elmo_cli.store.open_file import OpenFile
from elmo_cli.text.sentence import Sentence, Tokens


class OpenParquet(OpenFile):
    """An open Parquet file.

    Attributes:
        filename: its path.
        index: its sentence index.
        table: the file as pyarrow reads it.
    """

    def __init__(self, path: Path) -> None:
        """Open a file; an EmbeddingsFileError if elmo has not written it, or it is corrupt."""
        parquet = import_program("pyarrow.parquet", EXTRA)
        self.filename = str(path)
        with reading(path, EmbeddingsFileError):
            # Files of many columns or names have large footers, which are limited by default.
            self.table = parquet.ParquetFile(path, pre_buffer=False)
            metadata = self.table.metadata.metadata or {}
        settings = metadata.get(b"elmo")
        if settings is None:
            problem = "a Parquet file that elmo has not written"
            hint = "give one that `elmo embed` or `elmo convert` wrote"
            raise EmbeddingsFileError(problem, hint, where=path)
        self.index = SentenceIndex(path, metadata.get(b"elmo_index", b""))
        self.attributes = self._read_attributes(settings)
        self.layout = layout_of_attributes(self.attributes, self.filename)

    def __contains__(self, name: object) -> bool:
        """Whether the index has an array."""
        return name in self.index

    def reader(self) -> SentenceReader:
        return ParquetReader(self.layout, self, self.attributes)

    def close(self) -> None:
        self.table.close()

    def _read_attributes(self, settings: bytes) -> dict[str, Any]:
        attributes: Any = None
        with suppress(ValueError, RecursionError):
            attributes = json.loads(settings)
        if not isinstance(attributes, dict):
            raise self.index.corrupt()
        for name in self.index.names():
            if name.startswith(ATTRIBUTE):
                attributes[name.removeprefix(ATTRIBUTE)] = self.index.array(name)
        return attributes


class ParquetReader(FlatReader):
    """The sentences of a Parquet file; handles are positions.

    One row group is in memory, so that reading sentences in their order is fast.
    """

    file: OpenParquet

    def __init__(self, layout: Layout, file: OpenParquet, attributes: Mapping[str, Any]) -> None:
        super().__init__(layout, file, attributes)
        self._is_per_sentence = self.pooled or layout.unit == "types"
        self._columns = _VectorColumns(file)
        if not self._is_per_sentence:
            _check_tokens(file)
        metadata = file.table.metadata
        sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        self._group_ends: Int64Array = np.cumsum(sizes, dtype=np.int64)
        self._group = -1  # which is in memory
        self._content: dict[str, Any] = {}  # its columns that were read
        offsets = self._rows("offsets")
        n_rows = len(self) if self._is_per_sentence else int(offsets.read(0, len(self) + 1)[-1])
        if metadata.num_rows != n_rows:
            found = plural(metadata.num_rows, "row")
            raise self.corrupt(f"it has {found}, expected {n_rows:,}")
        if len(self):
            self._name(0)  # raises an error if its layout cannot name these sentences

    @property
    def records(self) -> frozenset[str]:
        # Names of documents may come from a file that did not record more than its layout does.
        is_named = self.layout.keyed_by == "name"
        others = self.layout.records if is_named else super().records
        tokens = {"tokens"} if self.file.index.has_tokens else set()
        return others - {"tokens"} | tokens

    def runs(self) -> Iterator[SentenceRun]:
        return SentenceReader.runs(self)  # its row groups are those that `stored` keeps

    def find(self, key: Key) -> int:
        for position in self._positions_for(key):
            if position is not None:
                return position
        raise self.no_sentence(key)

    def _positions_for(self, key: Key) -> Iterator[int | None]:
        """The positions that a key may mean, the likeliest first; None for no sentence."""
        layout = self.layout
        if not isinstance(layout, NameLayout):
            if is_number(str(key)):
                yield self._position_of_key(int(str(key)))
            yield self._positions.get(document_and_place(key))
            if layout.supports_sentence_keys and not isinstance(key, int):
                yield self._position_of_name.get(
                    " ".join(map(str, key)) if isinstance(key, tuple) else key
                )
            return
        if isinstance(key, int):
            first = self._attributes.get("first_sentence", 0)
            position = key - first if isinstance(first, int) else key
            yield position if 0 <= position < len(self) else None
            return
        for name in layout.names_for(key):
            yield self._position_of_name.get(name)
        for document in ids_of_key(key):
            yield self._positions.get((document, 0))

    @cached_property
    def _position_of_name(self) -> dict[str, int]:
        """Name of a sentence, or in a file without names its line -> position of the last one."""
        positions = {}
        for position in range(len(self)):
            name = self._name(position)
            if name is not None:
                positions[name] = position
        return positions

    def _name(self, position: int) -> str | None:
        """The name of a sentence in its layout, or its line; None if that is not recorded."""
        info = self.info(position)
        if not isinstance(self.layout, NameLayout):
            return info.text
        try:
            return self.layout.dataset_name(info.sentence(self._integer("keys", position)))
        except (InputError, UsageError) as error:
            raise self.corrupt(f"sentence {position}: {error.problem}") from None

    def key(self, handle: Handle) -> int | str:  # type: ignore[override]
        name = self._name(int(handle)) if isinstance(self.layout, NameLayout) else None
        if isinstance(self.layout, NameLayout) and name is not None:
            return self.layout.key_of_name(name)
        return self._integer("keys", int(handle))

    def identity(self, handle: Handle) -> bytes:
        position = int(handle)
        sentence = self.info(position).sentence(self._integer("keys", position))
        return self.layout.identity(sentence)

    def sentence(self, handle: Handle, key: int, n_tokens: int) -> Sentence:
        begin, end = self._offsets(int(handle))
        return self.info(handle).sentence(key, end - begin, self._path)

    def tokens_of(self, position: int) -> Tokens | None:
        begin, end = self._offsets(position)
        if self._is_per_sentence:
            strings: list[str | None] = [*self._strings("token", begin, end)]
        else:
            strings = []
            for group, rows in self._parts(begin, end):
                strings += self._column(group, TOKEN)[rows]
        tokens = tuple(string or "" for string in strings)
        if any(tokens):
            return tokens
        # A pooled file does not show how many tokens an unrecorded sentence had.
        is_blank = not tokens and (self.file.index.has_tokens or not self._is_per_sentence)
        return tokens if is_blank else None

    def array_type(self, handle: Handle) -> tuple[tuple[int, ...], np.dtype[Any]]:
        begin, end = self._offsets(int(handle))
        n_layers = len(self._columns.names)
        layers = (n_layers,) if self._columns.are_layers else ()
        tokens = () if self._is_per_sentence else (end - begin,)
        return (*layers, *tokens, self._columns.dim), self._columns.dtype

    def stored(self, handle: Handle, layer: int | None = None) -> tuple[AnyArray, None]:
        names = self._columns.names
        if layer is not None and self._columns.are_layers:
            names = names[layer : layer + 1]
        begin, end = self._span(int(handle))
        by_layer = np.empty((len(names), end - begin, self._columns.dim), self._columns.dtype)
        row = 0
        for group, rows in self._parts(begin, end):
            n_rows = rows.stop - rows.start
            for index, name in enumerate(names):
                by_layer[index, row : row + n_rows] = self._column(group, name)[rows]
            row += n_rows
        array: AnyArray = by_layer[:, 0] if self._is_per_sentence else by_layer
        if not self._columns.are_layers:
            array = array[0]
        return np.ascontiguousarray(self.layout.to_file(array, pooled=self.pooled)), None

    def _span(self, position: int) -> tuple[int, int]:
        """The rows of a sentence."""
        return (position, position + 1) if self._is_per_sentence else self._offsets(position)

    def _parts(self, begin: int, end: int) -> Iterator[tuple[int, slice]]:
        """The row groups that have some of these rows, with the rows in each of them."""
        group = int(np.searchsorted(self._group_ends, begin, side="right"))
        while begin < end:
            group_end = int(self._group_ends[group])
            group_begin = int(self._group_ends[group - 1]) if group else 0
            part_end = min(end, group_end)
            yield group, slice(begin - group_begin, part_end - group_begin)
            begin = part_end
            group += 1

    def _column(self, group: int, name: str) -> Any:
        """A column of a row group: strings as a list, vectors as (row, dim)."""
        if group != self._group:
            self._group = group
            self._content = {}
        content = self._content
        if name not in content:
            with self._reading(f"column {name!r} of row group {group}"):
                column = self.file.table.read_row_group(group, columns=[name], use_threads=False)
                values = column.column(0).combine_chunks()
                if name == TOKEN:
                    content[name] = values.to_pylist()
                else:
                    floats = _numbers(values.flatten(), self._columns.dtype)
                    content[name] = floats.reshape(len(values), self._columns.dim)
        return content[name]

    def _reading(self, part: str) -> AbstractContextManager[None]:
        return reading(self._path, EmbeddingsFileError, part)

    def _rows(self, name: str) -> Any:
        return IndexRows(Path(self._path), name, self.file.index.array(name))


def _numbers(array: Any, dtype: np.dtype[Any]) -> AnyArray:
    """The values of an array of pyarrow, whose `to_numpy` would import pandas.

    Raises:
        ValueError: some are null.
    """
    if array.null_count:
        raise ValueError(f"{array.null_count} values are null")
    content = array.buffers()[1]
    if content is None:
        return np.empty(0, dtype)
    numbers: AnyArray = np.frombuffer(content, dtype, len(array), array.offset * dtype.itemsize)
    return numbers


def _check_tokens(file: OpenParquet) -> None:
    """Raise an EmbeddingsFileError unless there is one column of tokens, and it has strings."""
    with reading(file.filename, EmbeddingsFileError):
        kinds = [str(field.type) for field in file.table.schema_arrow if field.name == TOKEN]
    if kinds != ["string"]:
        problem = f"its column {TOKEN!r} is {' and '.join(kinds) or 'missing'}, expected string"
        raise EmbeddingsFileError(problem, CORRUPT_HINT, where=file.filename)


class _VectorColumns:
    """The columns of vectors of an open file.

    Attributes:
        names: of the columns, none in a file without sentences.
        are_layers: whether each is a layer; otherwise there is one, without an axis of layers.
        dim: of a vector.
        dtype: of the values.
    """

    def __init__(self, file: OpenParquet) -> None:
        with reading(file.filename, EmbeddingsFileError):
            schema = file.table.schema_arrow
        fields = [field for field in schema if field.name == VECTOR or field.name.startswith(LAYER)]
        self.names = [str(field.name) for field in fields]
        expected = file.index.vector_columns
        if self.names != expected:
            found = f"its columns of vectors are {', '.join(self.names) or 'missing'}"
            problem = f"{found}, expected {', '.join(map(str, expected))}"
            raise EmbeddingsFileError(problem, CORRUPT_HINT, where=file.filename)
        self.are_layers = self.names != [VECTOR]
        self.dim = 0
        self.dtype = np.dtype("f4")
        kinds = {field.type for field in fields}
        if not kinds:
            return
        kind = kinds.pop()
        value_type = str(getattr(kind, "value_type", ""))
        # Lists of any length have no size; pyarrow reads such if its own schema is damaged.
        has_size = hasattr(kind, "list_size")
        if kinds or not has_size or value_type not in ("float", "halffloat"):
            problem = "its columns of vectors are not lists of floats of one length"
            raise EmbeddingsFileError(problem, CORRUPT_HINT, where=file.filename)
        self.dim = int(kind.list_size)
        self.dtype = np.dtype("f4" if value_type == "float" else "f2")
