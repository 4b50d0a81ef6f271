"""What a run would do: the settings of its file, counts, sizes, free space and time."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from elmo_cli.embed.blocks import SENTENCES, scan_text, split_into_blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.files import format_bytes, output_errors, resolve
from elmo_cli.pretrained.warm_state import warm_state_id
from elmo_cli.store.log_lines import is_finished, log_path, part_path, read_log
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.text.input import read_sentences
from elmo_cli.text.sentence import Sentence

_SCALE_BYTES = 4  # of a vector in int8
_CACHED_TYPES = 65_536  # about as many as the engine keeps
_HEAPS = 0.7  # Heaps' law: a fraction x of a text has about x ** 0.7 of its types
_OVERHEAD = 1.1  # reading, packing and writing, on top of what is timed
_RANGE = 0.75, 1.35  # of the estimate; most runs with default settings were within it
_MOST_TYPES = 512  # that are timed
_ROW_TOKENS = 4, 32  # of the batches that are timed, at first and at most


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
    sample = _Sample()
    scan = scan_text(job, sample.collect)
    blocks = scan.shard(job.shard, state=job.embedder.state)
    n_sentences, n_tokens = scan.totals(blocks)
    n_done = _count_committed(job, len(blocks))
    _, computed = scan.totals(blocks[n_done:])
    speed = measure_speed(job, embedder, sample.sentences, timing_s)
    size = estimate_bytes(job, embedder, n_sentences, n_tokens)
    share = computed / max(1, scan.totals(range(len(scan.blocks)))[1])
    return Plan(
        n_sentences,
        n_tokens,
        size,
        computed,
        scan.totals(blocks[:n_done])[0],
        speed.seconds(computed, sample.n_types * share**_HEAPS) if speed else None,
        (*scan.report.warnings, *filter(None, [space_problem(job, size)])),
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


class Speed(NamedTuple):
    """Seconds per token, in batches of the sizes that the text will have, and per new type."""

    token_s: float
    type_s: float

    def seconds(self, n_tokens: float, n_types: float) -> tuple[float, float, float]:
        """Estimate, lower and upper end of the range."""
        estimate = _OVERHEAD * (n_tokens * self.token_s + n_types * self.type_s)
        return estimate, estimate * _RANGE[0], estimate * _RANGE[1]


def measure_speed(
    job: EmbedJob, embedder: Embedder, sample: Sequence[Sentence], seconds: float
) -> Speed | None:
    """Time batches of few time steps and up to as many rows as those of the text.

    The time of a batch is modeled as steps * step_s + tokens * token_s; two batches, one with a
    quarter of the rows of the other, determine both. The sample represents the text. Batches grow
    until about `seconds` have passed, after the model was warmed up.
    """
    types, filled = _typical_types(sample), [one for one in sample if one.tokens]
    if not types:
        return None
    block = next(split_into_blocks(filled, EmbedderSettings())).sentences
    most_rows = min(_n_rows(embedder, block), len(types))
    n_columns, most_columns = (1, 1) if job.layout.unit == "types" else _ROW_TOKENS
    n_rows, n_known, type_s = min(4, most_rows), 1, 0.0
    _seconds(job, embedder, _batch(types[:1], 1, 1))
    begin = time.perf_counter()
    while True:
        turn = time.perf_counter()
        some = types[: n_rows * n_columns]
        large, n_few = _batch(some, n_rows, n_columns), max(1, n_rows // 4)
        small = _batch(some, n_few, n_columns)
        for batch in (large, small):
            other = [replace(one, tokens=tuple(f"{t}\0" for t in one.tokens)) for one in batch]
            for _ in range(embedder.engine.n_slow_calls):
                _seconds(job, embedder, other)
        cold, warm = _seconds(job, embedder, large), _seconds(job, embedder, large)
        few = _seconds(job, embedder, small)
        if len(some) > n_known:
            type_s, n_known = max(0.0, cold - warm) / (len(some) - n_known), len(some)
        slope = (warm - few) / (n_columns * max(1, n_rows - n_few))
        token_s = min(warm / (n_rows * n_columns), max(0.0, slope))
        step_s = (warm - n_rows * n_columns * token_s) / (1 + n_columns)
        is_largest = (n_rows, n_columns) == (most_rows, most_columns)
        now = time.perf_counter()
        if is_largest or now - begin + 2 * (now - turn) > seconds:
            break
        if n_rows < most_rows:
            n_rows = min(2 * n_rows, most_rows)
        else:
            n_columns *= 2
    return Speed(token_s + step_s * _n_steps(embedder, block) / _n_tokens(block), type_s)


def expected_rate(job: EmbedJob, embedder: Embedder) -> float:
    """Tokens per second at the beginning of a run, from timing types of its first sentences."""
    sentences = [one for one in islice(read_sentences(job.inputs, job.text), 300) if one.tokens]
    speed = measure_speed(job, embedder, sentences, 0.3)
    n_tokens, n_types = _n_tokens(sentences), len({t for one in sentences for t in one.tokens})
    return n_tokens / max(1e-9, speed.seconds(n_tokens, n_types)[0]) if speed else 0.0


class _Sample:
    """A sample of evenly spaced sentences.

    Attributes:
        sentences: at most 2,000.
        n_types: number of types that the engine has to compute for the whole text.
    """

    def __init__(self) -> None:
        self.sentences: list[Sentence] = []
        self.n_types = 0

    def collect(self, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
        distance, types = 1, set[str]()
        for number, sentence in enumerate(sentences):
            if number % distance == 0:
                self.sentences.append(sentence)
                if len(self.sentences) == 2 * SENTENCES:
                    self.sentences, distance = self.sentences[::2], 2 * distance
            n_before = len(types)
            types.update(sentence.tokens)
            self.n_types += len(types) - n_before
            if len(types) > _CACHED_TYPES:
                types.clear()
            yield sentence


def _count_committed(job: EmbedJob, n_blocks: int) -> int:
    """Count the blocks of the output that a resumed run keeps."""
    if job.resume and is_finished(job.output):
        return n_blocks
    part = part_path(job.output)
    with output_errors(f"{job.output}.part"):
        return read_log(part)[2].blocks if job.resume and log_path(part).exists() else 0


def _typical_types(sample: Sequence[Sentence]) -> list[str]:
    """Types of medium length; few different lengths fill the products of the character CNN."""
    types = {token for sentence in sample for token in sentence.tokens}
    by_length = sorted(types, key=lambda token: (len(token), token))
    start = max(0, len(by_length) - _MOST_TYPES) // 2
    return by_length[start : start + _MOST_TYPES]


def _batch(types: Sequence[str], n_rows: int, n_columns: int) -> list[Sentence]:
    """Rows of types as short documents; none shares its first or its last token with another."""
    return [
        Sentence(
            tuple(types[(row + n_rows * column) % len(types)] for column in range(n_columns)),
            row,
            starts_document=True,
        )
        for row in range(n_rows)
    ]


def _seconds(job: EmbedJob, embedder: Embedder, sentences: Sequence[Sentence]) -> float:
    start = time.perf_counter()
    if job.layout.unit == "types":
        embedder.embed_types([sentence.tokens[0] for sentence in sentences])
    else:
        embedder.embed_block(sentences, None)
    return time.perf_counter() - start


def _n_rows(embedder: Embedder, block: Sequence[Sentence]) -> int:
    """Rows of a batch of the text, at most; of a text with documents, about."""
    n_parallel = len(block)
    if embedder.state == "document":
        n_parallel = max(1, sum(sentence.starts_document for sentence in block))
    return min(embedder.batch_size, n_parallel)


def _n_steps(embedder: Embedder, block: Sequence[Sentence]) -> int:
    """Time steps of the batches into which a block is divided, about."""
    lengths, n_rows = [len(sentence.tokens) for sentence in block], _n_rows(embedder, block)
    if embedder.state != "carry":
        lengths.sort()
    return sum(1 + max(lengths[i : i + n_rows]) for i in range(0, len(lengths), n_rows))


def _n_tokens(sentences: Iterable[Sentence]) -> int:
    return sum(len(sentence.tokens) for sentence in sentences)
