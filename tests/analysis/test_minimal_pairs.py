"""Accuracy on minimal pairs, against values by hand and a slow count."""

from __future__ import annotations

import numpy as np
import pytest

from elmo_cli.analysis.minimal_pairs import PairAccuracy, ScoreValues, compare_pairs

# Differences good - bad: forward 1, -1, 0, 2; backward -2, 3, 0, 0; so the sums -1, 2, 0, 2.
GOOD = np.array([[-1.0, -3.0, -5.0, -2.0], [-4.0, -1.0, -6.0, -1.0]])
BAD = np.array([[-2.0, -2.0, -5.0, -4.0], [-2.0, -4.0, -6.0, -1.0]])
UNKNOWN = np.array([True, False, False, True])


def test_accuracies_by_hand() -> None:
    """Ties are wrong and counted; a paradigm counts once in the mean, whatever its size."""
    found = compare_pairs(
        GOOD,
        BAD,
        has_unknown=UNKNOWN,
        paradigms=["b", "b", "b", "a"],
        terms=["t", "", "t", "t"],
    )
    assert found.overall == PairAccuracy(
        accuracy=ScoreValues(forward=50, backward=25, sum=50),
        ties=ScoreValues(forward=1, backward=2, sum=1),
        n_pairs=4,
        n_with_unknown=2,
    )
    assert list(found.paradigms) == ["b", "a"]
    assert found.paradigms["b"] == PairAccuracy(
        accuracy=ScoreValues(
            forward=pytest.approx(100 / 3),
            backward=pytest.approx(100 / 3),
            sum=pytest.approx(100 / 3),
        ),
        ties=ScoreValues(forward=1, backward=1, sum=1),
        n_pairs=3,
        n_with_unknown=1,
    )
    assert found.paradigms["a"].accuracy == ScoreValues(forward=100, backward=0, sum=100)
    assert found.paradigm_mean == ScoreValues(
        forward=pytest.approx(200 / 3), backward=pytest.approx(50 / 3), sum=pytest.approx(200 / 3)
    )
    assert list(found.terms) == ["t"]  # the second pair has none
    assert found.terms["t"].n_pairs == 3
    assert found.terms["t"].accuracy.forward == pytest.approx(200 / 3)


def test_pairs_without_paradigms_have_no_mean_over_them() -> None:
    found = compare_pairs(GOOD, BAD, has_unknown=UNKNOWN, paradigms=[""] * 4, terms=[""] * 4)
    assert found.paradigm_mean is None
    assert (found.terms, found.paradigms) == ({}, {})


def test_no_pairs_are_refused() -> None:
    nothing = np.zeros((2, 0))
    with pytest.raises(ValueError, match="no pairs"):
        compare_pairs(nothing, nothing, has_unknown=np.zeros(0, bool), paradigms=[], terms=[])


def test_many_pairs_equal_a_slow_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    good, bad = rng.integers(-4, 0, (2, 2, 200)).astype(float)
    names = [str(name) for name in rng.integers(0, 5, 200)]
    found = compare_pairs(good, bad, has_unknown=good[0] < -2, paradigms=names, terms=names)
    for name, group in found.terms.items():
        members = [k for k in range(200) if names[k] == name]
        wins = sum(good[0, k] + good[1, k] > bad[0, k] + bad[1, k] for k in members)
        ties = sum(good[1, k] == bad[1, k] for k in members)
        assert group.accuracy.sum == pytest.approx(100 * wins / len(members))
        assert group.ties.backward == ties
        assert group.n_with_unknown == sum(good[0, k] < -2 for k in members)
    assert found.terms == found.paradigms
    assert found.paradigm_mean is not None
    means = [group.accuracy.backward for group in found.paradigms.values()]
    assert found.paradigm_mean.backward == pytest.approx(sum(means) / len(means))
