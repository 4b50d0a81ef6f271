"""BlockLog: the committed part of an unfinished embeddings file, in two append-only files.

    OUT.part      bytes that stay free for HDF5, then the values of all committed sentences
    OUT.part.log  one line per block; the first line holds the settings

A block is committed when its line is complete, and the checksums of the line and of all its
sentences are right. So a kill, a power failure or a changed byte costs at most the blocks from that
point on, which are computed again. A log without OUT.part is that of a finished file.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.errors import ResumeError
from elmo_cli.files import StrPath, lock_own, not_ours, output_errors
from elmo_cli.store.layouts import StoredSentence, Totals, checksum, layout_of_spec
from elmo_cli.store.log_lines import (
    INVALID,
    MAGIC,
    Block,
    Progress,
    encode_block,
    encode_line,
    log_path,
    packed,
    part_path,
    read_blocks,
    read_header,
    ready_path,
    unpacked,
)
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.text.sentence import Sentence

_FSYNC_INTERVAL_S = 30.0
_COPIED_BYTES = 1 << 20


class BlockLog:
    """Holds the lock on the log, appends blocks and reads them back.

    Attributes:
        name, part: OUT.part as the user named it, and the file.
        ready, temporary: the finished file before it gets its name, and without its values.
        exists: whether there is an unfinished output, which may be corrupt.
        is_complete: whether its file is complete and only lacks the name of OUT.
        spec, overwrite: of the run that began the file; known after `create` and `open`.
        progress: what is committed.
        is_corrupt: whether blocks were dropped because a checksum was wrong.
        data: start and end of the values in OUT.part.
        metadata_bytes: of the committed lines without states, about the size of all but the values.
    """

    spec: FileSpec
    overwrite: bool

    def __init__(self, out: StrPath) -> None:
        """Lock the log; an OutputError if another process is writing it, or it is not ours."""
        self.name, self.part = f"{os.fspath(out)}.part", part_path(out)
        self.progress, self.is_corrupt, self.data, self.metadata_bytes = (
            Progress(),
            False,
            (0, 0),
            0,
        )
        self.ready, self.temporary = ready_path(self.part), Path(f"{self.part}.tmp")
        self._path, self._part, self._log_end = log_path(self.part), -1, 0
        self._row_shape: tuple[int, ...] | None = None  # None before the first sentence
        self._rows, self._synced_s = 0, time.monotonic()
        with output_errors(self.name):
            has_part = self.part.exists()
            if has_part and not self._path.exists():
                raise not_ours(self.name)
            self._lock = lock_own(self._path, MAGIC)
            self.exists = has_part and self.part.stat().st_size > 0 < self._path.stat().st_size
            self.is_complete = False
            with suppress(ResumeError):
                self._set_spec(*read_header(self._path)[:2])
                self.is_complete = not has_part and self.ready.exists()
                self.exists = has_part or self.is_complete

    def create(self, spec: FileSpec, *, overwrite: bool) -> None:
        """Begin a log; `overwrite`: OUT may be replaced, also by a run that resumes this one."""
        self._set_spec(spec, overwrite)
        header = {"elmo_block_log": 1, "overwrite": overwrite, "settings": spec.to_attributes()}
        with output_errors(self.name):
            os.ftruncate(self._lock.descriptor, 0)  # first, so that no older log is believed
            self._part = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
            self._log_end = self._append_line(encode_line(header))

    def open(self) -> None:
        """Read the settings of an existing log; a ResumeError if they are corrupt."""
        self._set_spec(*read_header(self._path)[:2])

    def verified_sentences(self) -> Iterator[Sentence]:
        """The sentences of all good blocks, after which both files are cut."""
        with output_errors(self.name):
            self._part = os.open(self.part, os.O_RDWR)
            self._log_end = read_header(self._path)[2]
            for block in read_blocks(self._path):
                sentences = block and self._verified(block)
                if block is None or sentences is None:
                    self.is_corrupt = True
                    break
                self._commit(block.progress, block.shapes, block.line_end)
                yield from sentences
            os.ftruncate(self._lock.descriptor, self._log_end)
            os.ftruncate(self._part, self.data[1])

    def append(
        self, stored: Iterable[StoredSentence], token_digests: bytes, text_sha256: str, state: bytes
    ) -> None:
        """Commit a block: the sentences to store, and the digests of all handed over.

        The values of a sentence are written before the next one is taken from `stored`, so that
        they are still in the processor's cache, and no second copy of the block is in memory.
        """
        rows, shapes, position = list[list[Any]](), list[tuple[int, ...]](), 0
        with output_errors(self.name, resumable=self.progress.blocks > 0):
            for one in stored:
                shapes.append(one.values.shape)
                rows.append(packed(one))
                position = position or self._data_end(shapes)
                content = one.values.reshape(-1).view(np.uint8).data if one.values.size else b""
                position = _write(self._part, content, position)
            tokens = [row[1] for row in rows]
            progress = self.progress.after(len(token_digests) // 8, tokens, text_sha256, state)
            line_end = self._append_line(encode_block(rows, token_digests, progress))
            if time.monotonic() - self._synced_s >= _FSYNC_INTERVAL_S:
                os.fsync(self._part)
                os.fsync(self._lock.descriptor)
                self._synced_s = time.monotonic()
        self._commit(progress, shapes, line_end)

    @property
    def totals(self) -> Totals:
        """Of the file that the committed sentences make, without their values."""
        n_stored = self.progress.sentences - self.progress.duplicates
        return Totals(n_stored, self._rows, self._row_shape, self._dtype, with_values=False)

    def without_values(self, token_digests: bytearray) -> Iterator[StoredSentence]:
        """All committed sentences; their values only have the right shape.

        Args:
            token_digests: gets those of all sentences handed over.
        """
        number, zero = 0, np.zeros((), self._dtype)
        values_of = cache(lambda shape: np.broadcast_to(zero, shape))
        with output_errors(self.name):
            for block in filter(None, read_blocks(self._path)):
                token_digests += block.token_digests
                for row, shape in zip(block.rows, block.shapes, strict=True):
                    yield unpacked(row, values_of(shape))
                number = block.progress.blocks
        if number < self.progress.blocks:
            raise ResumeError(
                f"{self.name}: block {number + 1} is corrupt (checksum)",
                "`resume=True` computes it and the following ones again",
            )

    def complete(self, extents: Sequence[tuple[int, int]]) -> None:
        """Bring values and `temporary` together in `ready`, and remove OUT.part; see `Facts`."""
        start, end = self.data
        with open(self.temporary, "r+b", buffering=0) as opened:
            source = opened.fileno()
            if start and extents == [(start, end - start)]:  # the values are in place
                size = self.temporary.stat().st_size
                _copy(source, 0, self._part, 0, start)
                _copy(source, end, self._part, end, size - end)
                os.ftruncate(self._part, size)
                os.fsync(self._part)
                os.replace(self.part, self.ready)
                self.temporary.unlink()
                return
            for address, n_bytes in extents:
                _copy(self._part, start, source, address, n_bytes)
                start += n_bytes
            os.fsync(source)
        os.replace(self.temporary, self.ready)
        self.part.unlink()

    def close(self, *, remove: bool = False) -> None:
        """Close both files, which releases the lock; remove them, as far as the system permits."""
        try:
            with suppress(OSError):
                if remove:
                    os.ftruncate(self._lock.descriptor, 0)  # first: an empty log is none
                    for path in (self.part, self.ready, self.temporary, self._path):
                        path.unlink(missing_ok=True)
        finally:
            if self._part >= 0:
                os.close(self._part)
                self._part = -1
            self._lock.release()

    def _set_spec(self, spec: FileSpec, overwrite: bool) -> None:
        self.spec, self.overwrite = spec, overwrite
        self._dtype, self._layout = DTYPES[spec.dtype], layout_of_spec(spec)

    def _data_end(self, shapes: Sequence[tuple[int, ...]]) -> int:
        """Where the values of the next block begin."""
        if self._row_shape is not None or not shapes:
            return self.data[1]
        return self._layout.data_start(self.spec, shapes[0][1:]) or 0

    def _commit(self, progress: Progress, shapes: Sequence[tuple[int, ...]], line_end: int) -> None:
        """Count a block that is in both files."""
        end = self._data_end(shapes)
        if shapes and self._row_shape is None:
            self._row_shape, self.data = shapes[0][1:], (end, end)
        n_bytes = sum(map(math.prod, shapes)) * self._dtype.itemsize
        self.data = self.data[0], end + n_bytes
        self._rows += sum(shape[0] for shape in shapes)
        self.metadata_bytes += line_end - self._log_end - len(progress.state)
        self._log_end, self.progress = line_end, progress

    def _verified(self, block: Block) -> list[Sentence] | None:
        """The sentences of a block; None if a value is wrong."""
        sentences, size = list[Sentence](), os.fstat(self._part).st_size
        try:
            position = self._data_end(block.shapes)
            for row, shape in zip(block.rows, block.shapes, strict=True):
                n_bytes = math.prod(shape) * self._dtype.itemsize
                if not 0 <= n_bytes <= size - position:
                    return None
                values = np.frombuffer(os.pread(self._part, n_bytes, position), self._dtype)
                stored = unpacked(row, values)
                identity = self._layout.identity(stored.sentence)
                if checksum(identity, values, stored.scales) != stored.crc32:
                    return None
                sentences.append(stored.sentence)
                position += n_bytes
        except INVALID:
            return None
        return sentences

    def _append_line(self, line: bytes) -> int:
        """Write a line after the last committed one; where it ends."""
        return _write(self._lock.descriptor, line, self._log_end)


def _write(descriptor: int, content: bytes | memoryview, position: int) -> int:
    """Write all of it, which may take more than one call; where it ends."""
    rest = memoryview(content)
    while rest:
        n_written = os.pwrite(descriptor, rest, position)
        rest, position = rest[n_written:], position + n_written
    return position


def _copy(source: int, start: int, target: int, position: int, n_bytes: int) -> None:
    """Copy bytes between open files, within the kernel where it can."""
    end = start + n_bytes
    if hasattr(os, "copy_file_range"):  # Linux
        with suppress(OSError):  # a file system without it
            while start < end:
                n_copied = os.copy_file_range(source, target, end - start, start, position)
                if not n_copied:
                    break
                start, position = start + n_copied, position + n_copied
    while start < end:
        content = os.pread(source, min(_COPIED_BYTES, end - start), start)
        start, position = start + len(content), _write(target, content, position)
