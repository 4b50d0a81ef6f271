"""Scores of structural probes, against computations by their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from analysis.treebanks import floyd_warshall, prim, random_heads

from elmo_cli.analysis.structural_scores import (
    average_ranks,
    depth_scores,
    distance_scores,
    spearman,
)


def ranks_by_counting(values: np.ndarray) -> np.ndarray:
    """The rank of each value among all: those below it, and half of the others equal to it."""
    return np.array([(values < v).sum() + ((values == v).sum() - 1) / 2 for v in values])


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(ranks_by_counting(first), ranks_by_counting(second))[0, 1])


class Scored:
    """Sentences with random predictions of their distances, some words of which are left out.

    Such words are leaves, so that the edges of the tree without them are some of its edges.
    """

    def __init__(self, lengths: list[int], seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.heads = [random_heads(rng, n) for n in lengths]
        self.gold = [floyd_warshall(heads) for heads in self.heads]
        halves = [rng.random((n, n)) for n in lengths]
        self.predicted = []
        self.is_kept = []
        for half, gold, heads in zip(halves, self.gold, self.heads, strict=True):
            noisy = gold + 2 * (half + half.T)
            np.fill_diagonal(noisy, 0)
            self.predicted.append(noisy)
            leaf = [word not in heads for word in range(1, len(heads) + 1)]
            is_kept = ~(np.array(leaf) & (rng.random(len(heads)) < 0.5))
            self.is_kept.append(is_kept)


LENGTHS = [2, 4, 5, 5, 5, 9, 20, 50, 51, 60]


def test_uuas_is_that_of_the_edges_between_words() -> None:
    scored = Scored(LENGTHS)
    n_edges = 0
    n_right = 0
    for heads, predicted, is_kept in zip(
        scored.heads, scored.predicted, scored.is_kept, strict=True
    ):
        kept = np.flatnonzero(is_kept).tolist()
        gold = set()
        for word, head in enumerate(heads):
            if head and word in kept:
                gold.add((min(word, head - 1), max(word, head - 1)))
        n_edges += len(gold)
        n_right += len(gold & prim(predicted, kept))
    scores = distance_scores(scored.predicted, scored.gold, scored.is_kept)
    assert 20 < 100 * n_right / n_edges < 80
    assert scores.uuas == pytest.approx(100 * n_right / n_edges, abs=1e-12)


def test_correlations_are_averaged_over_words_then_sentences_then_lengths() -> None:
    scored = Scored(LENGTHS)
    of_length: dict[int, list[float]] = {}
    for predicted, gold in zip(scored.predicted, scored.gold, strict=True):
        rows = [correlation(*pair) for pair in zip(predicted, gold, strict=True)]
        of_length.setdefault(len(gold), []).append(float(np.mean(rows)))
    means = [np.mean(of_length[length]) for length in (5, 9, 20, 50)]
    scores = distance_scores(scored.predicted, scored.gold, scored.is_kept)
    assert scores.spearman == pytest.approx(np.mean(means), abs=1e-12)


def test_depths_of_words_and_roots() -> None:
    scored = Scored(LENGTHS)
    gold = [paths[heads.index(0)] for paths, heads in zip(scored.gold, scored.heads, strict=True)]
    rng = np.random.default_rng(3)
    predicted = [depths + 4 * rng.random(len(depths)) for depths in gold]
    is_right = []
    for depths, heads, is_kept in zip(predicted, scored.heads, scored.is_kept, strict=True):
        lowest = min(np.flatnonzero(is_kept), key=lambda word: depths[word])
        is_right.append(heads[lowest] == 0)
    of_length: dict[int, list[float]] = {}
    for depths, gold_depths in zip(predicted, gold, strict=True):
        of_length.setdefault(len(depths), []).append(correlation(depths, gold_depths))
    scores = depth_scores(predicted, gold, scored.is_kept)
    assert 30 < scores.root_accuracy < 100
    assert scores.root_accuracy == pytest.approx(100 * np.mean(is_right), abs=1e-12)
    means = [np.mean(of_length[length]) for length in (5, 9, 20, 50)]
    assert scores.spearman == pytest.approx(np.mean(means), abs=1e-12)


def test_a_sentence_of_punctuation_has_a_root_and_no_edges() -> None:
    gold = floyd_warshall([2, 0])
    nothing = np.zeros(2, np.bool_)
    assert distance_scores([gold], [gold], [nothing]).uuas is None
    assert distance_scores([gold], [gold], [nothing]).spearman is None
    scores = depth_scores([np.array([5.0, 1.0])], [np.array([1, 0])], [nothing])
    assert scores.root_accuracy == 100


def test_punctuation_is_no_root() -> None:
    depths = np.array([0.0, 1.0, 2.0])
    is_kept = np.array([False, True, True])
    assert depth_scores([depths], [np.array([1, 0, 1])], [is_kept]).root_accuracy == 100


def test_equal_values_share_a_rank() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(4, size=(3, 2, 9)).astype(np.float32)
    ranks = average_ranks(values)
    for row, ranks_of_row in zip(values.reshape(-1, 9), ranks.reshape(-1, 9), strict=True):
        np.testing.assert_array_equal(ranks_of_row, ranks_by_counting(row))
    others = rng.integers(4, size=(3, 2, 9))
    pairs = zip(values.reshape(-1, 9), others.reshape(-1, 9), strict=True)
    expected = [correlation(first, second) for first, second in pairs]
    np.testing.assert_allclose(spearman(values, others).ravel(), expected, atol=1e-12)


def test_equal_predictions_are_not_correlated() -> None:
    assert spearman(np.ones(4), np.arange(4)) == 0
