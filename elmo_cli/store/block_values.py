"""BlockValues: writes the values of a block of sentences to OUT.part, most of them in a thread."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from elmo_cli.arrays import AnyArray
from elmo_cli.store.output_file import write_values

_CHUNK_BYTES = 4 << 20  # about, that a call in the thread writes at least
_MAX_CHUNK_BYTES = 32 << 20  # about, that any call writes at most
_MAX_CHUNK_ARRAYS = 1000  # POSIX allows systems to take no more than 1,024 at once


class BlockValues:
    """Writes arrays one after the other; used in a `with`, which waits for its thread.

    The thread writes what has been added so far, while the caller transposes the next values and
    computes their checksums. A file takes only one write at a time, so one thread is enough. It
    needs the interpreter between two calls, for which it may have to wait longer than a call of a
    few megabytes takes. Therefore each call writes all there is, up to a limit. A block that is
    smaller than a chunk is written without the thread.

    Args:
        descriptor: the file descriptor of OUT.part.
        position: where the first value is written in OUT.part, in bytes.
    """

    def __init__(self, descriptor: int, position: int) -> None:
        self._descriptor = descriptor
        self._position = position  # of the chunk
        self._chunk: list[AnyArray] = []  # not handed to the thread yet
        self._n_bytes = 0  # of the chunk
        self._pool = ThreadPoolExecutor(1)  # which starts its thread when it is first used
        self._writes: list[Future[None]] = []  # of the thread

    def __enter__(self) -> BlockValues:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown()

    def add(self, values: AnyArray) -> None:
        """Write a C-contiguous array after all before it, now or later; an OSError of any."""
        is_full = self._n_bytes >= _MAX_CHUNK_BYTES or len(self._chunk) == _MAX_CHUNK_ARRAYS
        is_thread_free = not self._writes or self._writes[-1].done()
        if is_full or (is_thread_free and self._n_bytes >= _CHUNK_BYTES):
            if self._writes:
                self._writes[-1].result()
            self._hand_over()
        self._chunk.append(values)
        self._n_bytes += values.nbytes

    def hand_over_rest(self) -> None:
        """After the last array, let the thread write what is left, if it has written before."""
        if self._writes:
            self._hand_over()

    def finish(self) -> int:
        """Wait until all values are written, and return where they end; an OSError of any."""
        for write in self._writes:
            write.result()
        _write_chunk(self._descriptor, self._chunk, self._position)
        return self._position + self._n_bytes

    def _hand_over(self) -> None:
        write = self._pool.submit(_write_chunk, self._descriptor, self._chunk, self._position)
        self._writes.append(write)
        self._position += self._n_bytes
        self._chunk = []
        self._n_bytes = 0


def _write_chunk(descriptor: int, arrays: Sequence[AnyArray], position: int) -> None:
    """Write the bytes of C-contiguous arrays one after the other, by one call if possible."""
    buffers = [array.reshape(-1).view("u1").data for array in arrays if array.size]
    n_written = 0
    if hasattr(os, "pwritev") and buffers:
        n_written = os.pwritev(descriptor, buffers, position)
    for array in arrays:
        if array.nbytes > n_written:  # rarely: the call did not write all of this array
            write_values(descriptor, array, position)
        n_written = max(0, n_written - array.nbytes)
        position += array.nbytes
