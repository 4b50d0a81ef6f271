"""BlockRun: the work on one output file, block after block."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
import torch

from elmo_cli.embed.behind import Behind
from elmo_cli.embed.blocks import Block, cut
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.output_reduction import Array
from elmo_cli.embed.same_text import check_begun, check_finished, too_short
from elmo_cli.embed.summary import Summary
from elmo_cli.embed.survey import Survey
from elmo_cli.errors import InputError
from elmo_cli.model.state import State
from elmo_cli.store.log_lines import Progress
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.input import InputReport, read_sentences
from elmo_cli.version import __version__


class Watcher(Protocol):
    """Who is told how far a run is."""

    def warn(self, message: str) -> None:
        """Before the work: something that may end it early."""

    def start(self, tokens: int | None, done: int) -> None:
        """Work begins: tokens in all (None if unknown), tokens that were done before."""

    def advance(self, tokens: int) -> None:
        """A block of so many tokens was written; called by the thread that writes, behind the one
        that computes."""


class BlockRun:
    """One output file, made block by block.

    Args:
        writer: of the file; it may hold blocks already.
        found: the survey of the whole input; None if it can be read only once.
        blocks_of: numbers of the blocks that belong into the file.
        blocks: what there is to read, at least those of `blocks_of`; None to read the inputs.
    """

    def __init__(
        self,
        job: EmbedJob,
        embedder: Embedder,
        writer: EmbeddingsWriter,
        watcher: Watcher | None,
        found: Survey | None,
        blocks_of: range,
        blocks: Sequence[Block] | None = None,
    ) -> None:
        self.job, self.embedder, self.writer, self.watcher = job, embedder, writer, watcher
        self.found, self.blocks_of, self.blocks = found, blocks_of, blocks
        self.notes = InputReport()
        self.computed = 0
        self.text_sha256 = ""
        # Numbers of the last sentences that were read before and in this file's part.
        self._before = self._last = -1

    def work(self) -> Summary:
        """Make the file, or go on with it.

        Raises:
            ResumeError: what it holds is of another text.
            ElmoError: of every other kind; what was committed stays for `resume=True`.
        """
        if self.found is not None and self.blocks is None and not self.blocks_of:
            self.notes.warn("empty shard", self.found.empty_shard(*self.job.shard or (1, 1)))
        if self.writer.finished:
            self._check_finished()
        else:
            self._start()
            self._blocks()
            for warning in self.writer.finish(self._attributes()):
                self.notes.warn(warning, warning)
        self._leave_skipped_to_other_shards()
        progress = self.writer.progress
        duplicates = progress.duplicates
        n_sentences, n_tokens = progress.sentences - duplicates, progress.tokens
        size = Path(self.job.output).stat().st_size
        return Summary(
            self.job.output, n_sentences, n_tokens, duplicates, self.computed, size, self.notes
        )

    def _check_finished(self) -> None:
        """Refuse a finished file of another text."""
        done, n_sentences = self.writer.progress, 0
        for block in self._read():
            self.text_sha256 = block.text_sha256
            n_sentences += len(block.sentences)
        n_all = n_sentences if self.job.shard is None else None
        check_finished(self.job.output, done, self.text_sha256, n_all)

    def _start(self) -> None:
        if self.watcher is None:
            return
        total = self.found.tokens if self.found is not None else None
        if self.found is not None and self.job.shard is not None:
            total = sum(self.found.block_tokens[k] for k in self.blocks_of)
        self.watcher.start(total, self.writer.progress.tokens)

    def _blocks(self) -> None:
        done = self.writer.progress
        state = None
        if done.state:
            state = State.from_bytes(done.state, self.embedder.bilm.options)
        with Behind() as behind:
            committed = self._work_through(done, state, behind)
        if committed < done.blocks:
            raise too_short(self.job.output, done)

    def _work_through(self, done: Progress, state: State | None, behind: Behind) -> int:
        """Compute the blocks that are not committed, each written behind the next one's computing;
        how many of those that are were found in the text."""
        committed = 0
        for block in self._read():
            self.text_sha256 = block.text_sha256
            if block.number not in self.blocks_of:
                if block.number >= self.blocks_of.stop:
                    break
                continue
            if committed < done.blocks:
                committed += 1
                if committed == done.blocks:
                    check_begun(self.job.output, done, block.text_sha256)
                continue
            self.writer.check_names(block.sentences)  # before it is computed
            arrays, state = self._arrays(block, state)
            kept = b"" if state is None else state.to_bytes()
            behind.begin(partial(self._write, block, arrays, kept))
        return committed

    def _write(self, block: Block, arrays: list[Array], state: bytes) -> None:
        self.writer.append_block(
            block.sentences, arrays, text_sha256=block.text_sha256, state=state
        )
        self.computed += block.n_tokens
        if self.watcher is not None:
            self.watcher.advance(block.n_tokens)

    def _arrays(self, block: Block, state: State | None) -> tuple[list[Array], State | None]:
        if self.job.file_layout.unit != "types":
            return self.embedder.embed_block(block.sentences, state)
        check_vocabulary(block)
        vectors = self.embedder.embed_types([s.tokens[0] for s in block.sentences])
        return list(vectors), None

    def _attributes(self) -> dict[str, Any]:
        sources, text_sha256 = self.notes.sources, self.text_sha256
        skipped = self.notes.n_keys - self.writer.progress.sentences
        if self.found is not None and self.job.shard is not None:  # which read all of the text
            sources, text_sha256 = list(self.found.sources), self.found.text_sha256
            skipped = self.found.left_out
        return {
            "sources": [[name, first] for name, first in sources],
            "text_sha256": text_sha256,
            **({"skipped_sentences": skipped} if skipped else {}),
            "elmo_version": __version__,
            "torch_version": str(torch.__version__),
            "numpy_version": np.__version__,
            "h5py_version": h5py.__version__,
        }

    def _leave_skipped_to_other_shards(self) -> None:
        """Keep what was skipped behind the part before this one, and up to the end of this one."""
        if self.job.shard is None or self.blocks is not None:
            return
        number, n_shards = self.job.shard
        own = range(self._before + 1, sys.maxsize + 1 if number == n_shards else self._last + 1)
        placed = zip(self.notes.skipped, self.notes.next_key, strict=False)
        self.notes.skipped = [line for line, key in placed if key in own]

    def _read(self) -> Iterator[Block]:
        for block in self._all_blocks():
            last = block.sentences[-1].key
            if block.number < self.blocks_of.start:
                self._before = last
            elif block.number in self.blocks_of:
                self._last = last
            yield block

    def _all_blocks(self) -> Iterator[Block]:
        if self.blocks is not None:
            return iter(self.blocks)
        blocks = blocks_of_inputs(self.job, self.notes)
        if self.found is None or not self.found.exact:
            return blocks
        return _whole(blocks, self.found.sentences, self.job.inputs)


def _whole(blocks: Iterator[Block], n_sentences: int, inputs: Sequence[str]) -> Iterator[Block]:
    """The blocks of a text that was looked at; the last one only if it has not become shorter.

    Raises:
        InputError: it has. What was committed is the beginning of both.
    """
    n_read = 0
    last: Block | None = None
    for block in blocks:
        if last is not None:
            yield last
        n_read, last = n_read + len(block.sentences), block
    if n_read < n_sentences:
        raise InputError(
            f"{inputs[-1]}: {n_sentences:,} sentences when the run began, now {n_read:,}",
            "give the whole text, then `resume=True` continues",
        )
    if last is not None:
        yield last


def check_vocabulary(block: Block) -> None:
    """Refuse a block that is not of a vocabulary, for a layout that holds types.

    Raises:
        InputError: a line has not one token.
    """
    for sentence in block.sentences:
        if len(sentence.tokens) != 1:
            raise InputError(
                f"{sentence.where}: {len(sentence.tokens)} tokens, a vocabulary has one a line",
                "this layout needs one type per line; other layouts hold sentences",
            )


def blocks_of_inputs(job: EmbedJob, notes: InputReport) -> Iterator[Block]:
    """The blocks of all inputs, read from the beginning."""
    sentences = read_sentences(job.inputs, job.text, notes)
    return cut(sentences, state=job.state, batch_size=job.batch_size)
