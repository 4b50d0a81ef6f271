"""run_job and embed_file: from text files to one embeddings file, block after block."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

from elmo_cli import __version__
from elmo_cli.embed.blocks import Block, TextScan, read_blocks, scan_text, type_of
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.output_reduction import Array
from elmo_cli.embed.plan import estimate_bytes, run_spec, space_problem
from elmo_cli.errors import InputError, OutputError, ResumeError
from elmo_cli.files import check_distinct, tsv_line, write_text
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.pretrained.load import load_files, locate
from elmo_cli.store.log_lines import Progress as Committed
from elmo_cli.store.shards import parse_shard
from elmo_cli.store.spec import FileSpec
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.input import InputReport, InputSettings, Name, is_stream, shorten_list

# Called with the committed tokens and about how many there are in all, None if unknown: before the
# first block is computed, and by the writer thread after each block.
Progress = Callable[[int, int | None], None]
Warn = Callable[[str], None]


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
    progress: Progress | None = None,
    warn: Warn | None = None,
) -> RunSummary:
    """Embed the inputs of a job into its output.

    Args:
        embedder: made with the settings of the job; by default the model is loaded.
        progress: see `Progress`.
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
    is_scanned = job.shard is not None or job.layout.keyed_by == "name"
    scan = scan_text(job) if is_scanned and not any(map(is_stream, job.inputs)) else None
    run = _Run(job, embedder, scan)
    run.progress, run.warn = progress or run.progress, warn or partial(warnings.warn, stacklevel=4)
    if embedder.start is not None and embedder.bilm.warm_state_warning:
        run.warn(embedder.bilm.warm_state_warning)
    summary = run.write(read_blocks(job, run.report))
    _list_skipped(job, run.report)
    return summary


def make_embedder(job: EmbedJob, bilm: BiLM | None = None) -> Embedder:
    """The embedder of a job, whose model is loaded unless `bilm`, used by nobody else, is it."""
    bilm = bilm or load_files(locate(job.model))
    embedder = Embedder(bilm, job.embedder)
    if job.embedder.engine == "fast":
        embedder.weights.release()  # the engine has its own copy
    return embedder


def write_shard(job: EmbedJob, embedder: Embedder, scan: TextScan, blocks: Iterable[Block]) -> None:
    """Write the file of a shard from blocks that were read elsewhere."""
    _Run(replace(job, overwrite=True), embedder, scan).write(blocks)


class _Run:
    """The work on one output file; `progress` and `warn` are those of `run_job`."""

    def __init__(self, job: EmbedJob, embedder: Embedder, scan: TextScan | None) -> None:
        self._job, self._embedder, self._scan = job, embedder, scan
        self.report = InputReport()
        self.progress: Progress = lambda done, total: None
        self.warn: Warn = lambda message: None
        self._range = scan.shard(job.shard, state=job.embedder.state) if scan else range(2**62)
        has_size = scan is None and not any(map(is_stream, job.inputs))
        self._n_bytes = sum(map(os.path.getsize, job.inputs)) if has_size else 0
        self._n_blocks = self._n_sentences = self._n_tokens = 0
        self._n_computed = self._n_warnings = 0
        self._text_sha256 = ""

    def write(self, blocks: Iterable[Block]) -> RunSummary:
        """Make the file, or continue it, from all blocks of the input or those of the shard."""
        job, scan = self._job, self._scan
        spec = run_spec(job, self._embedder, scan.first_key(self._range) if scan else 0)
        with EmbeddingsWriter.open(
            job.output, spec, resume=job.resume, overwrite=job.overwrite
        ) as writer:
            for warning in writer.warnings:
                self.warn(warning)
            if writer.finished:
                deque(self._own(blocks), maxlen=0)
                _check_same_text(job.output, writer.progress, self._whole_sha256())
            else:
                self._write_blocks(blocks, writer)
                writer.finish(self._attributes(writer.progress))
        self._warn_of_input()
        if scan is not None:
            self.report.skipped = scan.report.skipped  # of the whole text, in every shard
        done, size = writer.progress, Path(job.output).stat().st_size
        counts = done.sentences - done.duplicates, done.tokens, done.duplicates
        return RunSummary(job.output, *counts, self._n_computed, size, self.report)

    def _own(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Yield the blocks of this file; raise an InputError once the input has changed."""
        scan = self._scan
        for block in blocks:
            if block.number >= self._range.stop:
                break
            if block.number not in self._range:
                continue
            if scan is not None and block.info != scan.blocks[block.number]:
                raise self._changed()
            self._n_blocks += 1
            self._n_sentences += block.info.n_sentences
            self._n_tokens += block.info.n_tokens
            self._text_sha256 = block.info.text_sha256
            yield block
        is_cut = scan is not None and self._n_blocks < len(self._range)
        if is_cut or (scan is None and self.report.bytes_read < self._n_bytes):
            raise self._changed()

    def _changed(self) -> InputError:
        return InputError(
            f"{shorten_list(self._job.inputs)}: changed while it was read",
            "leave the inputs alone while a run reads them, and run it again",
        )

    def _write_blocks(self, blocks: Iterable[Block], writer: EmbeddingsWriter) -> None:
        """Compute each block that is not committed while a thread writes the one before."""
        own = self._own(blocks)
        state = self._skip_committed(own, writer.progress)
        first = list(islice(own, 1))
        self._start(writer.progress)
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(lambda: None)
            try:
                for block in chain(first, own):
                    writer.check_names(block.sentences)
                    arrays, state = self._compute(block, state)
                    pending.result()
                    pending = pool.submit(self._commit, writer, block, arrays, state)
                pending.result()
            finally:
                _wait_uninterrupted(pending)

    def _skip_committed(self, own: Iterator[Block], done: Committed) -> State | None:
        """Read the committed blocks, and check that they are of this text; the state after them."""
        if done.blocks:
            committed = [block.info.text_sha256 for block in islice(own, done.blocks)]
            text_sha256 = committed[-1] if len(committed) == done.blocks else ""
            _check_same_text(f"{self._job.output}.part", done, text_sha256)
        options = self._embedder.bilm.options
        return State.from_bytes(done.state, options) if done.state else None

    def _start(self, done: Committed) -> None:
        """Report what is known when the first block to be computed has been read."""
        self._warn_of_input()
        if totals := self._totals():
            needed = estimate_bytes(self._job, self._embedder, *totals)
            problem = space_problem(self._job, needed)
            if problem and self._scan is not None:  # the size is exact
                raise OutputError(problem, "free some space, or write to another disk")
            if problem:
                self.warn(problem)
        self.progress(done.tokens, totals and totals[1])

    def _totals(self) -> tuple[int, int] | None:
        """Sentences and tokens of the file: scanned, or estimated from what was read so far."""
        if self._scan is not None:
            return self._scan.totals(self._range)
        if not self._n_bytes or not self.report.bytes_read:
            return None
        ratio = max(1.0, self._n_bytes / self.report.bytes_read)
        return round(ratio * self._n_sentences), round(ratio * self._n_tokens)

    def _compute(self, block: Block, state: State | None) -> tuple[list[Array], State | None]:
        if self._job.layout.unit != "types":
            return self._embedder.embed_block(block.sentences, state)
        return list(self._embedder.embed_types(list(map(type_of, block.sentences)))), None

    def _commit(
        self, writer: EmbeddingsWriter, block: Block, arrays: list[Array], state: State | None
    ) -> None:
        writer.append_block(
            block.sentences,
            arrays,
            text_sha256=block.info.text_sha256,
            state=b"" if state is None else state.to_bytes(),
        )
        self._n_computed += block.info.n_tokens
        totals = self._totals()
        self.progress(writer.progress.tokens, totals and totals[1])

    def _warn_of_input(self) -> None:
        for warning in self.report.warnings[self._n_warnings :]:
            self.warn(warning)
            self._n_warnings += 1

    def _whole_sha256(self) -> str:
        return self._scan.text_sha256 if self._scan else self._text_sha256

    def _attributes(self, done: Committed) -> dict[str, Any]:
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


def _check_same_text(where: str, done: Committed, text_sha256: str) -> None:
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
