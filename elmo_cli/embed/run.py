"""run_job and embed_file: from text files to one embeddings file, block after block."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.blocks import Block, TextScan, read_blocks, scan_text, type_of
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.plan import estimate_bytes, run_spec, space_problem
from elmo_cli.errors import InputError, OutputError, ResumeError
from elmo_cli.files import check_distinct, write_text
from elmo_cli.messages import shorten_list, tsv_line
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.pretrained.load import load_files, locate
from elmo_cli.store.log_lines import CommittedProgress
from elmo_cli.store.shards import parse_shard
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.input import InputReport, InputSettings, Name, is_stream
from elmo_cli.version import __version__

# Called with the committed tokens and about how many there are in all, None if unknown: before the
# first block is computed, and by the writer thread after each block.
OnProgress = Callable[[int, int | None], None]
Warn = Callable[[str], None]
_ALL_BLOCKS = range(sys.maxsize)  # of a text that was not scanned


@dataclass(frozen=True)
class RunSummary:
    """What a run did.

    Attributes:
        output: the file.
        sentences, tokens: in the file.
        duplicates: sentences left out because the file has an equal one (layout manylangs).
        computed: tokens computed by this run; fewer than `tokens` after `resume=True`.
        bytes: size of the file.
        report: what the readers reported.
    """

    output: str
    sentences: int
    tokens: int
    duplicates: int
    computed: int
    bytes: int
    report: InputReport


def embed_file(
    text: Name,
    output: Name,
    embedder: Embedder,
    *,
    file: FileSpec | None = None,
    input_settings: InputSettings | None = None,
    shard: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
) -> RunSummary:
    """Embed a text file into an embeddings file with an embedder, as `elmo embed` does.

    Args:
        file: layout and keys; its dtype is the embedder's.
        input_settings: how the text is read.
        shard: "1/4" for the first of four shards.
        overwrite: replace an existing output.
        resume: continue an unfinished output, or start it.
    Raises:
        ElmoError: of every kind; what was committed stays for `resume=True`.

    Example:
        embed_file("corpus.txt", "corpus.hdf5", Embedder(load()))
    """
    job = EmbedJob(
        (os.fspath(text),),
        os.fspath(output),
        text=input_settings or InputSettings(),
        embedder=replace(embedder.settings, batch_size=embedder.batch_size),
        file=file or FileSpec(),
        shard=parse_shard(shard) if shard else None,
        overwrite=overwrite,
        resume=resume,
    )
    return run_job(job, embedder=embedder)


def run_job(
    job: EmbedJob,
    *,
    embedder: Embedder | None = None,
    progress: OnProgress | None = None,
    warn: Warn | None = None,
) -> RunSummary:
    """Embed the inputs of a job into its output.

    Args:
        embedder: made with the settings of the job; by default the model is loaded.
        progress: see `OnProgress`.
        warn: called with each warning, `warnings.warn` by default; warnings about the input come
            before any computing.
    Raises:
        ElmoError: of every kind; what was committed stays for `resume=True`.
    """
    job.check_paths()
    embedder = embedder or make_embedder(job)
    for path in (job.output, job.skipped_list):
        check_distinct(path, embedder.bilm.files, what="a file of the model")
    job = job.with_max_characters(embedder.bilm.options.max_characters)
    warn = warn or partial(warnings.warn, stacklevel=4)
    scan = _scan_if_needed(job)
    run = EmbedRun(job, embedder, scan, on_progress=progress or _ignore_progress, warn=warn)
    if embedder.start is not None and embedder.bilm.warm_state_warning:
        warn(embedder.bilm.warm_state_warning)
    summary = run.write(read_blocks(job, run.report))
    _list_skipped(job, run.report)
    return summary


def _scan_if_needed(job: EmbedJob) -> TextScan | None:
    """Read the whole text first if a shard or unique names need it and it can be read twice."""
    is_needed = job.shard is not None or job.layout.keyed_by == "name"
    has_stream = any(map(is_stream, job.inputs))
    return scan_text(job) if is_needed and not has_stream else None


def _ignore_progress(done: int, total: int | None) -> None: ...


def _ignore_warning(message: str) -> None: ...


def make_embedder(job: EmbedJob, bilm: BiLM | None = None) -> Embedder:
    """The embedder of a job, whose model is loaded unless `bilm`, used by nobody else, is it."""
    bilm = bilm or load_files(locate(job.model))
    embedder = Embedder(bilm, job.embedder)
    if job.embedder.engine == "fast":
        embedder.weights.release()  # the engine has its own copy
    return embedder


def write_shard(job: EmbedJob, embedder: Embedder, scan: TextScan, blocks: Iterable[Block]) -> None:
    """Write the file of a shard from blocks that were read elsewhere."""
    job = replace(job, overwrite=True)
    run = EmbedRun(job, embedder, scan, on_progress=_ignore_progress, warn=_ignore_warning)
    run.write(blocks)


@dataclass
class TextRead:
    """How much of the text of one output file has been read so far."""

    n_blocks: int = 0
    n_sentences: int = 0
    n_tokens: int = 0
    text_sha256: str = ""  # of all sentences read

    def add(self, block: Block) -> None:
        self.n_blocks += 1
        self.n_sentences += block.info.n_sentences
        self.n_tokens += block.info.n_tokens
        self.text_sha256 = block.info.text_sha256


class EmbedRun:
    """The work on one output file.

    Attributes:
        report: what the readers of the text have reported.
    """

    def __init__(
        self,
        job: EmbedJob,
        embedder: Embedder,
        scan: TextScan | None,
        *,
        on_progress: OnProgress,
        warn: Warn,
    ) -> None:
        self.report = InputReport()
        self._job = job
        self._embedder = embedder
        self._scan = scan
        self._on_progress = on_progress
        self._warn = warn
        self._numbers = scan.shard(job.shard, state=job.embedder.state) if scan else _ALL_BLOCKS
        self._n_bytes = 0 if scan else _size_of(job.inputs)
        self._read = TextRead()
        self._n_computed = 0  # tokens that this run has committed
        self._n_warned = 0

    def write(self, blocks: Iterable[Block]) -> RunSummary:
        """Make the file, or continue it, from all blocks of the input or those of the shard."""
        job = self._job
        own = _blocks_with_numbers(self._numbers, blocks)
        with EmbeddingsWriter.open(
            job.output, self._spec(), resume=job.resume, overwrite=job.overwrite
        ) as writer:
            for warning in writer.warnings:
                self._warn(warning)
            if writer.finished:
                self._read_all(own)
                _check_same_text(job.output, writer.progress, self._whole_sha256())
            else:
                state = self._skip_committed(own, writer.progress)
                self._compute_and_commit(own, writer, state)
                writer.finish(self._attributes(writer.progress))
        self._warn_of_input()
        return self._summary(writer.progress)

    def _spec(self) -> FileSpec:
        first_key = self._scan.first_key(self._numbers) if self._scan else 0
        return run_spec(self._job, self._embedder, first_key)

    def _read_all(self, own: Iterator[Block]) -> None:
        while self._next_block(own) is not None:
            pass

    def _skip_committed(self, own: Iterator[Block], done: CommittedProgress) -> State | None:
        """Read the committed blocks, and check that they are of this text; the state after them."""
        for _ in range(done.blocks):
            if self._next_block(own) is None:  # the text has become shorter
                _check_same_text(f"{self._job.output}.part", done, "")
        if done.blocks:
            _check_same_text(f"{self._job.output}.part", done, self._read.text_sha256)
        if not done.state:
            return None
        return State.from_bytes(done.state, self._embedder.bilm.options)

    def _compute_and_commit(
        self, own: Iterator[Block], writer: EmbeddingsWriter, state: State | None
    ) -> None:
        """Compute each remaining block while a thread writes the one before."""
        block = self._next_block(own)
        self._warn_of_input()
        self._check_space()
        self._report_progress(writer.progress)
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(lambda: None)
            try:
                while block is not None:
                    writer.check_names(block.sentences)
                    arrays, state = self._compute(block, state)
                    pending.result()
                    pending = pool.submit(self._commit, writer, block, arrays, state)
                    block = self._next_block(own)
                pending.result()
            finally:
                _wait_uninterrupted(pending)

    def _next_block(self, own: Iterator[Block]) -> Block | None:
        """Read and count one block; None at the end. An InputError if the text has changed."""
        block = next(own, None)
        if block is None:
            self._check_all_read()
            return None
        if self._scan is not None and block.info != self._scan.blocks[block.number]:
            raise self._changed()
        self._read.add(block)
        return block

    def _check_all_read(self) -> None:
        if self._scan is not None:
            is_cut = self._read.n_blocks < len(self._numbers)
        else:
            is_cut = self.report.bytes_read < self._n_bytes
        if is_cut:
            raise self._changed()

    def _changed(self) -> InputError:
        return InputError(
            f"{shorten_list(self._job.inputs)}: changed while it was read",
            "leave the inputs alone while a run reads them, and run it again",
        )

    def _check_space(self) -> None:
        totals = self._totals()
        if totals is None:
            return
        n_sentences, n_tokens = totals
        needed = estimate_bytes(self._job, self._embedder, n_sentences, n_tokens)
        problem = space_problem(self._job, needed)
        if problem and self._scan is not None:  # the size is exact
            raise OutputError(problem, "free some space, or write to another disk")
        if problem:
            self._warn(problem)

    def _totals(self) -> tuple[int, int] | None:
        """Sentences and tokens of the file: scanned, or estimated from what was read so far."""
        if self._scan is not None:
            return self._scan.totals(self._numbers)
        if not self._n_bytes or not self.report.bytes_read:
            return None
        ratio = max(1.0, self._n_bytes / self.report.bytes_read)
        return round(ratio * self._read.n_sentences), round(ratio * self._read.n_tokens)

    def _compute(self, block: Block, state: State | None) -> tuple[list[FloatArray], State | None]:
        if self._job.layout.unit == "types":
            types = [type_of(sentence) for sentence in block.sentences]
            return list(self._embedder.embed_types(types)), None
        return self._embedder.embed_block(block.sentences, state)

    def _commit(
        self, writer: EmbeddingsWriter, block: Block, arrays: list[FloatArray], state: State | None
    ) -> None:
        writer.append_block(
            block.sentences,
            arrays,
            text_sha256=block.info.text_sha256,
            state=b"" if state is None else state.to_bytes(),
        )
        self._n_computed += block.info.n_tokens
        self._report_progress(writer.progress)

    def _report_progress(self, done: CommittedProgress) -> None:
        totals = self._totals()
        n_tokens = None if totals is None else totals[1]
        self._on_progress(done.tokens, n_tokens)

    def _warn_of_input(self) -> None:
        for warning in self.report.warnings[self._n_warned :]:
            self._warn(warning)
            self._n_warned += 1

    def _whole_sha256(self) -> str:
        return self._scan.text_sha256 if self._scan else self._read.text_sha256

    def _attributes(self, done: CommittedProgress) -> dict[str, Any]:
        scan, report = self._scan, self.report
        n_skipped = scan.n_skipped if scan else report.n_keys - done.sentences
        sources = scan.report.sources if scan else report.sources
        return {
            "sources": [list(source) for source in sources],
            "text_sha256": self._whole_sha256(),
            **({"skipped_sentences": n_skipped} if n_skipped else {}),
            "elmo_version": __version__,
            "torch_version": str(torch.__version__),
            "numpy_version": np.__version__,
            "h5py_version": h5py.__version__,
        }

    def _summary(self, done: CommittedProgress) -> RunSummary:
        if self._scan is not None:
            self.report.skipped = self._scan.report.skipped  # of the whole text, in every shard
        return RunSummary(
            output=self._job.output,
            sentences=done.sentences - done.duplicates,
            tokens=done.tokens,
            duplicates=done.duplicates,
            computed=self._n_computed,
            bytes=Path(self._job.output).stat().st_size,
            report=self.report,
        )


def _size_of(inputs: Iterable[str]) -> int:
    """Bytes of all inputs; 0 if one is a stream."""
    if any(map(is_stream, inputs)):
        return 0
    return sum(map(os.path.getsize, inputs))


def _blocks_with_numbers(numbers: range, blocks: Iterable[Block]) -> Iterator[Block]:
    """Some of the blocks; none is read after the last of them."""
    for block in blocks:
        if block.number >= numbers.stop:
            return
        if block.number in numbers:
            yield block


def _check_same_text(where: str, done: CommittedProgress, text_sha256: str) -> None:
    """Raise a ResumeError if what is committed was not made from the text read so far."""
    if text_sha256 != done.text_sha256:
        raise ResumeError(
            f"{where}: made from a different text ({done.sentences:,} sentences)",
            "give the text that the run started with, or start over with `overwrite=True`",
        )


def _wait_uninterrupted(pending: Future[None]) -> None:
    """Wait for a commit however often Ctrl-C is pressed: the writer is closed after it."""
    while not pending.done():
        with suppress(KeyboardInterrupt):
            wait([pending])


def _list_skipped(job: EmbedJob, report: InputReport) -> None:
    """Write the list of skipped lines, or remove that of an earlier run."""
    if report.skipped:
        lines = (tsv_line(*line) for line in report.skipped)
        write_text(job.skipped_list, lines, errors="surrogateescape")
    else:
        Path(job.skipped_list).unlink(missing_ok=True)
