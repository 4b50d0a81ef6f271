"""The sentence index of a Parquet file: arrays after the row groups, which only elmo reads.

The rows do not show sentences without tokens, lines that differ from their tokens, documents and
checksums. These are arrays between the last row group and the footer, where Parquet permits other
data. The metadata `elmo_index` of the footer lists them with their positions.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.layouts.spool import Spool

ATTRIBUTE = "attribute "  # in the names of arrays that are attributes, before the rest
_DTYPES = ("<i4", "<u4", "<i8", "<u8", "|u1", "<f4", "<f8")


class IndexWriter:
    """Writes the arrays of an index to an open file.

    Args:
        sink: the open file, with `write` and `tell`.
    """

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self._entries: dict[str, dict[str, Any]] = {}

    def add(self, name: str, numbers: Spool | AnyArray) -> None:
        """Write the next array, (number,)."""
        chunks: Iterable[AnyArray]
        if isinstance(numbers, Spool):
            chunks = numbers.chunks()
            n_numbers = len(numbers)
        else:
            chunks = [np.ascontiguousarray(numbers).reshape(-1)]
            n_numbers = numbers.size
        begin = self._sink.tell()
        crc32 = 0
        for chunk in chunks:
            content = chunk.tobytes()
            crc32 = zlib.crc32(content, crc32)
            self._sink.write(content)
        self._entries[name] = {
            "dtype": numbers.dtype.str,
            "size": n_numbers,
            "begin": begin,
            "crc32": crc32,
        }

    def to_json(self, *, has_tokens: bool, vector_columns: Sequence[str]) -> str:
        """The metadata that lists the arrays.

        Args:
            has_tokens: whether the tokens of all sentences are recorded.
            vector_columns: names of the columns of vectors.
        """
        content = {
            "has_tokens": has_tokens,
            "vectors": list(vector_columns),
            "arrays": self._entries,
        }
        return json.dumps(content)


class SentenceIndex:
    """The arrays of the index of an open file.

    Args:
        content: what `IndexWriter.to_json` gave.
    Attributes:
        has_tokens: whether the tokens of all sentences are recorded.
        vector_columns: names of the columns of vectors.
    Raises:
        EmbeddingsFileError: the content is corrupt.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._arrays: dict[str, AnyArray] = {}
        self._entries: dict[str, Any] = {}
        try:
            record = json.loads(content)
            self.has_tokens = record["has_tokens"] is True
            self.vector_columns = list(record["vectors"])
            self._entries.update(record["arrays"])
        except (KeyError, TypeError, ValueError, RecursionError):
            raise self.corrupt() from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def names(self) -> list[str]:
        """The names of all arrays."""
        return list(self._entries)

    def array(self, name: str) -> AnyArray:
        """An array, mapped into memory; an EmbeddingsFileError if it is missing or corrupt."""
        if name not in self._arrays:
            self._arrays[name] = self._read(name)
        return self._arrays[name]

    def _read(self, name: str) -> AnyArray:
        try:
            entry = self._entries[name]
            dtype = str(entry["dtype"])
            size = int(entry["size"])
            begin = int(entry["begin"])
            crc32 = int(entry["crc32"])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self.corrupt() from None
        file_size = os.path.getsize(self._path)
        if dtype not in _DTYPES or size < 0 or begin < 0:
            raise self.corrupt()
        if begin + size * np.dtype(dtype).itemsize > file_size:
            raise self.corrupt()
        numbers: AnyArray = np.empty(0, dtype)
        if size:
            mapped = np.memmap(self._path, dtype, "r", begin, (size,))
            numbers = mapped.view(np.ndarray)
        if zlib.crc32(numbers.data) != crc32:
            raise self.corrupt()
        return numbers

    def corrupt(self) -> EmbeddingsFileError:
        """The error for an index that is not what elmo wrote."""
        problem = "its index of sentences is missing or corrupt"
        hint = "if another program has written the file again, read the file that elmo wrote"
        return EmbeddingsFileError(problem, hint, where=self._path)


class IndexRows:
    """An array of the index, which is read like a data set of layout flat."""

    def __init__(self, path: Path, name: str, numbers: AnyArray) -> None:
        self._path = path
        self._name = name
        self._numbers = numbers
        self.shape: tuple[int, ...] = numbers.shape

    def read(self, begin: int, end: int) -> AnyArray:
        """The numbers from `begin` to `end`."""
        if not 0 <= begin <= end <= len(self._numbers):
            problem = f"{self._name!r} has no numbers {begin} to {end}"
            raise EmbeddingsFileError(problem, CORRUPT_HINT, where=self._path)
        return self._numbers[begin:end]
