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
            at least as high: (1 + such random divisions) / (1 + random divisions); None without
            them.
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
        seed: of the random divisions.
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
        prt = _difference(first, second, n_permutations, seed, has_unit_length=False)
    apd = None
    if "apd" in measures:
        apd = _difference(first, second, n_permutations, seed, has_unit_length=True)
    return Change(n_first=n_first, n_second=n_second, prt=prt, apd=apd)


def _difference(
    first: Float32Array,
    second: Float32Array,
    n_permutations: int,
    seed: int,
    *,
    has_unit_length: bool,
) -> Difference:
    """PRT; or APD, for which each vector is divided by its length before all else."""
    n_first = len(first)
    n_second = len(second)

    def distances(first_sums: Float64Array, second_sums: Float64Array) -> Float64Array:
        """1 - the product of what each side has: (division, dim) twice to (division,)."""
        if has_unit_length:
            products = (first_sums * second_sums).sum(axis=1) / (n_first * n_second)
        else:
            products = (_unit(first_sums) * _unit(second_sums)).sum(axis=1)
        distance: Float64Array = (1 - products).clip(min=0)
        return distance

    first_sum = _sums(np.ones((1, n_first)), first, has_unit_length=has_unit_length)
    second_sum = _sums(np.ones((1, n_second)), second, has_unit_length=has_unit_length)
    value = float(distances(first_sum, second_sum)[0])
    if not n_permutations:
        return Difference(value)
    pooled = np.concatenate([first, second])
    pooled_sum = first_sum + second_sum
    n_as_high = 0
    for is_first in _random_divisions(n_first, n_second, n_permutations, seed):
        sums = _sums(is_first, pooled, has_unit_length=has_unit_length)
        permuted = distances(sums, pooled_sum - sums)
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


def _sums(is_member: Float64Array, vectors: Float32Array, *, has_unit_length: bool) -> Float64Array:
    """The sums of the vectors (usage, dim) that each row of (division, usage) chooses by 1."""
    sums = np.zeros((len(is_member), vectors.shape[1]))
    for begin in range(0, len(vectors), _CHUNK_USAGES):
        chunk = vectors[begin : begin + _CHUNK_USAGES].astype(np.float64)
        if has_unit_length:
            chunk = _unit(chunk)
        sums += is_member[:, begin : begin + _CHUNK_USAGES] @ chunk
    return sums


def _unit(vectors: Float64Array) -> Float64Array:
    """The rows of (row, dim) divided by their lengths; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Float64Array = vectors / np.where(lengths > 0, lengths, 1)
    return unit
