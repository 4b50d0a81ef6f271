"""Speed: how long a run will take, from timing some sentences of its text."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from elmo_cli.embed.blocks import SENTENCES
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.text.input import read_sentences
from elmo_cli.text.sentence import Sentence

_OVERHEAD = 1.1  # reading, packing and writing, on top of what is timed
_LEAST_SLOPE = 0.6  # of the time per token that a larger batch may save


@dataclass(frozen=True)
class Speed:
    """Seconds per token and per new type, measured; a larger batch may need only `low` of them."""

    token_s: float
    type_s: float
    low: float = 1.0

    def seconds(self, n_tokens: float, n_types: float) -> tuple[float, float, float]:
        """Estimate, lower and upper end of the range."""
        longest = _OVERHEAD * (n_tokens * self.token_s + n_types * self.type_s)
        estimate = longest * self.low**0.5
        return estimate, 0.8 * longest * self.low, 1.25 * longest


def measure_speed(
    job: EmbedJob, embedder: Embedder, sample: Sequence[Sentence], seconds: float
) -> Speed | None:
    """Time a sample in batches of growing size, each with new and with known types.

    Args:
        sample: sentences that represent the text.
        seconds: that this may take, about; the model is warmed up before.
    """
    embed = _compute(job, embedder)
    ordered = sorted((s for s in sample if s.tokens), key=lambda sentence: len(sentence.tokens))
    if not ordered:
        return None
    embed(ordered[:1])
    known, n, spent, before = set(ordered[0].tokens), 8, 0.0, (0, 0.0)
    while True:
        chosen = _spread(ordered, n)
        new, n_tokens = {t for s in chosen for t in s.tokens} - known, _count(chosen)
        cold, warm = _timed(embed, chosen), _timed(embed, chosen)
        known, n, spent = known | new, 2 * n, spent + cold + warm
        if len(chosen) == min(len(ordered), SENTENCES) or spent + 2 * (cold + warm) > seconds:
            break
        before = n_tokens, warm
    token_s, type_s = warm / n_tokens, max(0.0, cold - warm) / max(1, len(new))
    slope = (warm - before[1]) / max(1, n_tokens - before[0])
    return Speed(token_s, type_s, min(1.0, max(_LEAST_SLOPE, slope / token_s)))


def expected_rate(job: EmbedJob, embedder: Embedder) -> float:
    """Tokens per second at the beginning of a run, from timing some sentences briefly."""
    sentences = [one for one in islice(read_sentences(job.inputs, job.text), 300) if one.tokens]
    speed = measure_speed(job, embedder, sentences, 0.3)
    n_tokens, n_types = _count(sentences), len({t for one in sentences for t in one.tokens})
    return n_tokens / max(1e-9, speed.seconds(n_tokens, n_types)[0]) if speed else 0.0


def _compute(job: EmbedJob, embedder: Embedder) -> Callable[[Sequence[Sentence]], object]:
    if job.layout.unit == "types":
        return lambda sentences: embedder.embed_types([s.tokens[0] for s in sentences])
    return lambda sentences: embedder.embed_block(sentences, None)


def _timed(embed: Callable[[Sequence[Sentence]], object], sentences: Sequence[Sentence]) -> float:
    start = time.perf_counter()
    embed(sentences)
    return time.perf_counter() - start


def _spread(ordered: Sequence[Sentence], n: int) -> list[Sentence]:
    """`n` sentences at equal distances of an ordered sample, in the order of the text."""
    n = min(n, len(ordered), SENTENCES)
    chosen = [ordered[(2 * i + 1) * len(ordered) // (2 * n)] for i in range(n)]
    return sorted(chosen, key=lambda sentence: sentence.key)


def _count(sentences: Iterable[Sentence]) -> int:
    return sum(len(sentence.tokens) for sentence in sentences)
