"""What a run would do: the settings of its file, counts, sizes, free space and time."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from elmo_cli.embed.blocks import SENTENCES, scan_text
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.speed import measure_speed
from elmo_cli.files import format_bytes, output_errors, resolve
from elmo_cli.pretrained.warm_state import warm_state_id
from elmo_cli.store.log_lines import is_finished, log_path, part_path, read_log
from elmo_cli.store.spec import DTYPES, FileSpec
from elmo_cli.text.sentence import Sentence

_SCALE_BYTES = 4  # of a vector in int8
_CACHED_TYPES = 65_536  # about as many as the engine keeps
_HEAPS = 0.7  # a part of a text has that power of its size in types


class FileSize(NamedTuple):
    """Bytes of an embeddings file.

    Attributes:
        total: of the complete file.
        peak: the largest space that a run takes on the disk.
        is_copied: whether the vectors exist twice on the disk while the file is completed.
    """

    total: int
    peak: int
    is_copied: bool


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
    """Read the text of a run, and estimate size and time.

    Args:
        job: whose paths `check_paths` has accepted.
        timing_s: seconds that timing a sample may take, about.
    Raises:
        ElmoError: as the run, for a text that it would refuse.
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
    """The settings of the file of a job; they must agree to resume its run or to merge shards.

    Args:
        first_sentence: the key with which its input begins.
    """
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
