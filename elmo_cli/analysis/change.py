"""Change: how much the usages of a word differ between two corpora, with a permutation test."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import Float32Array, Float64Array

MEASURES = ("prt", "apd")
MIN_USAGES = 3  # on each side; the mean of fewer says more about them than about the word
_CHUNK_DIVISIONS = 256  # random divisions that are computed together
_CHUNK_USAGES = 2048  # usages that are in memory in float64
_CHUNK_NUMBERS = 1 << 22  # random numbers that are in memory
_TIE = 1e-12  # two ways of summing the same vectors differ by less


@dataclass(frozen=True)
class Difference:
    """A measure of the difference between the usages of two sides.

    Attributes:
        value: 0 (no difference) to 2.
        p: the fraction of divisions of all usages into two sides of the same sizes whose value is
            at least as high: (1 + such random divisions) / (1 + random divisions). None if there
            were no random divisions.
    """

    value: float
    p: float | None = None


@dataclass(frozen=True)
class Change:
    """The difference between the usages of a word in two corpora.

    Attributes:
        n_first, n_second: usages in each corpus.
        prt: 1 - cos(mean vector of one side, mean vector of the other).
        apd: the mean cosine distance of all pairs of a usage of one side and one of the other.

    Both are None if they are not asked for, or if a side has fewer than `MIN_USAGES` usages.
    """

    n_first: int
    n_second: int
    prt: Difference | None = None
    apd: Difference | None = None


def measure_change(
    first: Float32Array,
    second: Float32Array,
    *,
    measures: Collection[str] = MEASURES,
    n_permutations: int = 0,
    seed: int = 0,
) -> Change:
    """Measure how much the usages of a word differ between two corpora.

    Sums are computed in float64. The cosine of a zero vector and any other is 0. With permutations,
    at most 2,048 usages and 256 divisions are in memory in float64 at a time.

    Args:
        first, second: (usage, dim), the vectors of each side, all finite.
        measures: "prt", "apd" or both.
        n_permutations: random divisions of all usages into two sides of the same sizes; 0 for none.
        seed: random seed of the divisions.
    Raises:
        ValueError: the shapes do not fit.

    Source: PRT and APD: Kutuzov and Giulianelli 2020, "UiO-UvA at SemEval-2020 Task 1", section 3.
    The permutation test: Liu et al. 2021, "Statistically Significant Detection of Semantic Shifts
    using Contextual Word Embeddings", section 3.
    """
    if first.ndim != 2 or second.ndim != 2 or first.shape[1] != second.shape[1]:
        shapes = f"{first.shape} and {second.shape}"
        raise ValueError(f"expected two arrays (usage, dim) of the same dim, not {shapes}")
    n_first = len(first)
    n_second = len(second)
    if min(n_first, n_second) < MIN_USAGES:
        return Change(n_first=n_first, n_second=n_second)
    prt = None
    if "prt" in measures:
        prt = _difference(first, second, n_permutations, seed, normalizes_usages=False)
    apd = None
    if "apd" in measures:
        apd = _difference(first, second, n_permutations, seed, normalizes_usages=True)
    return Change(n_first=n_first, n_second=n_second, prt=prt, apd=apd)


def _difference(
    first: Float32Array,
    second: Float32Array,
    n_permutations: int,
    seed: int,
    *,
    normalizes_usages: bool,
) -> Difference:
    """Compute APD if the vectors of usages are divided by their lengths first, else PRT.

    The mean cosine of all pairs is the dot product of the mean normalized vectors of both sides, so
    APD needs only sums of vectors, as PRT does.
    """
    n_first = len(first)
    n_second = len(second)

    def distances(first_sums: Float64Array, second_sums: Float64Array) -> Float64Array:
        """Return the value of each division, (division,), from its sums, (division, dim)."""
        if normalizes_usages:
            cosines = (first_sums * second_sums).sum(axis=1) / (n_first * n_second)
        else:
            cosines = (_normalized(first_sums) * _normalized(second_sums)).sum(axis=1)
        values: Float64Array = (1 - cosines).clip(min=0)
        return values

    first_sum = _sums(np.ones((1, n_first)), first, normalizes_usages=normalizes_usages)
    second_sum = _sums(np.ones((1, n_second)), second, normalizes_usages=normalizes_usages)
    value = float(distances(first_sum, second_sum)[0])
    if not n_permutations:
        return Difference(value)
    pooled = np.concatenate([first, second])
    pooled_sum = first_sum + second_sum
    n_as_high = 0
    for is_first in _random_divisions(n_first, n_second, n_permutations, seed):
        first_sums = _sums(is_first, pooled, normalizes_usages=normalizes_usages)
        permuted = distances(first_sums, pooled_sum - first_sums)
        n_as_high += int((permuted >= value - _TIE).sum())
    return Difference(value, (1 + n_as_high) / (1 + n_permutations))


def _random_divisions(
    n_first: int, n_second: int, n_divisions: int, seed: int
) -> Iterator[Float64Array]:
    """Yield chunks (division, usage) of random divisions: 1 for the usages of the first side."""
    rng = np.random.default_rng(seed)
    n_usages = n_first + n_second
    n_chunk = max(1, min(_CHUNK_DIVISIONS, _CHUNK_NUMBERS // n_usages))
    for begin in range(0, n_divisions, n_chunk):
        size = min(n_chunk, n_divisions - begin)
        order = rng.random((size, n_usages)).argpartition(n_first, axis=1)
        is_first = np.zeros((size, n_usages))
        np.put_along_axis(is_first, order[:, :n_first], 1.0, axis=1)
        yield is_first


def _sums(
    is_member: Float64Array, vectors: Float32Array, *, normalizes_usages: bool
) -> Float64Array:
    """Return the sum of the vectors of one side in each division, (division, dim).

    Args:
        is_member: 1 for the usages of the side, 0 for the others, (division, usage).
        vectors: (usage, dim).
        normalizes_usages: divide each vector by its length first.
    """
    sums = np.zeros((len(is_member), vectors.shape[1]))
    for begin in range(0, len(vectors), _CHUNK_USAGES):
        chunk = vectors[begin : begin + _CHUNK_USAGES].astype(np.float64)
        if normalizes_usages:
            chunk = _normalized(chunk)
        sums += is_member[:, begin : begin + _CHUNK_USAGES] @ chunk
    return sums


def _normalized(vectors: Float64Array) -> Float64Array:
    """Divide the rows of (row, dim) by their lengths; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    normalized: Float64Array = vectors / np.where(lengths > 0, lengths, 1)
    return normalized
