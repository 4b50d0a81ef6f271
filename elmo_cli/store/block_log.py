"""BlockLog: the committed part of an unfinished embeddings file, in two append-only files.

    OUT.part      bytes that stay free for HDF5, then the values of all committed sentences
    OUT.part.log  one line per block, JSON and its CRC-32; the first line holds the settings

A block is committed when its line is complete, and the checksums of the line and of all its
sentences are right. Opening a log verifies every block and cuts both files after the last good
one. So a kill, a power failure or a changed byte costs at most the blocks from that point on,
which are computed again; no wrong value gets into the result.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.files import FileLock, StrPath, copy_range, is_open_file, output_errors
from elmo_cli.store.layouts import StoredSentence, Totals, checksum, layout_of_spec
from elmo_cli.store.log_lines import (
    MAGIC,
    Block,
    Progress,
    block_record,
    encode_line,
    file_identity,
    log_path,
    part_path,
    read_blocks,
    read_header,
)
from elmo_cli.store.spec import DTYPES, FileSpec

_FSYNC_INTERVAL_S = 30.0
_MAX_BUFFERS = os.sysconf("SC_IOV_MAX")  # in one system call


class BlockLog:
    """Holds the lock on OUT.part, appends blocks and reads them back.

    Attributes:
        name: OUT.part, for messages.
        part: the file.
        exists: whether there is an unfinished output, which may be corrupt.
        spec, overwrite: of the run that began the file; known after `create` and `open`.
        progress: what is committed.
        is_corrupt: whether blocks were dropped because a checksum was wrong.
        data: start and end of the values in OUT.part.
        metadata_bytes: of the committed lines without states, about the size of all but the values.
    """

    spec: FileSpec
    overwrite: bool

    def __init__(self, out: StrPath) -> None:
        """Lock OUT.part, which is created if necessary.

        Raises:
            OutputError: another process is writing it; the files are not ours.
        """
        self.name, self.part = f"{os.fspath(out)}.part", part_path(out)
        self.progress, self.is_corrupt, self.data, self.metadata_bytes = (
            Progress(),
            False,
            (0, 0),
            0,
        )
        self._rows, self._row_shape = 0, list[tuple[int, ...]]()  # none before the first sentence
        self._log, self._log_end, self._synced_s = -1, 0, time.monotonic()
        self._lock = FileLock(self.part)
        with output_errors(self.name):
            if not self._lock.acquire():
                raise OutputError(
                    f"{self.name}: another process is writing it",
                    "wait for it, or choose another output path",
                )
            try:
                self.exists = self._is_unfinished()
            except BaseException:
                self.close()
                raise

    def create(self, spec: FileSpec, *, overwrite: bool) -> None:
        """Begin a log; what was committed before is discarded.

        Args:
            overwrite: OUT may be replaced, also by a run that resumes this one.
        """
        self._set_spec(spec, overwrite)
        header = {"elmo_block_log": 1, "overwrite": overwrite, "settings": spec.to_attributes()}
        with output_errors(self.name):
            os.ftruncate(self._lock.descriptor, 0)  # first, so that no older log is believed
            self._log = os.open(log_path(self.part), os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
            self._log_end = self._append_line(header)

    def open(self) -> None:
        """Read the settings of an existing log; `verified_blocks` has to follow.

        Raises:
            ResumeError: they are corrupt.
        """
        with output_errors(self.name):
            spec, overwrite, self._log_end = read_header(self.part)
            self._set_spec(spec, overwrite)
            self._log = os.open(log_path(self.part), os.O_RDWR)

    def verified_blocks(self) -> Iterator[Block]:
        """All good blocks. Then both files are cut, and `is_corrupt` says why the blocks ended."""
        with output_errors(self.name):
            for block in read_blocks(self.part):
                if block is None or not self._is_intact(block):
                    self.is_corrupt = True
                    break
                shapes = [one.shape for one in block.sentences]
                self._commit(block.progress, block.start, shapes, block.line_end)
                yield block
            os.ftruncate(self._log, self._log_end)
            os.ftruncate(self._lock.descriptor, self.data[1])

    def append(
        self,
        stored: Sequence[StoredSentence],
        token_digests: bytes,
        *,
        text_sha256: str,
        state: bytes = b"",
    ) -> None:
        """Commit a block.

        Args:
            stored: the sentences that the file gets.
            token_digests: of all sentences handed over, 8 bytes each.
            text_sha256: the caller's running hash of the text up to here.
            state: what the caller needs to continue after these sentences.
        Raises:
            OutputError: no space left; what was committed before stays.
        """
        lengths = [len(one.sentence.tokens) for one in stored]
        progress = self.progress.after(len(token_digests) // 8, lengths, text_sha256, state)
        start = self.data[1]
        if stored and not self._row_shape:
            start = self._layout.data_start(self.spec, stored[0].values.shape[1:]) or 0
        record = block_record(stored, token_digests, start, progress)
        with output_errors(self.name, resumable=self.progress.blocks > 0):
            arrays = [one.values.reshape(-1).view(np.uint8) for one in stored if one.values.size]
            _write_all(self._lock.descriptor, [array.data for array in arrays], start)
            line_end = self._append_line(record)
            if time.monotonic() - self._synced_s >= _FSYNC_INTERVAL_S:
                os.fsync(self._lock.descriptor)
                os.fsync(self._log)
                self._synced_s = time.monotonic()
        self._commit(progress, start, [one.values.shape for one in stored], line_end)

    @property
    def totals(self) -> Totals:
        """Of the file that the committed sentences make, without their values."""
        n_sentences = self.progress.sentences - self.progress.duplicates
        row_shape = self._row_shape[0] if self._row_shape else None
        return Totals(n_sentences, self._rows, row_shape, self._dtype, with_values=False)

    def without_values(self, token_digests: bytearray) -> Iterator[StoredSentence]:
        """All committed sentences, in order; their values only have the right shape.

        Args:
            token_digests: gets those of all sentences handed over.
        Raises:
            ResumeError: the log has become corrupt.
        """
        number, zero, empty = 0, np.zeros((), self._dtype), dict[tuple[int, ...], np.ndarray]()
        with output_errors(self.name):
            for block in read_blocks(self.part):
                if block is None:
                    break
                token_digests += block.token_digests
                for one in block.sentences:
                    shape = tuple(one.shape)
                    if shape not in empty:
                        empty[shape] = np.broadcast_to(zero, shape)
                    yield one.stored(empty[shape])
                number = block.progress.blocks
        if number < self.progress.blocks:
            raise ResumeError(
                f"{self.name}: block {number + 1} is corrupt (checksum)",
                "`resume=True` computes it and the following ones again",
            )

    def complete(self, file: Path, descriptor: int, extents: Sequence[tuple[int, int]]) -> Path:
        """Bring the values and everything else together; the file that has all.

        Args:
            file, descriptor: the finished file without values.
            extents: where its values belong, as in `Facts`.
        Returns:
            OUT.part where the values are in place there, and get the rest; otherwise `file`.
        """
        start, end = self.data
        if start and extents == [(start, end - start)]:
            size = file.stat().st_size
            copy_range(descriptor, 0, self._lock.descriptor, 0, start)
            copy_range(descriptor, end, self._lock.descriptor, end, size - end)
            os.ftruncate(self._lock.descriptor, size)
            file.unlink()
            file, descriptor = self.part, self._lock.descriptor
        else:
            for address, n_bytes in extents:
                copy_range(self._lock.descriptor, start, descriptor, address, n_bytes)
                start += n_bytes
        os.fsync(descriptor)
        return file

    def mark_finished(self, file: Path) -> None:
        """Note which file is renamed to OUT next: a kill may leave this log behind."""
        self._append_line({"finished": file_identity(file)})
        os.fsync(self._log)

    def close(self, *, remove: bool = False) -> None:
        """Close both files, which releases the lock; remove them, as far as the system permits."""
        try:
            with suppress(OSError):
                # OUT.part first, since without a log it would pass for a user's; it may be OUT now.
                if remove and is_open_file(self._lock.descriptor, self.part):
                    self.part.unlink()
                if remove:
                    log_path(self.part).unlink()
        finally:
            if self._log >= 0:
                os.close(self._log)
                self._log = -1
            self._lock.release()

    def _is_unfinished(self) -> bool:
        """Whether the files hold anything; refuse those of other programs."""
        is_empty, begins = os.fstat(self._lock.descriptor).st_size == 0, b""
        with suppress(FileNotFoundError), open(log_path(self.part), "rb") as file:
            begins = file.read(len(MAGIC))
        if begins != MAGIC and not (is_empty and MAGIC.startswith(begins)):
            if is_empty:
                self.part.unlink()
            name = f"{self.name}.log" if begins else self.name
            raise OutputError(
                f"{name}: exists and is not an unfinished output of elmo",
                "move it elsewhere, or choose another output path",
            )
        with suppress(ResumeError, FileNotFoundError):
            return bool(read_header(self.part))
        return not is_empty

    def _set_spec(self, spec: FileSpec, overwrite: bool) -> None:
        self.spec, self.overwrite = spec, overwrite
        self._dtype, self._layout = DTYPES[spec.dtype], layout_of_spec(spec)

    def _commit(
        self, progress: Progress, start: int, shapes: Sequence[Sequence[int]], line_end: int
    ) -> None:
        """Count a block that is in both files."""
        if shapes and not self._row_shape:
            self.data = start, start
            self._row_shape.append(tuple(shapes[0][1:]))
        n_bytes = sum(map(math.prod, shapes)) * self._dtype.itemsize
        self.data = self.data[0], self.data[1] + n_bytes
        self._rows += sum(shape[0] for shape in shapes)
        self.metadata_bytes += line_end - self._log_end - len(progress.state)
        self._log_end, self.progress = line_end, progress

    def _is_intact(self, block: Block) -> bool:
        """Whether all values of the next block are right."""
        descriptor = self._lock.descriptor
        position = self.data[1] if self._row_shape else block.start
        size = os.fstat(descriptor).st_size
        for one in block.sentences:
            n_bytes = one.n_values * self._dtype.itemsize
            if position + n_bytes > size:
                return False
            values = np.frombuffer(os.pread(descriptor, n_bytes, position), self._dtype)
            position += n_bytes
            try:
                stored = one.stored(values)
            except (TypeError, ValueError):
                return False
            identity = self._layout.identity(stored.sentence)
            if checksum(identity, values, stored.scales) != stored.crc32:
                return False
        return True

    def _append_line(self, record: Mapping[str, Any]) -> int:
        """Write a line after the last committed one; where it ends."""
        line = encode_line(record)
        _write_all(self._log, [memoryview(line)], self._log_end)
        return self._log_end + len(line)


def _write_all(descriptor: int, buffers: Sequence[memoryview], position: int) -> None:
    """Write buffers one after the other, with few system calls and without copying them."""
    rest = list(reversed(buffers))
    while rest:
        n_written = os.pwritev(descriptor, rest[: -_MAX_BUFFERS - 1 : -1], position)
        position += n_written
        while rest and n_written >= len(rest[-1]):
            n_written -= len(rest.pop())
        if n_written:
            rest[-1] = rest[-1][n_written:]
