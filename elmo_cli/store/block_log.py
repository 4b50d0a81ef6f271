"""BlockLog: the committed part of an unfinished embeddings file, in two append-only files.

    OUT.part      bytes that stay free for HDF5, then the values of all committed sentences
    OUT.part.log  one line per block; the first line holds the settings

A block is committed when its line is complete, and the checksums of the line and of all its
sentences are right. So a kill, a power failure or a changed byte costs at most the blocks from that
point on, which are computed again. At the end the complete file is renamed to OUT, then OUT.part is
removed, and the log last; so a log without OUT.part belongs to a finished file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import ResumeError
from elmo_cli.files import StrPath, lock_own, not_ours, output_errors, publish
from elmo_cli.store import log_lines
from elmo_cli.store.digests import checksum
from elmo_cli.store.layouts import StoredSentence, ValueSink, layout_of_spec
from elmo_cli.store.log_lines import INVALID, CommittedProgress, LoggedBlock, read_blocks
from elmo_cli.store.output_file import copy_bytes, write_at, write_hdf5
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.text.sentence import Sentence

_FSYNC_INTERVAL_S = 30.0
_BYTES_PER_DATASET = 600  # what HDF5 needs for one, besides values and name


class BlockLog:
    """Holds the lock on the log, appends blocks and reads them back.

    Attributes:
        name, part: the path of OUT.part as the user gave it, and with links resolved.
        exists: whether there is an unfinished output, which may be corrupt.
        spec, overwrite: of the run that began the file; known after `create` and `open`.
        progress, n_rows: what is committed, and the sum of the first axis of its values.
        is_corrupt: whether blocks were dropped because a checksum was wrong.
    """

    spec: FileSpec
    overwrite: bool

    def __init__(self, out: StrPath) -> None:
        """Lock the log; an OutputError if another process is writing it, or it is not ours."""
        self.name = f"{os.fspath(out)}.part"
        self.part = log_lines.part_path(out)
        self.progress = CommittedProgress()
        self.n_rows = 0
        self.is_corrupt = False
        self._out = out
        self._path = log_lines.log_path(self.part)
        self._temporary = Path(f"{self.part}.tmp")
        self._log_end = 0
        self._part = -1
        self._end = 0  # of the values in OUT.part
        self._synced_s = time.monotonic()
        with output_errors(self.name):
            has_part = self.part.exists()
            if has_part and not self._path.exists():
                raise not_ours(self.name)
            self._lock = lock_own(self._path, log_lines.MAGIC)
            with open(self._path, "rb") as log:
                self.exists = has_part and log.readline().endswith(b"\n")

    def create(self, spec: FileSpec, *, overwrite: bool) -> None:
        """Begin a log; `overwrite`: OUT may be replaced, also by a run that resumes this one."""
        self._set_spec(spec, overwrite)
        header = {"elmo_block_log": 1, "overwrite": overwrite, "settings": spec.to_attributes()}
        with output_errors(self.name):
            os.ftruncate(self._lock.descriptor, 0)  # first, so that no older log is believed
            self._part = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
            self._log_end = write_at(self._lock.descriptor, log_lines.encode_line(header), 0)

    def open(self) -> None:
        """Read the settings of an existing log; a ResumeError if they are corrupt."""
        spec, overwrite, self._log_end = log_lines.read_header(self._path)
        self._set_spec(spec, overwrite)

    def verified_sentences(self) -> Iterator[Sentence]:
        """The sentences of all good blocks, after which both files are cut."""
        with output_errors(self.name):
            self._part = os.open(self.part, os.O_RDWR)
            try:
                for block in read_blocks(self._path):
                    yield from self._verified(block)
            except INVALID:
                self.is_corrupt = True
            os.ftruncate(self._lock.descriptor, self._log_end)
            os.ftruncate(self._part, self._end)

    def append(
        self, stored: Iterable[StoredSentence], token_digests: bytes, text_sha256: str, state: bytes
    ) -> None:
        """Commit a block: the sentences to store, and the digests of all handed over.

        The values of a sentence are written before the next one is taken from `stored`, so that
        they are still in the processor's cache, and no second copy of the block is in memory.
        """
        rows, lengths = list[Sequence[object]](), list[int]()
        n_rows, position = self.n_rows, self._end
        with output_errors(self.name, resumable=self.progress.blocks > 0):
            for one in stored:
                rows.append(log_lines.packed(one))
                lengths.append(len(one.sentence.tokens))
                n_rows += len(one.values)
                content = one.values.reshape(-1).view(np.uint8).data if one.values.size else b""
                position = write_at(self._part, content, position)
            progress = self.progress.after(len(token_digests) // 8, lengths, text_sha256, state)
            line = log_lines.encode_block(rows, token_digests, progress)
            line_end = write_at(self._lock.descriptor, line, self._log_end)
            if time.monotonic() - self._synced_s >= _FSYNC_INTERVAL_S:
                os.fsync(self._part)
                os.fsync(self._lock.descriptor)
                self._synced_s = time.monotonic()
        self.n_rows, self._end, self._log_end = n_rows, position, line_end
        self.progress = progress

    def publish(self, attributes: Mapping[str, Any]) -> None:
        """Write the complete file, rename it to OUT, and remove the unfinished output."""
        digests, position, stay = bytearray(), self._layout.data_start, False

        def put(address: int, values: AnyArray) -> None:
            """Copy values of OUT.part to `address`; if the first are already there, all stay."""
            nonlocal position, stay
            if position == self._layout.data_start:
                stay = address == position > 0
            if not stay:
                copy_bytes(self._part, position, file, address, values.nbytes)
            elif address != position:
                raise ValueError("a layout with `data_start` has one data set for all values")
            position += values.nbytes

        try:
            self._allocate()
            with open(self._temporary, "r+b", buffering=0) as opened:
                file = opened.fileno()
                stored, sink = self._without_values(digests), ValueSink(self.n_rows, put)
                write_hdf5(self._temporary, self.spec, stored, digests, attributes, sink)
                if stay:
                    self._enclose_values(file)
                os.fsync(self._part if stay else file)
            whole = self.part if stay else self._temporary
            hint = "move it elsewhere; then `resume=True` completes the output of this run"
            publish(whole, self._out, overwrite=self.overwrite, hint=hint)
        except BaseException:
            self._temporary.unlink(missing_ok=True)
            raise
        self.close(remove=True)

    def close(self, *, remove: bool = False) -> None:
        """Close both files, which releases the lock; remove them, as far as the system permits."""
        try:
            with suppress(OSError):
                if remove:
                    for path in (self._temporary, self.part, self._path):  # the log last
                        path.unlink(missing_ok=True)
        finally:
            if self._part >= 0:
                os.close(self._part)
                self._part = -1
            self._lock.release()

    def _set_spec(self, spec: FileSpec, overwrite: bool) -> None:
        self.spec = spec
        self.overwrite = overwrite
        self._dtype = DTYPES[spec.dtype]
        self._layout = layout_of_spec(spec)
        self._end = self._layout.data_start

    def _verified(self, block: LoggedBlock) -> list[Sentence]:
        """Count a block of an existing log as committed; an error of `INVALID` if it is corrupt."""
        stored, position = list(block.stored(self._dtype)), self._end
        size = os.fstat(self._part).st_size
        for one in stored:
            n_bytes = one.values.nbytes
            if n_bytes > size - position:
                raise ValueError("values are missing")
            values = np.frombuffer(os.pread(self._part, n_bytes, position), self._dtype)
            if checksum(self._layout.identity(one.sentence), values, one.scales) != one.crc32:
                raise ValueError("a checksum is wrong")
            position += n_bytes
        self.n_rows += sum(len(one.values) for one in stored)
        self._end, self._log_end, self.progress = position, block.line_end, block.progress
        return [one.sentence for one in stored]

    def _allocate(self) -> None:
        """Raise an OSError now if there is no space for the HDF5 file, which cannot bear it."""
        n_datasets = 1 + self.progress.sentences - self.progress.duplicates
        begin = self._end if self._layout.data_start else 0
        # The log has all names, tokens and scales, which take less space in HDF5.
        end = self._end + self._log_end + _BYTES_PER_DATASET * n_datasets
        with open(self._temporary, "wb") as opened:
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(opened.fileno(), begin, end - begin)

    def _without_values(self, token_digests: bytearray) -> Iterator[StoredSentence]:
        """All committed sentences without their values; `token_digests` gets those of all."""
        number = 0
        with output_errors(self.name), suppress(*INVALID):
            for block in read_blocks(self._path):
                token_digests += block.token_digests
                yield from block.stored(self._dtype)
                number = block.progress.blocks
        if number < self.progress.blocks:
            raise ResumeError(
                f"{self.name}: block {number + 1} is corrupt (checksum)",
                "`resume=True` computes it and the following ones again",
            )

    def _enclose_values(self, file: int) -> None:
        """Copy all but the values from OUT.part.tmp into OUT.part, which is then complete."""
        start, end, size = self._layout.data_start, self._end, os.fstat(file).st_size
        copy_bytes(file, 0, self._part, 0, start)
        copy_bytes(file, end, self._part, end, size - end)
        os.ftruncate(self._part, size)
