"""run_job: everything that `elmo embed` does with one output file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
import torch

from elmo_cli.embed.apart import check_apart
from elmo_cli.embed.blocks import Block, cut
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob, header
from elmo_cli.embed.output import Array
from elmo_cli.embed.state_policy import state_bytes, state_from_bytes
from elmo_cli.embed.survey import Survey, check_space, survey
from elmo_cli.errors import InputError, ResumeError
from elmo_cli.model.state import State
from elmo_cli.pretrained.load import load
from elmo_cli.store.place import check_free, check_place
from elmo_cli.store.settings import DTYPES
from elmo_cli.store.stream import discard
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.formats import read_sentences
from elmo_cli.text.notes import Notes
from elmo_cli.version import __version__


class Watcher(Protocol):
    """Who is told how far a run is."""

    def start(self, tokens: int | None, done: int) -> None:
        """Work begins: tokens in all (None if unknown), tokens that were done before."""

    def advance(self, sentences: int, tokens: int) -> None:
        """A block was written."""

    def say(self, message: str) -> None:
        """Something that the user should see once."""


@dataclass(frozen=True)
class Summary:
    """What a run did.

    Attributes:
        output: the file.
        sentences, tokens: in the file.
        duplicates: sentences that the file leaves out because it holds an equal one (manylangs).
        computed: tokens computed by this run; less than `tokens` after `--resume`.
        bytes: size of the file.
        notes: what the reader noticed.
    """

    output: str
    sentences: int
    tokens: int
    duplicates: int
    computed: int
    bytes: int
    notes: Notes


def run_job(job: EmbedJob, watcher: Watcher | None = None) -> Summary:
    """Load the model and embed the inputs into the output.

    Raises:
        ElmoError: of every kind; what was committed stays for `resume`.
    """
    check_places(job)
    return run_with(job, embedder_of(job), watcher)


def check_places(job: EmbedJob) -> None:
    """Refuse inputs that can't be read and an output that can't be written, before any work.

    Raises:
        InputError: an input is not there.
        OutputError: the output is there already, or its folder is not.
        UsageError: the output is also read from.
    """
    read_sentences(job.inputs, job.text)  # looks at the names, and reads nothing yet
    check_apart(job.output, job.inputs, (job.model, job.options, job.weights))
    check_place(job.output)
    if not (job.overwrite or job.resume):
        check_free(job.output)


def embedder_of(job: EmbedJob) -> Embedder:
    """The embedder that a job asks for, its model loaded."""
    bilm = load(job.model, options=job.options, weights=job.weights)
    return Embedder(
        bilm,
        state=job.state,
        layers=job.layers,
        dtype=job.dtype,
        pool=job.pool,
        bare=job.layout == "manylangs",
        batch_size=job.batch_size,
        engine=job.engine,
        device=job.device,
    )


def run_with(job: EmbedJob, embedder: Embedder, watcher: Watcher | None = None) -> Summary:
    """As `run_job`, with an embedder that is there already."""
    found = survey(
        job.inputs,
        job.text,
        state=job.state,
        batch_size=job.batch_size,
        whole=job.shard is not None,
    )
    blocks_of, share = range(2**62), found
    if job.shard is not None and found is not None:
        blocks_of = found.shard(*job.shard, state=job.state)
        share = found.of_blocks(blocks_of)
    if share is not None:
        check_space(job.output, output_bytes(job, embedder, share), held=_held(job.output))
    with _writer(job, embedder, found, blocks_of) as writer:
        try:
            return _Run(job, embedder, writer, watcher, found, blocks_of).work()
        except BaseException:
            if not (writer.finished or writer.progress.blocks):
                discard(writer, job.output)  # there is nothing in it to go on with
            raise


def output_bytes(job: EmbedJob, embedder: Embedder, found: Survey) -> int:
    """Size of a file with what was found, about."""
    output, options = embedder.output, embedder.bilm.options
    types_only = job.layout == "bilm-types"
    return found.bytes(
        n_kept=1 if types_only else output.n_kept,
        dim=options.projection if types_only else options.dim,
        itemsize=DTYPES[job.dtype].itemsize,
        pooled=job.pool is not None,
    )


def _held(path: str) -> int:
    part = Path(f"{path}.part")
    return part.stat().st_size if part.is_file() else 0


def _writer(
    job: EmbedJob, embedder: Embedder, found: Survey | None, blocks_of: range
) -> EmbeddingsWriter:
    first = _first_sentence(job, found, blocks_of)
    settings: dict[str, Any] = {
        "layout": job.layout,
        "header": header(job, embedder),
        "keys": job.keys,
        "forget_sentences": job.forget_sentences,
        "dtype": job.dtype,
        "first_sentence": first,
    }
    if job.resume:
        return EmbeddingsWriter.resume(job.output, **settings)
    return EmbeddingsWriter.create(job.output, overwrite=job.overwrite, **settings)


def _first_sentence(job: EmbedJob, found: Survey | None, blocks_of: range) -> int:
    """Key of the first sentence of a shard; a shard without blocks begins where the text ends."""
    if job.shard is None or found is None:
        return 0
    blocks = _cut(job, Notes())
    block = next(islice(blocks, blocks_of.start, None), None)
    if block is not None:
        return block.sentences[0].key
    return found.sentences


def _cut(job: EmbedJob, notes: Notes) -> Iterator[Block]:
    sentences = read_sentences(job.inputs, job.text, notes)
    return cut(sentences, state=job.state, batch_size=job.batch_size)


class _Run:
    """One run over the blocks of a job."""

    def __init__(
        self,
        job: EmbedJob,
        embedder: Embedder,
        writer: EmbeddingsWriter,
        watcher: Watcher | None,
        found: Survey | None,
        blocks_of: range,
    ) -> None:
        self.job, self.embedder, self.writer, self.watcher = job, embedder, writer, watcher
        self.found, self.blocks_of = found, blocks_of
        self.notes = Notes()
        self.computed = 0
        self.text_sha256 = ""

    def work(self) -> Summary:
        if self.writer.finished:
            self._check_finished()
        else:
            self._start()
            self._blocks()
            self.writer.finish(self._attributes())
        progress, duplicates = self.writer.progress, self.writer.duplicates
        n_sentences, n_tokens = progress.sentences - duplicates, progress.tokens
        size = Path(self.job.output).stat().st_size
        return Summary(
            self.job.output, n_sentences, n_tokens, duplicates, self.computed, size, self.notes
        )

    def _check_finished(self) -> None:
        """Refuse a finished file of another text."""
        done, n_sentences = self.writer.progress, 0
        for block in _cut(self.job, self.notes):
            self.text_sha256 = block.text_sha256
            n_sentences += len(block.sentences)
        if self.text_sha256 == done.text_sha256:
            return
        what = "is not the one that it was made from"
        if self.job.shard is None and n_sentences != done.sentences:
            what = f"has {n_sentences}"
        raise ResumeError(
            f"{self.job.output}: finished with {done.sentences} sentences, the input {what}",
            "give the text that the run began with, or `--overwrite` to start anew",
        )

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
            state = state_from_bytes(done.state, self.embedder.bilm.options)
        committed = 0
        for block in _cut(self.job, self.notes):
            self.text_sha256 = block.text_sha256
            if block.number not in self.blocks_of:
                if block.number >= self.blocks_of.stop:
                    break
                continue
            if committed < done.blocks:
                committed += 1
                self._remember(block, is_last=committed == done.blocks)
                continue
            state = self._compute(block, state)
        if committed < done.blocks:
            raise ResumeError(
                f"{self.job.output}.part: holds {done.sentences} sentences, the input has fewer",
                "give the text that the run began with, or `--overwrite` to start anew",
            )

    def _remember(self, block: Block, *, is_last: bool) -> None:
        for sentence in block.sentences:
            self.writer.remember(sentence)
        if is_last and block.text_sha256 != self.writer.progress.text_sha256:
            raise ResumeError(
                f"{self.job.output}.part: its first {self.writer.progress.sentences} sentences are "
                "not those of the input given now",
                "give the text that the run began with, or `--overwrite` to start anew",
            )

    def _compute(self, block: Block, state: State | None) -> State | None:
        arrays, state = self._arrays(block, state)
        for sentence, array in zip(block.sentences, arrays, strict=True):
            self.writer.append(sentence, array)
        kept = b"" if state is None else state_bytes(state)
        self.writer.commit(block.text_sha256, kept)
        self.computed += block.n_tokens
        if self.watcher is not None:
            self.watcher.advance(len(block.sentences), block.n_tokens)
        return state

    def _arrays(self, block: Block, state: State | None) -> tuple[list[Array], State | None]:
        if self.job.layout != "bilm-types":
            return self.embedder.embed_block(block.sentences, state)
        for sentence in block.sentences:
            if len(sentence.tokens) != 1:
                raise InputError(
                    f"{sentence.source}, line {sentence.line}: {len(sentence.tokens)} tokens, a "
                    "vocabulary has one a line",
                    "`--layout bilm-types` reads a vocabulary; other layouts read sentences",
                )
        vectors = self.embedder.embed_types([s.tokens[0] for s in block.sentences])
        return list(vectors), None

    def _attributes(self) -> dict[str, Any]:
        sources, text_sha256 = self.notes.sources, self.text_sha256
        if self.found is not None and self.job.shard is not None:  # which read all of the text
            sources, text_sha256 = list(self.found.sources), self.found.text_sha256
        return {
            "sources": [[name, first] for name, first in sources],
            "text_sha256": text_sha256,
            "elmo_version": __version__,
            "torch_version": str(torch.__version__),
            "numpy_version": np.__version__,
            "h5py_version": h5py.__version__,
        }
