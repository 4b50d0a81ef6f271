"""RowGroupWriter: rows of vectors in a Parquet file, of which one row group is in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import OutputError
from elmo_cli.requirements import import_program
from elmo_cli.store.spec import DTYPES

ROWS = 4096  # of a row group
EXTRA = "parquet"  # which installs pyarrow
VECTOR = "vector"  # the column of vectors without an axis of layers
TOKEN = "token"
LAYER = "layer_"  # the columns of layers, before their numbers
_MAX_INT32 = (1 << 31) - 1
# Characters of the strings of a row group, whose bytes Arrow addresses in int32. A character has up
# to 4 bytes, and the last sentence of a group may exceed the limit by 64 MiB.
_MAX_CHARACTERS = 1 << 28


@dataclass(frozen=True)
class TableColumns:
    """The columns of a file.

    Attributes:
        is_named: sentences have names; otherwise they have numbers.
        is_per_sentence: a row is a sentence or type, with its text; otherwise it is a token.
        vectors: names of the columns of vectors; none in a file without sentences.
        dim: of a vector.
        dtype: float32 or float16.
    """

    is_named: bool
    is_per_sentence: bool
    vectors: tuple[str, ...]
    dim: int
    dtype: str

    @property
    def key(self) -> str:
        """The name of the first column."""
        return "key" if self.is_named else "sentence"


class RowGroupWriter:
    """Writes the rows of a new Parquet file, in row groups of `ROWS` rows, or fewer of long texts.

    Args:
        compression: "none" or "zstd". DuckDB 2.0 cannot read float16 that is split into streams of
            bytes, so that zstd compresses only float32 in this form.
    Attributes:
        sink: the open file, which has a `write` and a `tell`.
    """

    def __init__(self, path: Path, columns: TableColumns, compression: str) -> None:
        self._arrow = import_program("pyarrow", EXTRA)
        parquet = import_program("pyarrow.parquet", EXTRA)
        self._columns = columns
        self._schema = self._make_schema()
        is_split = compression == "zstd" and columns.dtype == "float32"
        split_columns = [f"{name}.list.element" for name in columns.vectors] if is_split else []
        self.sink = self._arrow.OSFile(str(path), "w")
        self._writer = parquet.ParquetWriter(
            self.sink,
            self._schema,
            compression=compression,
            use_dictionary=["key"] if columns.is_named else False,
            use_byte_stream_split=split_columns or False,
            write_statistics=[columns.key],
        )
        self._n_rows = 0  # in the buffers of the row group that is being filled
        self._n_characters = 0  # of its strings
        self._keys: list[int | str] = []
        self._strings: list[str | None] = []
        self._positions = np.empty(ROWS, np.int32)
        self._vectors = [
            np.empty((ROWS, columns.dim), DTYPES[columns.dtype]) for _ in columns.vectors
        ]

    def add(
        self,
        key: int | str,
        strings: Sequence[str | None],
        layers: Sequence[AnyArray],
        *,
        where: str,
    ) -> None:
        """Add the rows of a sentence.

        Args:
            strings: the tokens, or the text; None if they are unknown.
            layers: (row, dim) for each column of vectors.
            where: the sentence, for messages.
        """
        if isinstance(key, int) and key > _MAX_INT32:
            problem = f"the column `sentence` holds no number above {_MAX_INT32:,}"
            raise OutputError(problem, "divide the text, or write HDF5", where=where)
        n_characters = sum(len(string) for string in strings if string is not None)
        if self._n_characters + n_characters > _MAX_CHARACTERS and self._n_rows:
            self._write_group(where)
        self._n_characters += n_characters
        begin = 0
        while begin < len(strings):
            end = min(len(strings), begin + ROWS - self._n_rows)
            n_new = end - begin
            rows = slice(self._n_rows, self._n_rows + n_new)
            self._keys.extend(repeat(key, n_new))
            self._strings.extend(strings[begin:end])
            self._positions[rows] = np.arange(begin, end)
            for buffer, layer in zip(self._vectors, layers, strict=True):
                buffer[rows] = layer[begin:end]
            self._n_rows += n_new
            begin = end
            if self._n_rows == ROWS:
                self._write_group(where)

    def finish(self, metadata: dict[str, str]) -> None:
        """Write the footer, after all rows and what the caller has written to `sink`."""
        self._writer.add_key_value_metadata(metadata)
        self._writer.close()
        self.sink.close()

    def write_last_group(self) -> None:
        """Write the rows that do not fill a row group."""
        if self._n_rows:
            self._write_group("the last sentences")

    def abandon(self) -> None:
        """Close an incomplete file, to which no footer is written."""
        self._writer.is_open = False  # its destructor would write one
        self.sink.close()

    def _write_group(self, where: str) -> None:
        n_rows = self._n_rows
        keys: list[Any] = self._keys
        if self._columns.is_named:
            arrays = [self._string_array(keys, where)]
        else:
            arrays = [self._number_array(np.array(keys, np.int32))]
        if not self._columns.is_per_sentence:
            arrays.append(self._number_array(self._positions[:n_rows]))
        arrays.append(self._string_array(self._strings, where))
        for name, buffer in zip(self._columns.vectors, self._vectors, strict=True):
            values = self._number_array(buffer[:n_rows])
            kind = self._schema.field(name).type
            arrays.append(self._arrow.FixedSizeListArray.from_arrays(values, type=kind))
        table = self._arrow.Table.from_arrays(arrays, schema=self._schema)
        self._writer.write_table(table, row_group_size=ROWS)
        self._n_rows = 0
        self._n_characters = 0
        self._keys.clear()
        self._strings.clear()

    # `pyarrow.array` would import pandas, where it is installed.

    def _number_array(self, numbers: AnyArray) -> Any:
        """The values of an array as an array of pyarrow with one axis, which shares its memory."""
        arrow = self._arrow
        kind = arrow.from_numpy_dtype(numbers.dtype)
        buffers = [None, arrow.py_buffer(numbers)]
        return arrow.Array.from_buffers(kind, numbers.size, buffers)

    def _string_array(self, strings: Sequence[str | None], where: str) -> Any:
        """Strings, or None for null, as an array of pyarrow."""
        arrow = self._arrow
        try:
            encoded = [b"" if string is None else string.encode() for string in strings]
        except UnicodeEncodeError:
            problem = "contains a lone surrogate (half a character), which Parquet cannot hold"
            raise OutputError(problem, "write HDF5 with layout flat", where=where) from None
        ends = np.zeros(len(encoded) + 1, np.int32)
        np.cumsum([len(string) for string in encoded], out=ends[1:])
        is_valid = np.array([string is not None for string in strings])
        bitmap = np.packbits(is_valid, bitorder="little")
        contents = [bitmap, ends, b"".join(encoded)]
        buffers = [arrow.py_buffer(content) for content in contents]
        return arrow.Array.from_buffers(arrow.string(), len(encoded), buffers)

    def _make_schema(self) -> Any:
        """The columns as pyarrow describes them."""
        arrow = self._arrow
        columns = self._columns
        key_type = arrow.string() if columns.is_named else arrow.int32()
        fields = [arrow.field(columns.key, key_type, nullable=False)]
        if columns.is_per_sentence:
            fields.append(arrow.field("text", arrow.string()))
        else:
            fields.append(arrow.field("position", arrow.int32(), nullable=False))
            fields.append(arrow.field(TOKEN, arrow.string()))
        value_type = arrow.float16() if columns.dtype == "float16" else arrow.float32()
        element = arrow.field("element", value_type, nullable=False)
        for name in columns.vectors:
            kind = arrow.list_(element, columns.dim)
            fields.append(arrow.field(name, kind, nullable=False))
        return arrow.schema(fields)
