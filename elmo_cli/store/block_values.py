"""write_block: write the values of a block of sentences to OUT.part, most of them in a thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from elmo_cli.arrays import AnyArray
from elmo_cli.store.layouts import StoredSentence
from elmo_cli.store.log_lines import LoggedSentence
from elmo_cli.store.output_file import write_values
from elmo_cli.text.sentence import Sentence

_CHUNK_BYTES = 4 << 20  # about, that one call writes
_MAX_CHUNK_ARRAYS = 1000  # POSIX allows systems to take no more than 1,024 at once

Store = Callable[[Sentence, AnyArray], StoredSentence]


def write_block(
    sentences: Sequence[Sentence],
    arrays: Sequence[AnyArray],
    *,
    store: Store,
    descriptor: int,
    position: int,
) -> tuple[list[LoggedSentence], int]:
    """Write the values of sentences one after the other.

    Chunks of values are written by another thread, while this one transposes the next values and
    computes their checksums. A file takes only one write at a time, so one such thread is enough.
    A block of one chunk is written without it.

    Args:
        store: returns a sentence with the values that the file holds.
        descriptor: the file descriptor of OUT.part.
        position: where the first value is written in OUT.part, in bytes.
    Returns:
        The entries of the sentences in the log, and where the values end.
    Raises:
        OSError, and what `store` raises.
    """
    entries: list[LoggedSentence] = []
    chunk: list[AnyArray] = []
    n_bytes = 0
    with ThreadPoolExecutor(1) as pool:  # which starts its thread when it is first used
        pending: Future[None] | None = None
        for sentence, array in zip(sentences, arrays, strict=True):
            if n_bytes >= _CHUNK_BYTES or len(chunk) == _MAX_CHUNK_ARRAYS:
                if pending is not None:
                    pending.result()
                pending = pool.submit(_write_chunk, descriptor, chunk, position)
                position += n_bytes
                chunk = []
                n_bytes = 0
            stored = store(sentence, array)
            entries.append(LoggedSentence.pack(stored))
            chunk.append(stored.values)
            n_bytes += stored.values.nbytes
        if pending is not None:
            pending.result()
    _write_chunk(descriptor, chunk, position)
    return entries, position + n_bytes


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
