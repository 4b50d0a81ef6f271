"""Spool: the values of a data set whose size is not known yet, on the disk if there are many."""

from __future__ import annotations

import array
import os
from collections.abc import Iterator
from tempfile import TemporaryFile
from typing import IO

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.files import StrPath

_CHUNK_BYTES = 1 << 18


class Spool:
    """Numbers of one type: the caller appends them to `pending`, and reads all of them later.

    The temporary file has no name, so that nothing is left of it if the process is killed.

    Args:
        folder: the folder of the temporary file; its disk needs space for the numbers.
    Attributes:
        dtype: the type of the numbers.
        pending: the last numbers, which are not on the disk yet.
    """

    def __init__(self, folder: StrPath, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.pending = array.array(self.dtype.char)
        self._folder = folder
        self._n_on_disk = 0
        self._file: IO[bytes] | None = None

    def __len__(self) -> int:
        return self._n_on_disk + len(self.pending)

    def move_to_disk(self) -> None:
        """Move what is pending to the disk; an OSError if there is no space left."""
        if self._file is None:
            self._file = TemporaryFile(dir=self._folder)  # noqa: SIM115 - see `close`
        self._file.seek(0, os.SEEK_END)
        self.pending.tofile(self._file)
        self._n_on_disk += len(self.pending)
        del self.pending[:]

    def chunks(self, row_size: int = 1) -> Iterator[AnyArray]:
        """Yield all numbers in chunks of whole rows of `row_size` numbers."""
        if self._file is not None:
            self._file.seek(0)
            row_bytes = row_size * self.dtype.itemsize
            n_bytes = max(1, _CHUNK_BYTES // row_bytes) * row_bytes
            while chunk := self._file.read(n_bytes):
                yield np.frombuffer(chunk, self.dtype)
        if self.pending:
            yield np.frombuffer(self.pending, self.dtype)

    def array(self) -> AnyArray:
        """All numbers as one array."""
        values = np.empty(len(self), self.dtype)
        begin = 0
        for chunk in self.chunks():
            values[begin : begin + len(chunk)] = chunk
            begin += len(chunk)
        return values

    def content(self) -> bytes:
        """All bytes of a spool of bytes."""
        if self._file is None:
            return self.pending.tobytes()
        self.move_to_disk()
        self._file.seek(0)
        return self._file.read()

    def lines(self) -> Iterator[bytes]:
        """Yield lines of bytes; the caller must move only whole lines to the disk."""
        if self._file is not None:
            self._file.seek(0)
            yield from self._file
        yield from self.pending.tobytes().splitlines(keepends=True)

    def close(self) -> None:
        """Close the temporary file, which removes it."""
        if self._file is not None:
            self._file.close()


class SpooledText(str):
    """The text in a spool of bytes in UTF-8, which is read when h5py encodes it.

    h5py copies the encoded text for HDF5, and HDF5 copies it once more until it is in the file. So
    memory holds two copies of the text; an ordinary string would be a third one.
    """

    _spool: Spool

    @classmethod
    def of(cls, spool: Spool) -> SpooledText:
        """The text in a spool, which must not be closed before it is encoded."""
        text = cls()
        text._spool = spool
        return text

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """The bytes in the spool, whatever the encoding."""
        return self._spool.content()
