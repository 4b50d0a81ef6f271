"""Plan: what a run would do, in counts, sizes, free space and time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from elmo_cli.embed.blocks import SENTENCES as MAX_BLOCK_SENTENCES
from elmo_cli.embed.blocks import TextTotals, scan_text, type_of
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.text_fit import text_fit
from elmo_cli.files import output_errors, resolve
from elmo_cli.fit import FitPoint
from elmo_cli.messages import format_bytes
from elmo_cli.store.file_formats import HDF5, format_of_output
from elmo_cli.store.log_lines import read_log
from elmo_cli.store.spec import DTYPES
from elmo_cli.store.unfinished import is_finished, log_path, part_path
from elmo_cli.text.input import read_sentences
from elmo_cli.text.sentence import Sentence

_SCALE_BYTES = 4  # of a vector in int8
_OVERHEAD = 1.1  # reading, packing and writing, on top of what is timed
_LOW = 0.7  # of the estimate
_HIGH = 1.35
_FIRST_CHUNK = 8  # sentences of the first chunk that is timed
_MIN_CHUNKS = 3  # that are timed: the first, and two that are compared
# Seconds per token of a larger batch, as a fraction of those of a small one; a busy machine may
# suggest less.
_LEAST_GROWTH = 1 / 3
_TINY_S = 1e-9  # a clock may show that no time has passed


class SecondsRange(NamedTuple):
    """An estimate of a time in seconds, and the ends of its range."""

    estimate: float
    low: float
    high: float


class FileSize(NamedTuple):
    """Bytes of an embeddings file."""

    total: int  # of the complete file
    peak: int  # the largest space that a run takes on the disk
    is_copied: bool  # whether the vectors exist twice on the disk while the file is completed


@dataclass(frozen=True)
class Plan:
    """What a run would do.

    Attributes:
        sentences, tokens: numbers of those in the text of the file.
        size: approximate size of the complete file.
        computed: tokens that remain to be computed.
        committed: sentences already in the file; whether they are from this text is not checked.
        seconds: for computing; None without tokens.
        fit: how the first tokens fit the vocabulary of the model; empty if the model has none.
        warnings: what looks wrong.
    """

    sentences: int
    tokens: int
    size: FileSize
    computed: int
    committed: int
    seconds: SecondsRange | None
    fit: tuple[FitPoint, ...]
    warnings: tuple[str, ...]


def plan_job(job: EmbedJob, embedder: Embedder, *, timing_s: float = 2.0) -> Plan:
    """Read the text of a run whose paths `check_paths` has accepted, and estimate size and time.

    Timing a sample takes about `timing_s` seconds. Raises an ElmoError where the run would.
    """
    job = job.for_model(embedder.bilm.options)
    scan = scan_text(job)
    blocks = scan.shard(job.shard, state=job.embedder.state)
    totals = scan.totals(blocks)
    n_blocks_done = _count_committed(job, len(blocks))
    committed = scan.totals(blocks[:n_blocks_done])
    n_tokens_left = totals.n_tokens - committed.n_tokens
    speed = measure_speed(job, embedder, timing_s)
    size = estimate_bytes(job, embedder, totals)
    warnings = list(scan.report.warnings)
    fit = text_fit(job, read_sentences(job.inputs, job.text), embedder, warnings.append)
    problem = space_problem(job, size)
    if problem:
        warnings.append(problem)
    return Plan(
        sentences=totals.n_sentences,
        tokens=totals.n_tokens,
        size=size,
        computed=n_tokens_left,
        committed=committed.n_sentences,
        seconds=None if speed is None else seconds_range(n_tokens_left, speed),
        fit=fit,
        warnings=tuple(warnings),
    )


def estimate_bytes(job: EmbedJob, embedder: Embedder, totals: TextTotals) -> FileSize:
    """Estimate the size of the file from its numbers of sentences and tokens."""
    layout = job.layout
    if layout.unit == "types":
        n_kept_layers = 1
        dim = embedder.bilm.options.projection_dim
    else:
        n_kept_layers = embedder.output.layers.n_kept
        dim = embedder.bilm.options.dim
    itemsize = DTYPES[job.file.dtype].itemsize
    scale_bytes = _SCALE_BYTES if itemsize == 1 else 0
    n_vectors = n_kept_layers * (totals.n_sentences if job.embedder.pool else totals.n_tokens)
    vector_bytes = n_vectors * (dim * itemsize + scale_bytes)
    bytes_of_sentence, bytes_of_token = layout.metadata_bytes
    metadata_bytes = totals.n_sentences * bytes_of_sentence + totals.n_tokens * bytes_of_token
    total = vector_bytes + metadata_bytes
    is_copied = format_of_output(job.output) is not HDF5
    written_twice = vector_bytes if is_copied else metadata_bytes
    return FileSize(total=total, peak=total + written_twice, is_copied=is_copied)


def space_problem(job: EmbedJob, needed: FileSize) -> str:
    """Return a message if the disk of the output has less free space than a run needs, else ""."""
    try:
        free = shutil.disk_usage(resolve(job.output).parent).free
    except OSError:
        return ""  # the writer reports what is wrong with the folder
    part = part_path(job.output)
    n_bytes_done = part.stat().st_size if part.is_file() else 0
    if needed.peak - n_bytes_done <= free:
        return ""
    of_file = f" for a file of {format_bytes(needed.total)}" if needed.is_copied else ""
    need = f"about {format_bytes(needed.peak)} are needed{of_file}"
    return f"{job.output}: {need}, {format_bytes(free)} are free on its disk"


class TimedChunk(NamedTuple):
    """Sentences that were embedded together, and how long that took."""

    n_sentences: int
    n_tokens: int
    seconds: float


def measure_speed(
    job: EmbedJob, embedder: Embedder, seconds: float, *, min_chunks: int = _MIN_CHUNKS
) -> float | None:
    """Measure tokens per second: embed the beginning of the text for about `seconds`.

    Each chunk has twice as many sentences as the one before, up to a whole block. The speed is that
    of a full batch, see `speed_of_full_batch`.

    Args:
        min_chunks: number of chunks to embed however long they take, if the text has as many.
    Returns:
        None for a text without tokens.
    Raises:
        ElmoError: a line cannot be read, or a sentence cannot be computed, as in a run.
    """
    sentences = read_sentences(job.inputs, job.text)
    n_sentences = _FIRST_CHUNK
    chunks: list[TimedChunk] = []
    end_s = time.perf_counter() + seconds
    while True:
        chunk = list(islice(sentences, n_sentences))
        if not chunk:
            break
        begin_s = time.perf_counter()
        _make_slow_calls(job, embedder, chunk)
        start_s = time.perf_counter()
        _embed(job, embedder, chunk)
        stop_s = time.perf_counter()
        n_tokens = sum(len(sentence.tokens) for sentence in chunk)
        chunks.append(TimedChunk(len(chunk), n_tokens, max(stop_s - start_s, _TINY_S)))
        next_chunk_s = 2 * (stop_s - begin_s)  # at most, as it has at most twice the sentences
        if len(chunks) >= min_chunks and stop_s + next_chunk_s > end_s:
            break
        n_sentences = min(2 * n_sentences, MAX_BLOCK_SENTENCES)
    return speed_of_full_batch(chunks, embedder.batch_size)


def speed_of_full_batch(chunks: Sequence[TimedChunk], batch_size: int) -> float | None:
    """Tokens per second of a batch of `batch_size` sentences; None without tokens.

    A time step reads all weights, however few rows it has. Therefore a small chunk takes several
    times as long per token as a full batch. If the last chunk is smaller than a batch, the missing
    tokens are added to it. Each of them takes as long as one of those tokens that the last chunk
    has more than the chunk before it. The first chunk is not compared, because memory is allocated
    while it is embedded.
    """
    chunks = [chunk for chunk in chunks if chunk.n_tokens]
    if not chunks:
        return None
    last = chunks[-1]
    mean_token_s = last.seconds / last.n_tokens
    if last.n_sentences >= batch_size or len(chunks) < _MIN_CHUNKS:
        return 1 / mean_token_s
    before = chunks[-2]
    n_tokens_more = last.n_tokens - before.n_tokens
    if n_tokens_more <= 0:
        return 1 / mean_token_s
    growth_s = (last.seconds - before.seconds) / n_tokens_more
    growth_s = min(max(growth_s, _LEAST_GROWTH * mean_token_s), mean_token_s)
    n_tokens_of_batch = batch_size * last.n_tokens / last.n_sentences
    batch_s = last.seconds + growth_s * (n_tokens_of_batch - last.n_tokens)
    return n_tokens_of_batch / batch_s


def _make_slow_calls(job: EmbedJob, embedder: Embedder, sentences: Sequence[Sentence]) -> None:
    """Embed other sentences of the same lengths, so that the timed call is not a slow one.

    The first calls with a number of rows are slow on a GPU, because they record CUDA graphs. Other
    tokens are used in order that the vectors of the timed types are not in the cache yet.
    """
    if job.layout.unit == "types" or embedder.engine.n_slow_calls == 0:
        return
    other_sentences = []
    for sentence in sentences:
        other_tokens = tuple(f"{token}\0" for token in sentence.tokens)
        other_sentences.append(replace(sentence, tokens=other_tokens))
    for _ in range(embedder.engine.n_slow_calls):
        _embed(job, embedder, other_sentences)


def _embed(job: EmbedJob, embedder: Embedder, sentences: Sequence[Sentence]) -> None:
    if job.layout.unit == "types":
        embedder.embed_types([type_of(sentence) for sentence in sentences])
    else:
        embedder.embed_block(sentences, None)


def seconds_range(n_tokens: int, speed: float) -> SecondsRange:
    """Estimate the time to embed some tokens at a speed in tokens per second."""
    estimate = _OVERHEAD * n_tokens / speed
    return SecondsRange(estimate=estimate, low=_LOW * estimate, high=_HIGH * estimate)


def _count_committed(job: EmbedJob, n_blocks: int) -> int:
    """Count the blocks of the output that a resumed run keeps, of `n_blocks` of the text."""
    if not job.resume:
        return 0
    if is_finished(job.output):
        return n_blocks
    part = part_path(job.output)
    with output_errors(f"{job.output}.part"):
        if not log_path(part).exists():
            return 0
        return read_log(part).progress.blocks
