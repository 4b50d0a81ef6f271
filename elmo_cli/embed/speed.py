"""Speed: how long a run will take, from timing a few time steps with tokens of its text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from elmo_cli.embed.blocks import split_into_blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.text.input import read_sentences
from elmo_cli.text.sentence import Sentence

_OVERHEAD = 1.1  # reading, packing and writing, on top of what is timed
_RANGE = 0.75, 1.35  # of the estimate; most runs with default settings were within it
_MOST_TYPES = 512  # that are timed
_ROW_TOKENS = 4, 32  # of the batches that are timed, at first and at most


@dataclass(frozen=True)
class Speed:
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

    The time of a batch is modelled as steps * step_s + tokens * token_s; two batches, one with a
    quarter of the rows of the other, determine both. Batches grow as long as time is left.

    Args:
        sample: sentences that represent the text.
        seconds: that this may take, about; the model is warmed up before.
    """
    types, filled = _typical_types(sample), [one for one in sample if one.tokens]
    if not types:
        return None
    block = next(split_into_blocks(filled, state="zero")).sentences
    most_rows = min(_n_rows(embedder, block), len(types))
    n_columns, most_columns = (1, 1) if job.layout.unit == "types" else _ROW_TOKENS
    n_rows, n_known, type_s, spent = min(4, most_rows), 1, 0.0, 0.0
    _seconds(job, embedder, _batch(types[:1], 1, 1))
    while True:
        some = types[: n_rows * n_columns]
        large = _batch(some, n_rows, n_columns)
        cold, warm = _seconds(job, embedder, large), _seconds(job, embedder, large)
        n_few = max(1, n_rows // 4)
        few = _seconds(job, embedder, _batch(some, n_few, n_columns))
        if len(some) > n_known:
            type_s, n_known = max(0.0, cold - warm) / (len(some) - n_known), len(some)
        slope = (warm - few) / (n_columns * max(1, n_rows - n_few))
        token_s = min(warm / (n_rows * n_columns), max(0.0, slope))
        step_s = (warm - n_rows * n_columns * token_s) / (1 + n_columns)
        spent += cold + warm + few
        is_largest = (n_rows, n_columns) == (most_rows, most_columns)
        if is_largest or spent + 2 * (cold + warm + few) > seconds:
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
