"""What a run would do: the settings of its file, counts, sizes, free space and time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from elmo_cli.embed.blocks import SENTENCES, scan_text, type_of
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.files import output_errors, resolve
from elmo_cli.messages import format_bytes
from elmo_cli.pretrained.warm_state import warm_state_id
from elmo_cli.store.log_lines import read_log
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.store.unfinished import is_finished, log_path, part_path
from elmo_cli.text.input import read_sentences
from elmo_cli.text.sentence import Sentence

_SCALE_BYTES = 4  # of a vector in int8
_OVERHEAD = 1.1  # reading, packing and writing, on top of what is timed
_LOW = 0.7  # of the estimate
_HIGH = 1.35
_FIRST_CHUNK = 16  # sentences of the first chunk that is timed
_TINY_S = 1e-9


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
        seconds: estimate, lower and upper end of its range, for computing; None without tokens.
        warnings: what looks wrong.
    """

    sentences: int
    tokens: int
    size: FileSize
    computed: int
    committed: int
    seconds: tuple[float, float, float] | None
    warnings: tuple[str, ...]


def plan_job(job: EmbedJob, embedder: Embedder, *, timing_s: float = 2.0) -> Plan:
    """Read the text of a run whose paths `check_paths` has accepted, and estimate size and time.

    Timing a sample takes about `timing_s` seconds. Raises an ElmoError where the run would.
    """
    job = job.with_max_characters(embedder.bilm.options.max_characters)
    scan = scan_text(job)
    blocks = scan.shard(job.shard, state=job.embedder.state)
    n_sentences, n_tokens = scan.totals(blocks)
    n_blocks_done = _count_committed(job, len(blocks))
    n_sentences_done, n_tokens_done = scan.totals(blocks[:n_blocks_done])
    n_tokens_left = n_tokens - n_tokens_done
    rate = measure_rate(job, embedder, timing_s)
    size = estimate_bytes(job, embedder, n_sentences, n_tokens)
    warnings = list(scan.report.warnings)
    if problem := space_problem(job, size):
        warnings.append(problem)
    return Plan(
        sentences=n_sentences,
        tokens=n_tokens,
        size=size,
        computed=n_tokens_left,
        committed=n_sentences_done,
        seconds=None if rate is None else seconds_range(n_tokens_left, rate),
        warnings=tuple(warnings),
    )


def run_spec(job: EmbedJob, embedder: Embedder, first_sentence: int = 0) -> FileSpec:
    """The file settings of a job whose input begins with the key `first_sentence`. They must match
    when a run is resumed or shards are merged."""
    bilm, start, text = embedder.bilm, embedder.start, job.text
    settings = {
        "model": bilm.name,
        "model_sha256": bilm.sha256,
        "state": job.embedder.state,
        "layers": "0" if job.layout.unit == "types" else embedder.output.layers.name,
        "pool": job.embedder.pool or "none",
        "format": text.format,
        "tokenizer": "english" if text.tokenize else "whitespace",
        "blank": text.blank,
        "precision": embedder.precision if embedder.precision != "float32" else None,
        "batch_size": embedder.batch_size if job.embedder.state == "carry" else None,
        "state_sha256": None if start is None else warm_state_id(bilm, start),
        "column": text.column,
        "shard": None if job.shard is None else "{}/{}".format(*job.shard),
    }
    known = {name: value for name, value in settings.items() if value is not None}
    return replace(job.file, first_sentence=first_sentence, run_settings=known)


def estimate_bytes(job: EmbedJob, embedder: Embedder, n_sentences: int, n_tokens: int) -> FileSize:
    """Estimate the size of the file from its numbers of sentences and tokens."""
    layout, options = job.layout, embedder.bilm.options
    n_kept, dim = embedder.output.layers.n_kept, options.dim
    if layout.unit == "types":
        n_kept, dim = 1, options.projection_dim
    itemsize = DTYPES[job.file.dtype].itemsize
    vector = dim * itemsize + (_SCALE_BYTES if itemsize == 1 else 0)
    n_vectors = (n_sentences if job.embedder.pool else n_tokens) * n_kept
    of_sentence, of_token = layout.metadata_bytes
    metadata = n_sentences * of_sentence + n_tokens * of_token
    total, is_copied = n_vectors * vector + metadata, not layout.data_start
    return FileSize(total, total + (n_vectors * vector if is_copied else metadata), is_copied)


def space_problem(job: EmbedJob, needed: FileSize) -> str:
    """Return a message if the disk of the output has less free space than a run needs, else ""."""
    try:
        free = shutil.disk_usage(resolve(job.output).parent).free
    except OSError:
        return ""  # the writer reports what is wrong with the folder
    part = part_path(job.output)
    if needed.peak - (part.stat().st_size if part.is_file() else 0) <= free:
        return ""
    of_file = f" for a file of {format_bytes(needed.total)}" if needed.is_copied else ""
    what = f"{job.output}: about {format_bytes(needed.peak)} are needed{of_file}"
    return f"{what}, {format_bytes(free)} are free on its disk"


def measure_rate(job: EmbedJob, embedder: Embedder, seconds: float) -> float | None:
    """Tokens per second: embed the beginning of the text for about `seconds`.

    Each chunk has twice as many sentences as the one before, up to a whole block. Only the last
    chunk counts: the first ones are slower, because memory is allocated and most types are new.
    None for a text without tokens.
    """
    sentences = read_sentences(job.inputs, job.text)
    n_sentences = _FIRST_CHUNK
    rate = None
    end_s = time.perf_counter() + seconds
    while chunk := list(islice(sentences, n_sentences)):
        start_s = time.perf_counter()
        _embed(job, embedder, chunk)
        chunk_s = time.perf_counter() - start_s
        n_tokens = sum(len(sentence.tokens) for sentence in chunk)
        if n_tokens:
            rate = n_tokens / max(chunk_s, _TINY_S)
        expected_s = 2 * chunk_s  # of the next chunk
        if time.perf_counter() + expected_s > end_s:
            break
        n_sentences = min(2 * n_sentences, SENTENCES)
    return rate


def _embed(job: EmbedJob, embedder: Embedder, sentences: Sequence[Sentence]) -> None:
    if job.layout.unit == "types":
        embedder.embed_types([type_of(sentence) for sentence in sentences])
    else:
        embedder.embed_block(sentences, None)


def seconds_range(n_tokens: int, rate: float) -> tuple[float, float, float]:
    """Estimate, lower and upper end of the time to embed some tokens."""
    estimate = _OVERHEAD * n_tokens / rate
    return estimate, _LOW * estimate, _HIGH * estimate


def _count_committed(job: EmbedJob, n_blocks: int) -> int:
    """Count the blocks of the output that a resumed run keeps."""
    if job.resume and is_finished(job.output):
        return n_blocks
    part = part_path(job.output)
    with output_errors(f"{job.output}.part"):
        return read_log(part)[2].blocks if job.resume and log_path(part).exists() else 0
