"""What a run would do, without doing it: counts, sizes, free space, time, and what is left."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.embed.blocks import SENTENCES, TextScan, check_types, scan_text
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run_settings import run_spec
from elmo_cli.embed.speed import measure_speed
from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.files import check_output_path, format_bytes, output_errors, resolve
from elmo_cli.store.layouts import UniqueNames
from elmo_cli.store.log_lines import Progress, is_finished, log_path, part_path, read_log
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.store.writer import (
    check_same_settings,
    finished_attributes,
    progress_of,
    refuse_committed,
)
from elmo_cli.text.sentence import Sentence

_SCALE_BYTES = 4  # of a vector in int8
_CACHED_TYPES = 65_536  # about as many as the engine keeps
_HEAPS = 0.7  # a part of a text has that power of its size in types


@dataclass(frozen=True)
class FileSize:
    """Bytes of an embeddings file.

    Attributes:
        vectors, metadata: the file has both.
        is_copied: whether the vectors exist twice on the disk while the file is completed.
    """

    vectors: int
    metadata: int
    is_copied: bool

    @property
    def total(self) -> int:
        """Size of the complete file."""
        return self.vectors + self.metadata

    @property
    def peak(self) -> int:
        """The largest space that a run takes on the disk."""
        return self.total + (self.vectors if self.is_copied else self.metadata)


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    Attributes:
        sentences, tokens: in the complete file.
        size: of that file, about.
        computed: tokens that remain to be computed.
        committed: sentences that the unfinished or finished file contains.
        finished: whether the file is complete.
        seconds: estimate, lower and upper end of its range, for computing; None if finished.
        warnings: what looks wrong.
    """

    sentences: int
    tokens: int
    size: FileSize
    computed: int
    committed: int = 0
    finished: bool = False
    seconds: tuple[float, float, float] | None = None
    warnings: tuple[str, ...] = ()


def plan_job(job: EmbedJob, embedder: Embedder, *, timing_s: float = 2.0) -> Plan:
    """Check all that a run checks before its model computes, and estimate size and time.

    Args:
        job: whose paths `check_paths` has accepted.
        timing_s: seconds that timing a sample may take, about.
    Raises:
        ElmoError: as the run.
    """
    job = job.with_max_characters(embedder.bilm.options.max_characters)
    sample = _Sample(job)
    scan = scan_text(job, sample.collect)
    blocks = scan.shard(job.shard, state=job.embedder.state)
    spec = run_spec(job, embedder, scan.first_key(blocks))
    if job.resume and is_finished(job.output):
        return _finished_plan(job, spec, scan)
    done = Progress() if job.overwrite else _committed(job, spec)
    if done.blocks:
        n_read = blocks.start + done.blocks
        read = scan.blocks[n_read - 1].text_sha256 if n_read <= blocks.stop else ""
        check_same_text(f"{job.output}.part", done, read)
    n_sentences, n_tokens = scan.totals(blocks)
    stored = n_sentences - sample.n_duplicates, n_tokens - sample.n_duplicate_tokens
    _, computed = scan.totals(blocks[done.blocks :])
    speed = measure_speed(job, embedder, sample.sentences, timing_s)
    size = estimate_bytes(job, embedder, *stored)
    # Not refused: the run may get another disk.
    space = check_free_space(job, embedder, size, is_exact=False)
    warnings = (*scan.report.warnings, *empty_shard(job, scan, blocks), *filter(None, [space]))
    share = computed / max(1, scan.totals(range(len(scan.blocks)))[1])
    return Plan(
        *stored,
        size,
        computed,
        done.sentences,
        seconds=speed.seconds(computed, sample.n_types * share**_HEAPS) if speed else None,
        warnings=warnings,
    )


def check_same_text(where: str, done: Progress, text_sha256: str) -> None:
    """Raise a ResumeError if what is committed was not made from the text read so far."""
    if text_sha256 != done.text_sha256:
        raise ResumeError(
            f"{where}: made from a different text ({done.sentences:,} sentences)",
            "give the text that the run started with, or start over with `overwrite=True`",
        )


def empty_shard(job: EmbedJob, scan: TextScan, blocks: range) -> list[str]:
    """A warning for a shard without blocks."""
    if blocks or job.shard is None:
        return []
    n_blocks = len(scan.blocks)
    text = "1 block" if n_blocks == 1 else f"{n_blocks:,} blocks"
    number, n_shards = job.shard
    return [
        f"nothing is left for shard {number} of {n_shards}: the text has {text} of about "
        f"{SENTENCES:,} sentences"
    ]


def estimate_bytes(job: EmbedJob, embedder: Embedder, n_sentences: int, n_tokens: int) -> FileSize:
    """Estimate the size of the file from its numbers of sentences and tokens."""
    layout, options = job.layout, embedder.bilm.options
    n_kept, dim = embedder.output.n_kept, options.dim
    if layout.unit == "types":
        n_kept, dim = 1, options.projection_dim
    itemsize = DTYPES[job.file.dtype].itemsize
    vector = dim * itemsize + (_SCALE_BYTES if itemsize == 1 else 0)
    n_vectors = (n_sentences if job.embedder.pool else n_tokens) * n_kept
    of_sentence, of_token = layout.metadata_bytes
    metadata = n_sentences * of_sentence + n_tokens * of_token
    return FileSize(n_vectors * vector, metadata, is_copied=not layout.data_start)


def check_free_space(job: EmbedJob, embedder: Embedder, needed: FileSize, *, is_exact: bool) -> str:
    """A warning if the disk of the output has less free space than a run takes; else "".

    Raises:
        OutputError: instead of a warning if the size is exact.
    """
    try:
        free = shutil.disk_usage(resolve(job.output).parent).free
    except OSError:
        return ""  # the writer reports what is wrong with the folder
    part = part_path(job.output)
    if needed.peak - (part.stat().st_size if part.is_file() else 0) <= free:
        return ""
    of_file = f" for a file of {format_bytes(needed.total)}" if needed.is_copied else ""
    what = f"{job.output}: about {format_bytes(needed.peak)} are needed{of_file}, "
    what += f"{format_bytes(free)} are free on its disk"
    if is_exact:
        n_kept = 1 if job.layout.unit == "types" else embedder.output.n_kept
        smaller = ["`dtype=float16` halves it"] if job.file.dtype == "float32" else []
        smaller += [f"`layers=top` keeps 1 layer of {n_kept}"] if n_kept > 1 else []
        raise OutputError(what, "; or ".join([*smaller, "write to another disk"]))
    return what


class _Sample:
    """Sentences at equal distances, and counts that only a plan needs.

    Attributes:
        sentences: at most 2,000.
        n_types: that the engine has to compute.
        n_duplicates, n_duplicate_tokens: sentences that the layout leaves out.
    """

    def __init__(self, job: EmbedJob) -> None:
        self.sentences: list[Sentence] = []
        self.n_types = self.n_duplicates = self.n_duplicate_tokens = 0
        self._types: set[str] = set()
        self._layout, self._names = job.layout, UniqueNames(job.layout)

    def collect(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        distance = 1
        for number, sentence in enumerate(sentences):
            if number % distance == 0:
                self.sentences.append(sentence)
                if len(self.sentences) == 2 * SENTENCES:
                    self.sentences, distance = self.sentences[::2], 2 * distance
            self._count(sentence)
            yield sentence

    def _count(self, sentence: Sentence) -> None:
        if self._layout.unit == "types":
            check_types([sentence])
        if self._layout.keeps_first and not self._names.add(sentence):
            self.n_duplicates += 1
            self.n_duplicate_tokens += len(sentence.tokens)
        n_before = len(self._types)
        self._types.update(sentence.tokens)
        self.n_types += len(self._types) - n_before
        if len(self._types) > _CACHED_TYPES:
            self._types.clear()


def _committed(job: EmbedJob, spec: FileSpec) -> Progress:
    """What is committed of an unfinished output; an error if the run may not continue it."""
    part = part_path(job.output)
    with output_errors(f"{job.output}.part"):
        if not (part.is_file() and part.stat().st_size and log_path(part).exists()):
            return Progress()
        old, overwrite, progress = read_log(part)
    if not job.resume:
        refuse_committed(job.output, progress)
        return Progress()
    check_output_path(job.output, overwrite=overwrite)
    check_same_settings(f"{job.output}.part: unfinished", old, spec)
    return progress


def _finished_plan(job: EmbedJob, spec: FileSpec, scan: TextScan) -> Plan:
    facts = finished_attributes(job.output)
    check_same_settings(f"{job.output}: finished", FileSpec.from_attributes(facts), spec)
    done = progress_of(facts)
    check_same_text(job.output, done, scan.text_sha256)
    size = FileSize(0, Path(job.output).stat().st_size, is_copied=False)
    n_sentences = done.sentences - done.duplicates
    return Plan(n_sentences, done.tokens, size, 0, done.sentences, finished=True)
