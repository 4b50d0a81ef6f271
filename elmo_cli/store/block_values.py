"""BlockValues: the values of a block of sentences, handed to the writer thread in chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from elmo_cli.arrays import AnyArray
from elmo_cli.store.ordered_thread import OrderedThread
from elmo_cli.store.output_file import write_values

_CHUNK_BYTES = 4 << 20  # about, that a call writes at least, except the last of a block
_MAX_CHUNK_BYTES = 32 << 20  # about, that a call writes at most
_MAX_CHUNK_ARRAYS = 1000  # POSIX allows systems to take no more than 1,024 at once

# Writes arrays, from a position in the values of the block, in bytes.
WriteChunk = Callable[[Sequence[AnyArray], int], None]


class BlockValues:
    """Collects arrays until they are worth a call of the writer thread.

    The thread writes what has been added so far, while the caller transposes the next values and
    computes their checksums. A file takes only one write at a time, so one thread is enough. It
    needs the interpreter between two calls, for which it may have to wait longer than a call of a
    few megabytes takes. Therefore each call writes all arrays that are ready, up to a limit. The
    limit also bounds the copies of values in memory: one chunk is written, two wait and one is
    filled.

    Attributes:
        n_bytes: of all arrays added so far.
    """

    def __init__(self, thread: OrderedThread, write_chunk: WriteChunk) -> None:
        self.n_bytes = 0
        self._thread = thread
        self._write_chunk = write_chunk
        self._chunk: list[AnyArray] = []  # not handed to the thread yet
        self._chunk_begin = 0  # in the values of the block, in bytes

    def add(self, values: AnyArray) -> None:
        """Write a C-contiguous array after all before it, now or later."""
        n_chunk_bytes = self.n_bytes - self._chunk_begin
        is_full = n_chunk_bytes >= _MAX_CHUNK_BYTES or len(self._chunk) == _MAX_CHUNK_ARRAYS
        if is_full or (n_chunk_bytes >= _CHUNK_BYTES and self._thread.is_idle):
            self.hand_over()
        self._chunk.append(values)
        self.n_bytes += values.nbytes

    def hand_over(self) -> None:
        """Have the thread write the arrays that it does not have yet."""
        self._thread.submit(self._write_chunk, self._chunk, self._chunk_begin)
        self._chunk_begin = self.n_bytes
        self._chunk = []


def write_chunk(descriptor: int, arrays: Sequence[AnyArray], position: int) -> None:
    """Write the bytes of C-contiguous arrays one after the other, by one call if possible."""
    n_written = 0
    if hasattr(os, "pwritev") and arrays:
        n_written = os.pwritev(descriptor, [array.data for array in arrays], position)
    for array in arrays:
        if array.nbytes > n_written:  # rarely: the call did not write all of this array
            write_values(descriptor, array, position)
        n_written = max(0, n_written - array.nbytes)
        position += array.nbytes
