"""EmbedRun: the loop that reads, computes and commits the blocks of one embeddings file."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.blocks import Block, TextScan, TextTotals, type_of
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.plan import estimate_bytes, space_problem
from elmo_cli.embed.run_spec import run_spec
from elmo_cli.embed.run_summary import RunSummary
from elmo_cli.embed.text_fit import text_fit
from elmo_cli.engine.runtime import return_large_blocks
from elmo_cli.errors import InputError, OutputError, ResumeError
from elmo_cli.fit import FitPoint
from elmo_cli.messages import shorten_list
from elmo_cli.model.bilm import State
from elmo_cli.store.log_lines import CommittedProgress
from elmo_cli.store.ordered_thread import OrderedThread
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.input import InputReport, is_stream
from elmo_cli.version import __version__

# Called with the committed tokens and about how many there are in all, None if unknown: before the
# first block is computed, and by the writer thread after each block.
OnProgress = Callable[[int, int | None], None]
Warn = Callable[[str], None]
_ALL_BLOCKS = range(sys.maxsize)  # of a text that was not scanned


@dataclass
class TextRead:
    """How much of the text of one output file has been read so far."""

    n_blocks: int = 0
    n_sentences: int = 0
    n_tokens: int = 0
    # Of the whole text up to the last block read; in a shard, with all blocks before the shard.
    text_sha256: str = ""

    def add(self, block: Block) -> None:
        """Count a block."""
        self.n_blocks += 1
        self.n_sentences += block.info.n_sentences
        self.n_tokens += block.info.n_tokens
        self.text_sha256 = block.info.text_sha256


class EmbedRun:
    """The work on one output file.

    `write` takes the blocks of the text one by one. Blocks that the output has already committed
    are only read, to check that the text is the same. While a remaining block is computed, one
    thread computes the checksums of the block before it, and the writer thread commits that block.
    At the end the writer makes the HDF5 file.

    It fails with an
        InputError: a line cannot be read, or the text has changed since it was scanned;
        ResumeError: the committed blocks are from another text, or made with other settings;
        OutputError: the output cannot be written, the disk has too little space for a text that
            was scanned, or a value does not fit the dtype;
        DeviceError: a single sentence does not fit in the memory of the device.
    After any of them, and after Ctrl-C or `kill -9`, committed blocks stay for `resume=True`. A
    committed block that is corrupt when the run starts is computed again, with those after it and
    a warning. One that becomes corrupt while the run computes is a ResumeError at the end.

    Args:
        scan: of the whole text, for a shard and for layouts whose keys are names; None if the text
            is read once, so that totals are estimated.
        report: that of the readers of the text.
        on_progress: see `OnProgress`.
    """

    def __init__(
        self,
        job: EmbedJob,
        embedder: Embedder,
        scan: TextScan | None,
        report: InputReport,
        *,
        on_progress: OnProgress,
        warn: Warn,
    ) -> None:
        self._job = job
        self._embedder = embedder
        self._scan = scan
        self._report = report
        self._on_progress = on_progress
        self._warn = warn
        if scan is not None:
            # With state "document", a shard starts with a document.
            self._block_numbers = scan.shard(job.shard, state=job.embedder.state)
            self._text_bytes = 0  # not needed
        else:
            self._block_numbers = _ALL_BLOCKS
            self._text_bytes = _size_of(job.inputs)
        self._read = TextRead()
        self._fit: tuple[FitPoint, ...] = ()  # of the first block
        self._n_computed = 0  # tokens that this run has committed
        self._n_warned = 0  # warnings of the report that were passed on

    def write(self, blocks: Iterable[Block]) -> RunSummary:
        """Make the file, or continue it, from all blocks of the input or those of the shard.

        At the end, the report of a shard lists the skipped lines of the whole text.
        """
        job = self._job
        own_blocks = _blocks_with_numbers(self._block_numbers, blocks)
        with EmbeddingsWriter.open(
            job.output, self._spec(), resume=job.resume, overwrite=job.overwrite
        ) as writer:
            for warning in writer.warnings:
                self._warn(warning)
            if writer.finished:  # OUT was complete before this run
                self._read_all(own_blocks)
                _check_same_text(job.output, writer.progress, self._whole_sha256())
            else:
                state = self._skip_committed(own_blocks, writer.progress)
                self._compute_and_commit(own_blocks, writer, state)
                with return_large_blocks():
                    writer.finish(self._attributes(writer.progress))
                if writer.line_warning:
                    self._warn(writer.line_warning)
        self._warn_of_input()
        if self._scan is not None:
            self._report.skipped = self._scan.report.skipped
        return self._summary(writer)

    def _spec(self) -> FileSpec:
        first_key = 0 if self._scan is None else self._scan.first_key(self._block_numbers)
        return run_spec(self._job, self._embedder, first_key)

    def _read_all(self, own_blocks: Iterator[Block]) -> None:
        while self._next_block(own_blocks) is not None:
            pass

    def _skip_committed(self, own_blocks: Iterator[Block], done: CommittedProgress) -> State | None:
        """Read the committed blocks, and check that they are of this text; the state after them."""
        part = f"{self._job.output}.part"
        for _ in range(done.blocks):
            if self._next_block(own_blocks) is None:  # the text has become shorter
                raise _other_text(part, done)
        if done.blocks:
            _check_same_text(part, done, self._read.text_sha256)
        if not done.state:
            return None
        try:
            return State.from_bytes(done.state, self._embedder.bilm.options)
        except ValueError:
            problem = "corrupt, its state is not one of this model"
            raise ResumeError(problem, "start over with `overwrite=True`", where=part) from None

    def _compute_and_commit(
        self, own_blocks: Iterator[Block], writer: EmbeddingsWriter, state: State | None
    ) -> None:
        """Compute each remaining block while threads prepare and commit the one before.

        One block is read first: the totals are estimated from what has been read.
        """
        block = self._next_block(own_blocks)
        self._warn_of_input()
        self._check_space()
        self._report_progress(writer.progress)
        appends: deque[Future[Future[None]]] = deque()  # of blocks that may not be committed yet
        with closing(OrderedThread(max_waiting=1)) as checksum_thread:
            while block is not None:
                writer.check_names(block.sentences)
                arrays, state = self._compute(block, state)
                append = checksum_thread.submit(self._append, writer, block, arrays, state)
                appends.append(append)
                block = self._next_block(own_blocks)
                # While a block is computed, memory holds only one other block.
                if len(appends) > 1:
                    _wait_until_committed(appends.popleft())
            for append in appends:
                _wait_until_committed(append)

    def _next_block(self, own_blocks: Iterator[Block]) -> Block | None:
        """Read and count one block, and compare the first with the vocabulary of the model.

        Returns:
            The block; None at the end.
        Raises:
            InputError: the text has changed.
        """
        block = next(own_blocks, None)
        if block is None:
            self._check_all_read()
            return None
        if self._scan is not None and block.info != self._scan.blocks[block.number]:
            raise self._changed()
        if self._read.n_blocks == 0:
            self._fit = text_fit(
                self._job,
                block.sentences,
                self._embedder,
                self._warn,
                is_whole_text=block.is_last,
            )
        self._read.add(block)
        return block

    def _check_all_read(self) -> None:
        if self._scan is not None:
            is_cut = self._read.n_blocks < len(self._block_numbers)
        else:
            is_cut = self._report.bytes_read < self._text_bytes
        if is_cut:
            raise self._changed()

    def _changed(self) -> InputError:
        return InputError(
            "changed while it was read",
            "leave the inputs alone while a run reads them, and run it again",
            where=shorten_list(self._job.inputs),
        )

    def _check_space(self) -> None:
        totals = self._totals()
        if totals is None:
            return
        needed = estimate_bytes(self._job, self._embedder, totals)
        problem = space_problem(self._job, needed)
        # After a scan, the counts are those of the text, an upper bound where equal sentences are
        # left out of the file. Counts that are estimated may be wrong, so they only give a warning.
        if problem and self._scan is not None:
            raise OutputError(problem, "free some space, or write to another disk")
        if problem:
            self._warn(problem)

    def _totals(self) -> TextTotals | None:
        """The totals of the file: scanned, or estimated from what was read so far."""
        if self._scan is not None:
            return self._scan.totals(self._block_numbers)
        if not self._text_bytes or not self._report.bytes_read:
            return None
        # A file that grows while it is read has more bytes than `_text_bytes`.
        ratio = max(1.0, self._text_bytes / self._report.bytes_read)
        return TextTotals(
            n_sentences=round(ratio * self._read.n_sentences),
            n_tokens=round(ratio * self._read.n_tokens),
        )

    def _compute(self, block: Block, state: State | None) -> tuple[list[FloatArray], State | None]:
        if self._job.layout.unit == "types":
            types = [type_of(sentence) for sentence in block.sentences]
            return list(self._embedder.embed_types(types)), None
        tokens_first = self._job.layout.tokens_first
        return self._embedder.embed_block(block.sentences, state, tokens_first=tokens_first)

    def _append(
        self, writer: EmbeddingsWriter, block: Block, arrays: list[FloatArray], state: State | None
    ) -> Future[None]:
        """Compute the checksums of a block and hand it to the writer thread."""
        return writer.append_block(
            block.sentences,
            arrays,
            text_sha256=block.info.text_sha256,
            state=b"" if state is None else state.to_bytes(),
            on_commit=partial(self._count_committed, writer, block.info.n_tokens),
        )

    def _count_committed(self, writer: EmbeddingsWriter, n_tokens: int) -> None:
        self._n_computed += n_tokens
        self._report_progress(writer.progress)

    def _report_progress(self, done: CommittedProgress) -> None:
        totals = self._totals()
        n_tokens = None if totals is None else totals.n_tokens
        self._on_progress(done.tokens, n_tokens)

    def _warn_of_input(self) -> None:
        for warning in self._report.warnings[self._n_warned :]:
            self._warn(warning)
            self._n_warned += 1

    def _whole_sha256(self) -> str:
        """Digest of the whole text, at the end of a run."""
        return self._scan.text_sha256 if self._scan is not None else self._read.text_sha256

    def _attributes(self, done: CommittedProgress) -> dict[str, Any]:
        """What the file records of its text, the whole of it in a shard, and of the software."""
        if self._scan is not None:
            sources = self._scan.report.sources
            n_skipped = self._scan.n_skipped
        else:
            sources = self._report.sources
            n_skipped = self._report.n_keys - done.sentences
        attributes: dict[str, Any] = {
            "sources": [list(source) for source in sources],
            "text_sha256": self._whole_sha256(),
        }
        if n_skipped:
            attributes["skipped_sentences"] = n_skipped
        return {
            **attributes,
            "elmo_version": __version__,
            "torch_version": str(torch.__version__),
            "numpy_version": np.__version__,
            "h5py_version": h5py.__version__,
        }

    def _summary(self, writer: EmbeddingsWriter) -> RunSummary:
        done = writer.progress
        return RunSummary(
            output=self._job.output,
            sentences=done.sentences - done.duplicates,
            tokens=done.tokens,
            duplicates=done.duplicates,
            computed=self._n_computed,
            bytes=Path(self._job.output).stat().st_size,
            report=self._report,
            lacks_equal_lines=writer.lacks_equal_lines,
            fit=self._fit,
        )


def _size_of(inputs: Iterable[str]) -> int:
    """Bytes of all inputs; 0 if one is a stream."""
    n_bytes = 0
    for path in inputs:
        if is_stream(path):
            return 0
        n_bytes += os.path.getsize(path)
    return n_bytes


def _blocks_with_numbers(numbers: range, blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the blocks with these numbers; of the others, at most one after the last is read."""
    for block in blocks:
        if block.number >= numbers.stop:
            return
        if block.number in numbers:
            yield block


def _check_same_text(where: str, done: CommittedProgress, text_sha256: str) -> None:
    """Raise a ResumeError if what is committed was not made from the text read so far."""
    if text_sha256 != done.text_sha256:
        raise _other_text(where, done)


def _other_text(where: str, done: CommittedProgress) -> ResumeError:
    return ResumeError(
        f"made from a different text ({done.sentences:,} sentences)",
        "give the text that the run started with, or start over with `overwrite=True`",
        where=where,
    )


def _wait_until_committed(append: Future[Future[None]]) -> None:
    """Wait until a block is handed to the writer thread, and then until it is committed."""
    commit = append.result()
    commit.result()
