"""Scores of a structural probe: UUAS, root accuracy and Spearman correlations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_cli.analysis.trees import spanning_tree
from elmo_cli.arrays import AnyArray, BoolArray, Float64Array

SPEARMAN_LENGTHS = range(5, 51)  # of the sentences whose correlations are averaged


@dataclass(frozen=True)
class DistanceScores:
    """Scores of predicted distances; None if no sentence is long enough."""

    uuas: float | None  # percentage of the edges of the trees, without punctuation
    spearman: float | None


@dataclass(frozen=True)
class DepthScores:
    """Scores of predicted depths; None if no sentence is long enough."""

    root_accuracy: float  # percentage of sentences
    spearman: float | None


StructuralScores = DistanceScores | DepthScores


def distance_scores(
    predicted: Sequence[AnyArray], gold: Sequence[AnyArray], is_kept: Sequence[BoolArray]
) -> DistanceScores:
    """Score the distances of some sentences, each (word, word).

    Args:
        is_kept: (word,) of each sentence: which words count for UUAS, all but punctuation.

    Source: Hewitt and Manning 2019, section 4.2; the authors' program, `reporter.py`.
    """
    return DistanceScores(
        uuas=uuas(predicted, gold, is_kept), spearman=mean_spearman(predicted, gold)
    )


def depth_scores(
    predicted: Sequence[AnyArray], gold: Sequence[AnyArray], is_kept: Sequence[BoolArray]
) -> DepthScores:
    """Score the depths of some sentences, each (word,).

    Args:
        is_kept: (word,) of each sentence: which words may be the root, all but punctuation.

    Source: Hewitt and Manning 2019, section 4.2; the authors' program, `reporter.py`.
    """
    return DepthScores(
        root_accuracy=root_accuracy(predicted, gold, is_kept),
        spearman=mean_spearman(predicted, gold),
    )


def uuas(
    predicted: Sequence[AnyArray], gold: Sequence[AnyArray], is_kept: Sequence[BoolArray]
) -> float | None:
    """Return the percentage of edges that the spanning trees of both kinds of distances share.

    The edges of all sentences are counted together. None if there are none.
    """
    n_edges = 0
    n_shared = 0
    for distances, gold_distances, kept_words in zip(predicted, gold, is_kept, strict=True):
        gold_edges = _edges(gold_distances, kept_words)
        edges = _edges(distances, kept_words)
        n_edges += len(gold_edges)
        n_shared += len(gold_edges & edges)
    return 100 * n_shared / n_edges if n_edges else None


def _edges(distances: AnyArray, is_kept: BoolArray) -> set[tuple[int, int]]:
    """Return the edges of the spanning tree of a sentence, as pairs of indices of words."""
    return set(map(tuple, spanning_tree(distances, is_kept).tolist()))


def root_accuracy(
    predicted: Sequence[AnyArray], gold: Sequence[AnyArray], is_kept: Sequence[BoolArray]
) -> float:
    """Return the percentage of sentences whose word of the lowest predicted depth is the root.

    In a sentence of punctuation alone, each word may be the root.
    """
    is_right = []
    for depths, gold_depths, kept_words in zip(predicted, gold, is_kept, strict=True):
        candidates = kept_words if kept_words.any() else np.ones_like(kept_words)
        root = np.where(candidates, depths, np.inf).argmin()
        is_right.append(gold_depths[root] == 0)
    return 100 * float(np.mean(is_right))


def mean_spearman(predicted: Sequence[AnyArray], gold: Sequence[AnyArray]) -> float | None:
    """Return the mean of `spearman_by_length` over `SPEARMAN_LENGTHS`; None without sentences."""
    means = spearman_by_length(predicted, gold)
    averaged = [mean for length, mean in means.items() if length in SPEARMAN_LENGTHS]
    return float(np.mean(averaged)) if averaged else None


def spearman_by_length(predicted: Sequence[AnyArray], gold: Sequence[AnyArray]) -> dict[int, float]:
    """Return the mean correlation of sentences of each length, in words with punctuation.

    The correlation of a sentence is that of its depths, or the mean over its words of that of the
    distances to all words, which include the word itself.
    """
    of_length: dict[int, list[Float64Array]] = defaultdict(list)
    for values, gold_values in zip(predicted, gold, strict=True):
        correlations = np.atleast_1d(spearman(values, gold_values))
        of_length[len(values)].append(correlations)
    means = {}
    for length in sorted(of_length):
        means[length] = float(np.mean(np.concatenate(of_length[length])))
    return means


def spearman(first: AnyArray, second: AnyArray) -> Float64Array:
    """Return Spearman's rank correlations along the last axis; 0 where all values are equal."""
    first_ranks = average_ranks(first)
    second_ranks = average_ranks(second)
    first_ranks -= first_ranks.mean(-1, keepdims=True)
    second_ranks -= second_ranks.mean(-1, keepdims=True)
    covariance = (first_ranks * second_ranks).sum(-1)
    scale = np.sqrt((first_ranks**2).sum(-1) * (second_ranks**2).sum(-1))
    correlations: Float64Array = covariance / np.where(scale > 0, scale, 1)
    return correlations


def average_ranks(values: AnyArray) -> Float64Array:
    """Return the ranks of values along the last axis, from 0; equal values share their mean."""
    ranks = np.empty(values.shape, np.float64)
    rows = values.reshape(-1, values.shape[-1])
    for row, row_ranks in zip(rows, ranks.reshape(rows.shape), strict=True):
        _, value_numbers, counts = np.unique(row, return_inverse=True, return_counts=True)
        first_ranks = np.cumsum(counts) - counts  # of each distinct value
        mean_ranks = first_ranks + (counts - 1) / 2
        row_ranks[:] = mean_ranks[value_numbers]
    return ranks
