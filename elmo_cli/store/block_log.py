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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import ResumeError
from elmo_cli.file_locks import lock_own, not_ours
from elmo_cli.files import StrPath, output_errors, publish
from elmo_cli.store.block_values import BlockValues, write_chunk
from elmo_cli.store.collected_sentences import CollectedSentences
from elmo_cli.store.digests import DIGEST_BYTES, checksum
from elmo_cli.store.file_formats import format_of_output
from elmo_cli.store.layouts import LineCheck, ValueSink, layout_of_spec
from elmo_cli.store.log_lines import (
    INVALID,
    MAGIC,
    CommittedProgress,
    LoggedBlock,
    LoggedSentence,
    count_blocks,
    encode_block,
    encode_header,
    read_blocks,
    read_header,
)
from elmo_cli.store.ordered_thread import OrderedThread
from elmo_cli.store.output_file import OutputFile, new_output_file, write_at
from elmo_cli.store.part_values import PartValues
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.store.unfinished import log_path, part_path
from elmo_cli.text.sentence import Sentence

_FSYNC_INTERVAL_S = 30.0
_BYTES_PER_DATASET = 600  # what HDF5 needs for one, besides values and name


@dataclass(frozen=True, slots=True)
class _AppendedBlock:
    """A block whose values the writer thread has been given, to be committed after them.

    Attributes:
        line: of the log.
        n_sentences: all that were handed over, including those that are not stored.
        lengths: tokens of each sentence that is stored.
        n_rows: the sum of the first axis of its values.
        n_bytes: of its values.
        text_sha256, state, on_commit: see `EmbeddingsWriter.append_block`.
    """

    line: bytes
    n_sentences: int
    lengths: Sequence[int]
    n_rows: int
    n_bytes: int
    text_sha256: str
    state: bytes
    on_commit: Callable[[], None]


class BlockLog:
    """Holds the lock on the log, appends blocks and reads them back.

    Attributes:
        name, part: the path of OUT.part as the user gave it, and with links resolved.
        exists: whether there is an unfinished output, which may be corrupt.
        spec, overwrite: of the run that began the file; known after `create` and `open`.
        progress, n_rows: what is committed, and the sum of the first axis of its values.
        is_corrupt: whether blocks were dropped because a checksum was wrong.
        line_check: after `publish`, the check whether readers can recover the tokens from the
            lines; None if the file records tokens, or no lines.
    """

    spec: FileSpec
    overwrite: bool

    def __init__(self, out: StrPath) -> None:
        """Lock the log; an OutputError if another process is writing it, or it is not ours."""
        self.name = f"{os.fspath(out)}.part"
        self.part = part_path(out)
        self.progress = CommittedProgress()
        self.n_rows = 0
        self.is_corrupt = False
        self.line_check: LineCheck | None = None
        self._out = out
        self._format = format_of_output(out)
        self._path = log_path(self.part)
        self._temporary = Path(f"{self.part}.tmp")
        self._log_end = 0
        self._part_descriptor = -1  # OUT.part, once it is open
        self._thread = OrderedThread(max_waiting=2)  # only it changes what is committed
        self._values_end = 0  # in OUT.part
        self._collected: CollectedSentences | None = None  # of all committed blocks
        self._synced_s = time.monotonic()
        with output_errors(self.name):
            has_part = self.part.exists()
            if has_part and not self._path.exists():
                raise not_ours(self.name)
            self._lock = lock_own(self._path, MAGIC)
            with open(self._path, "rb") as log:
                self.exists = has_part and log.readline().endswith(b"\n")

    def create(self, spec: FileSpec, *, overwrite: bool) -> None:
        """Begin a log; `overwrite`: OUT may be replaced, also by a run that resumes this one."""
        data_start = layout_of_spec(spec).data_start
        self._set_spec(spec, overwrite, data_start)
        header = encode_header(spec, overwrite=overwrite, data_start=data_start)
        with output_errors(self.name):
            os.ftruncate(self._lock.descriptor, 0)  # first, so that no older log is believed
            self._part_descriptor = os.open(self.part, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
            self._log_end = write_at(self._lock.descriptor, header, 0)
        if not self._format.module:
            self._collected = CollectedSentences.new(spec, self._layout, self.part.parent)

    def open(self) -> None:
        """Read the settings of an existing log; a ResumeError if they are corrupt."""
        header = read_header(self._path)
        self._log_end = header.line_end
        self._set_spec(header.spec, header.overwrite, header.data_start)

    def verified_sentences(self) -> Iterator[Sentence]:
        """The sentences of all good blocks, after which both files are cut."""
        with output_errors(self.name):
            self._part_descriptor = os.open(self.part, os.O_RDWR)
            try:
                for block in read_blocks(self._path):
                    yield from self._verified(block)
            except INVALID:
                self.is_corrupt = True
            os.ftruncate(self._lock.descriptor, self._log_end)
            os.ftruncate(self._part_descriptor, self._values_end)

    def append(
        self,
        sentences: Sequence[Sentence],
        arrays: Sequence[AnyArray],
        *,
        token_digests: Iterable[bytes],
        text_sha256: str,
        state: bytes,
        on_commit: Callable[[], None],
    ) -> Future[None]:
        """Hand a block to the writer thread, which commits it after all blocks before it.

        The thread writes the values of the block, and then its line.

        Args:
            sentences: those to store.
            token_digests: of all sentences of the block, including those that are not stored.
            on_commit: called by the writer thread when the block is committed.
        Returns:
            A future that is done when the block is committed. If it raises an OutputError, no
            later block is committed.
        Raises:
            OutputError: a value that the dtype cannot hold.
        """
        logged = []
        with output_errors(self.name, resumable=self.progress.blocks > 0), self._collecting():
            collected = self._collected
            values = BlockValues(self._thread, self._write_chunk)
            for sentence, array in zip(sentences, arrays, strict=True):
                stored = self._layout.store(sentence, array, self.spec)
                logged.append(LoggedSentence.pack(stored))
                values.add(stored.values)
                if collected is not None:
                    collected.add(stored)
            values.hand_over()
            # The digests are computed while values are written.
            digests = b"".join(token_digests)
            if collected is not None:
                collected.facts.add_token_digests(digests)
            block = _AppendedBlock(
                line=encode_block(logged, digests, text_sha256, state),
                n_sentences=len(digests) // DIGEST_BYTES,
                lengths=[len(sentence.tokens) for sentence in sentences],
                n_rows=sum(entry.shape[0] for entry in logged),
                n_bytes=values.n_bytes,
                text_sha256=text_sha256,
                state=state,
                on_commit=on_commit,
            )
            return self._thread.submit(self._commit, block)

    def _write_chunk(self, arrays: Sequence[AnyArray], begin: int) -> None:
        """Write values of the first block not yet committed, from byte `begin` of its values."""
        with output_errors(self.name, resumable=self.progress.blocks > 0):
            write_chunk(self._part_descriptor, arrays, self._values_end + begin)

    def _commit(self, block: _AppendedBlock) -> None:
        """Commit a block whose values are written."""
        with output_errors(self.name, resumable=self.progress.blocks > 0):
            log_end = write_at(self._lock.descriptor, block.line, self._log_end)
            self._sync_if_due()
        self._log_end = log_end
        self._values_end += block.n_bytes
        self.n_rows += block.n_rows
        self.progress = self.progress.after(
            block.n_sentences, block.lengths, block.text_sha256, block.state
        )
        block.on_commit()

    @contextmanager
    def _collecting(self) -> Iterator[None]:
        """Stop collecting after an error, since part of a block may have been collected."""
        try:
            yield
        except BaseException:
            if self._collected is not None:
                self._collected.close()
                self._collected = None  # the log says what is committed
            raise

    def publish(self, attributes: Mapping[str, Any]) -> None:
        """Write the complete file, rename it to OUT, and remove the unfinished output."""
        self._thread.wait()
        try:
            if self._format.module:
                complete = self._write_with_values(attributes)
            else:
                self._allocate_metadata()
                complete = self._write_complete(attributes)
            hint = "move it elsewhere; then `resume=True` completes the output of this run"
            publish(complete, self._out, overwrite=self.overwrite, hint=hint)
        except BaseException:
            self._temporary.unlink(missing_ok=True)
            raise
        self.close(remove=True)

    def end_thread(self) -> None:
        """Wait until all blocks are committed, however often Ctrl-C is pressed.

        No block can be appended afterwards.
        """
        self._thread.close()

    def close(self, *, remove: bool = False) -> None:
        """Close both files, which releases the lock; remove them, as far as the system permits."""
        self.end_thread()
        try:
            with suppress(OSError):
                if remove:
                    for path in (self._temporary, self.part, self._path):  # the log last
                        path.unlink(missing_ok=True)
        finally:
            if self._collected is not None:
                self._collected.close()
            if self._part_descriptor >= 0:
                os.close(self._part_descriptor)
                self._part_descriptor = -1
            self._lock.release()

    def _set_spec(self, spec: FileSpec, overwrite: bool, data_start: int) -> None:
        self.spec = spec
        self.overwrite = overwrite
        self._dtype = DTYPES[spec.dtype]
        self._layout = layout_of_spec(spec)
        self._data_start = data_start
        self._values_end = data_start

    def _verified(self, block: LoggedBlock) -> list[Sentence]:
        """Count a block of an existing log as committed; an error of `INVALID` if it is corrupt."""
        n_rows = self.n_rows
        values_end = self._values_end
        part_size = os.fstat(self._part_descriptor).st_size
        sentences = []
        for stored in block.stored(self._dtype):
            n_bytes = stored.values.nbytes
            if n_bytes > part_size - values_end:
                raise ValueError("values are missing")
            content = os.pread(self._part_descriptor, n_bytes, values_end)
            values = np.frombuffer(content, self._dtype)
            identity = self._layout.identity(stored.sentence)
            if checksum(identity, values, stored.scales) != stored.crc32:
                raise ValueError("a checksum is wrong")
            n_rows += len(stored.values)
            values_end += n_bytes
            sentences.append(stored.sentence)
        self.n_rows = n_rows
        self.progress = block.progress
        self._values_end = values_end
        self._log_end = block.line_end
        return sentences

    def _sync_if_due(self) -> None:
        """Now and then have the system write to the disk; a kill does not need it."""
        if time.monotonic() - self._synced_s >= _FSYNC_INTERVAL_S:
            os.fsync(self._part_descriptor)
            os.fsync(self._lock.descriptor)
            self._synced_s = time.monotonic()

    def _allocate_metadata(self) -> None:
        """Raise an OSError now if there is no space for the metadata; HDF5 cannot bear it."""
        n_datasets = 1 + self.progress.sentences - self.progress.duplicates
        # The log has all names, tokens and scales, which take less space in HDF5.
        n_bytes = self._log_end + _BYTES_PER_DATASET * n_datasets
        with open(self._temporary, "wb") as opened:
            if hasattr(os, "posix_fallocate"):  # macOS has none
                os.posix_fallocate(opened.fileno(), self._values_end, n_bytes)

    def _write_complete(self, attributes: Mapping[str, Any]) -> Path:
        """Make OUT.part.tmp, or OUT.part if its values are in place, the complete file."""
        with open(self._temporary, "r+b", buffering=0) as opened:
            temporary = opened.fileno()
            values = PartValues(self._part_descriptor, self._data_start, temporary)
            sink = ValueSink(self.n_rows, values.put, n_bytes=self._values_end - self._data_start)
            with new_output_file(self._temporary, self.spec, sink) as output:
                self._add_committed(output)
                output.finish(attributes)
                self.line_check = output.line_check
            if values.are_in_place:
                values.enclose()
                os.fsync(self._part_descriptor)
                return self.part
            os.fsync(temporary)
            return self._temporary

    def _add_committed(self, output: OutputFile) -> None:
        """Add all sentences to the complete file, from the log unless they were collected."""
        all_values = None if self._collected is None else self._collected.values()
        if self._collected is not None and all_values is not None:
            self._check_committed()
            output.add_collected(all_values, self._collected)
            return
        for block in self._committed_blocks():
            output.add_token_digests(block.token_digests)
            for stored in block.stored(self._dtype):
                output.add(stored)

    def _write_with_values(self, attributes: Mapping[str, Any]) -> Path:
        """Make OUT.part.tmp the complete file, in a format that is not HDF5."""
        module = self._format.load()
        position = self._data_start
        with open(self._temporary, "wb", buffering=0) as opened:
            compression = self._format.compressions[0]
            with module.new_output_file(self._temporary, self.spec, compression) as output:
                for block in self._committed_blocks():
                    output.add_token_digests(block.token_digests)
                    for stored in block.stored(self._dtype):
                        content = os.pread(self._part_descriptor, stored.values.nbytes, position)
                        position += len(content)
                        values = np.frombuffer(content, self._dtype).reshape(stored.values.shape)
                        output.add(replace(stored, values=values))
                output.finish(attributes)
            os.fsync(opened.fileno())
        return self._temporary

    def _committed_blocks(self) -> Iterator[LoggedBlock]:
        """All committed blocks; a ResumeError if one has become corrupt meanwhile."""
        n_read = 0
        with output_errors(self.name), suppress(*INVALID):
            for block in read_blocks(self._path):
                yield block
                n_read = block.progress.blocks
        self._check_number_of_blocks(n_read)

    def _check_committed(self) -> None:
        """Raise a ResumeError if a line of a committed block has become corrupt meanwhile."""
        with output_errors(self.name):
            n_read = count_blocks(self._path)
        self._check_number_of_blocks(n_read)

    def _check_number_of_blocks(self, n_read: int) -> None:
        if n_read < self.progress.blocks:
            raise ResumeError(
                f"block {n_read + 1} is corrupt (checksum)",
                "`resume=True` computes it and the following ones again",
                where=self.name,
            )
