"""Minimal pairs: how often a language model prefers the acceptable version of a sentence.

Source: Warstadt et al. 2020 (BLiMP), section 4: a model is right if the log-likelihood of the
acceptable version is higher.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import BoolArray, Float64Array


@dataclass(frozen=True)
class ScoreValues:
    """A value for each score by which versions are compared; `sum` is that of both directions."""

    forward: float
    backward: float
    sum: float


@dataclass(frozen=True)
class PairAccuracy:
    """The accuracy on some pairs.

    Attributes:
        accuracy: pairs whose good version has the higher score, in percent.
        ties: pairs whose versions have equal scores, which count as wrong.
        n_pairs, n_with_unknown: all pairs, and those with an unknown token.
    """

    accuracy: ScoreValues
    ties: ScoreValues
    n_pairs: int
    n_with_unknown: int


@dataclass(frozen=True)
class MinimalPairs:
    """The accuracy on all pairs and on groups of them.

    Attributes:
        overall: of all pairs, each of which counts once.
        paradigm_mean: mean accuracy of the paradigms, each of which counts once; None without any.
        terms, paradigms: the accuracy on the pairs of each, in the order of their first pair.
    """

    overall: PairAccuracy
    paradigm_mean: ScoreValues | None
    terms: dict[str, PairAccuracy]
    paradigms: dict[str, PairAccuracy]


def compare_pairs(
    good: Float64Array,
    bad: Float64Array,
    *,
    has_unknown: BoolArray,
    paradigms: Sequence[str],
    terms: Sequence[str],
) -> MinimalPairs:
    """Compare the log-likelihoods of the good and the bad versions of sentences.

    Args:
        good, bad: log-likelihoods, (2, pair): forward and backward.
        has_unknown: whether a token of either version is unknown to the model, (pair,).
        paradigms, terms: names of those of each pair; a pair with "" is in no such group.
    Raises:
        ValueError: there are no pairs.
    """
    n_pairs = good.shape[1]
    if n_pairs == 0:
        raise ValueError("there are no pairs to compare")
    difference = _with_sum(good) - _with_sum(bad)  # (score, pair)
    is_right = difference > 0
    is_tie = difference == 0

    def accuracy_of(chosen: BoolArray) -> PairAccuracy:
        percent_right = 100 * is_right[:, chosen].mean(axis=1)  # (score,)
        n_ties = is_tie[:, chosen].sum(axis=1)  # (score,)
        return PairAccuracy(
            accuracy=_values(percent_right),
            ties=_values(n_ties),
            n_pairs=int(chosen.sum()),
            n_with_unknown=int(has_unknown[chosen].sum()),
        )

    by_paradigm = {name: accuracy_of(members) for name, members in _groups(paradigms).items()}
    by_term = {name: accuracy_of(members) for name, members in _groups(terms).items()}
    return MinimalPairs(
        overall=accuracy_of(np.ones(n_pairs, np.bool_)),
        paradigm_mean=_mean([group.accuracy for group in by_paradigm.values()]),
        terms=by_term,
        paradigms=by_paradigm,
    )


def _with_sum(log_likelihoods: Float64Array) -> Float64Array:
    """Append the sum of both directions: (2, pair) -> (score, pair)."""
    return np.vstack([log_likelihoods, log_likelihoods.sum(0)])


def _groups(names: Sequence[str]) -> dict[str, BoolArray]:
    """Return, for each name, whether each pair has it, (pair,); "" is no name."""
    name_of_pair = np.asarray(names)
    groups = {}
    for name in dict.fromkeys(names):
        if name:
            groups[name] = name_of_pair == name
    return groups


def _values(scores: Float64Array) -> ScoreValues:
    forward, backward, total = scores.tolist()
    return ScoreValues(forward=forward, backward=backward, sum=total)


def _mean(values: Sequence[ScoreValues]) -> ScoreValues | None:
    if not values:
        return None
    return ScoreValues(
        forward=float(np.mean([value.forward for value in values])),
        backward=float(np.mean([value.backward for value in values])),
        sum=float(np.mean([value.sum for value in values])),
    )
