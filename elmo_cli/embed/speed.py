"""Speed: how long a run will take, from timing a few time steps with tokens of its text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from elmo_cli.embed.blocks import SENTENCES
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.text.input import read_sentences
from elmo_cli.text.sentence import Sentence

_OVERHEAD = 1.1  # reading, packing and writing, on top of what is timed
_RANGE = 0.75, 1.35  # of the estimate
_MOST_ROWS, _ROW_TOKENS = 512, 4  # of the batches that are timed


@dataclass(frozen=True)
class Speed:
    """Seconds per token, in batches as the text will have, and per new type."""

    token_s: float
    type_s: float

    def seconds(self, n_tokens: float, n_types: float) -> tuple[float, float, float]:
        """Estimate, lower and upper end of the range."""
        estimate = _OVERHEAD * (n_tokens * self.token_s + n_types * self.type_s)
        return estimate, estimate * _RANGE[0], estimate * _RANGE[1]


def measure_speed(
    job: EmbedJob, embedder: Embedder, sample: Sequence[Sentence], seconds: float
) -> Speed | None:
    """Time batches of growing size, each with new and with known types.

    A time step takes a while for reading the weights and a while for each of its rows. Two batches
    of few time steps tell one from the other, also for a model that computes no more than a few
    sentences in this time.

    Args:
        sample: sentences that represent the text.
        seconds: that this may take, about; the model is warmed up before.
    """
    types = _typical_types(sample)
    if not types:
        return None
    n_rows, n_known, spent = min(4, len(types)), 1, 0.0
    n_columns = 1 if job.layout.unit == "types" else _ROW_TOKENS
    timed: list[tuple[list[Sentence], float]] = []
    _seconds(job, embedder, _batch(types[:1], n_columns))
    while True:
        batch = _batch(types[:n_rows], n_columns)
        cold, warm = _seconds(job, embedder, batch), _seconds(job, embedder, batch)
        timed.append((batch, warm))
        type_s, n_known = max(0.0, cold - warm) / max(1, n_rows - n_known), n_rows
        spent, n_rows = spent + cold + warm, 2 * n_rows
        if n_rows > len(types) or spent + 2 * (cold + warm) > seconds:
            break
    step_s, token_s = _solve(embedder, timed[-3:])
    block = [sentence for sentence in sample if sentence.tokens][:SENTENCES]
    return Speed(token_s + step_s * _n_steps(embedder, block) / _n_tokens(block), type_s)


def expected_rate(job: EmbedJob, embedder: Embedder) -> float:
    """Tokens per second at the beginning of a run, from timing some sentences briefly."""
    sentences = [one for one in islice(read_sentences(job.inputs, job.text), 300) if one.tokens]
    speed = measure_speed(job, embedder, sentences, 0.3)
    n_tokens, n_types = _n_tokens(sentences), len({t for one in sentences for t in one.tokens})
    return n_tokens / max(1e-9, speed.seconds(n_tokens, n_types)[0]) if speed else 0.0


def _typical_types(sample: Sequence[Sentence]) -> list[str]:
    """Types of medium length; few different lengths fill the products of the character CNN."""
    types = {token for sentence in sample for token in sentence.tokens}
    by_length = sorted(types, key=lambda token: (len(token), token))
    start = max(0, len(by_length) - _MOST_ROWS) // 2
    return by_length[start : start + _MOST_ROWS]


def _batch(types: Sequence[str], n_columns: int) -> list[Sentence]:
    """As many short documents as types, none of which shares its first or its last token."""
    repeated = [*types] * (1 + n_columns)
    return [
        Sentence(tuple(repeated[row : row + n_columns]), row, starts_document=True)
        for row in range(len(types))
    ]


def _seconds(job: EmbedJob, embedder: Embedder, sentences: Sequence[Sentence]) -> float:
    start = time.perf_counter()
    if job.layout.unit == "types":
        embedder.embed_types([sentence.tokens[0] for sentence in sentences])
    else:
        embedder.embed_block(sentences, None)
    return time.perf_counter() - start


def _solve(
    embedder: Embedder, timed: Sequence[tuple[list[Sentence], float]]
) -> tuple[float, float]:
    """Seconds per time step and per token, from the first and the last of the timed batches."""
    (small, small_s), (large, large_s) = timed[0], timed[-1]
    n_tokens, n_steps = _n_tokens(large), _n_steps(embedder, large)
    if len(timed) == 1:
        return 0.0, large_s / n_tokens
    ratio = _n_steps(embedder, small) / n_steps
    token_s = (large_s * ratio - small_s) / (n_tokens * ratio - _n_tokens(small))
    token_s = min(large_s / n_tokens, max(0.0, token_s))
    return (large_s - n_tokens * token_s) / n_steps, token_s


def _n_steps(embedder: Embedder, block: Sequence[Sentence]) -> int:
    """Time steps of the batches into which a block is divided, about."""
    lengths, n_rows = [len(sentence.tokens) for sentence in block], embedder.batch_size
    if embedder.state == "document":
        n_rows = min(n_rows, max(1, sum(sentence.starts_document for sentence in block)))
    if embedder.state != "carry":
        lengths.sort()
    return sum(1 + max(lengths[i : i + n_rows]) for i in range(0, len(lengths), n_rows))


def _n_tokens(sentences: Iterable[Sentence]) -> int:
    return sum(len(sentence.tokens) for sentence in sentences)
