"""PRT, APD and their p-values, against computations of their own."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from elmo_cli.analysis import change
from elmo_cli.analysis.change import Change, Difference, measure_change

DIM = 6


def usages(n: int, seed: int, shift: float = 0.0) -> np.ndarray:
    """Vectors of different lengths around one point; `shift` moves the first half of the axes."""
    rng = np.random.default_rng(seed)
    vectors = 0.5 + rng.standard_normal((n, DIM))
    vectors[:, : DIM // 2] += shift
    return (vectors * rng.uniform(0.5, 3, (n, 1))).astype(np.float32)


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.sqrt((x @ x) * (y @ y)))


def plain_prt(first: np.ndarray, second: np.ndarray) -> float:
    """1 - cos(mean, mean)."""
    return 1 - cosine(first.astype(float).mean(axis=0), second.astype(float).mean(axis=0))


def plain_apd(first: np.ndarray, second: np.ndarray) -> float:
    """The mean of 1 - cos(x, y) over all pairs."""
    distances = [1 - cosine(x, y) for x in first.astype(float) for y in second.astype(float)]
    return float(np.mean(distances))


PLAIN = {"prt": plain_prt, "apd": plain_apd}


def difference(found: Change, measure: str) -> Difference:
    value = {"prt": found.prt, "apd": found.apd}[measure]
    assert value is not None
    return value


def p_value(measure: str, first: np.ndarray, second: np.ndarray, n: int, seed: int = 0) -> float:
    found = measure_change(first, second, measures=[measure], n_permutations=n, seed=seed)
    p = difference(found, measure).p
    assert p is not None
    return p


class TestMeasures:
    @pytest.mark.parametrize("measure", PLAIN)
    @pytest.mark.parametrize(("n_first", "n_second"), [(3, 3), (5, 17), (40, 7)])
    def test_equal_the_plain_computation(self, measure: str, n_first: int, n_second: int) -> None:
        first = usages(n_first, seed=1)
        second = usages(n_second, seed=2, shift=0.7)
        found = measure_change(first, second)
        expected = PLAIN[measure](first, second)
        assert difference(found, measure).value == pytest.approx(expected, abs=1e-12)
        assert difference(found, measure).p is None
        assert (found.n_first, found.n_second) == (n_first, n_second)

    def test_a_side_with_fewer_than_three_usages_has_no_value(self) -> None:
        for n_first, n_second in ((2, 9), (9, 2), (0, 9), (1, 1)):
            found = measure_change(usages(n_first, 1), usages(n_second, 2), n_permutations=9)
            assert found == Change(n_first=n_first, n_second=n_second)

    def test_only_what_is_asked_for_is_measured(self) -> None:
        found = measure_change(usages(4, 1), usages(4, 2), measures=["apd"])
        assert found.prt is None
        assert found.apd is not None

    def test_zero_vectors_have_the_cosine_zero(self) -> None:
        zeros = np.zeros((3, DIM), np.float32)
        found = measure_change(zeros, usages(3, 1))
        assert difference(found, "prt").value == 1
        assert difference(found, "apd").value == 1

    def test_arrays_that_do_not_fit_are_refused(self) -> None:
        for second in (np.zeros((3, DIM + 1), np.float32), np.zeros(DIM, np.float32)):
            with pytest.raises(ValueError, match="of the same dim"):
                measure_change(usages(3, 1), second)


@pytest.mark.parametrize("measure", PLAIN)
class TestPermutations:
    def test_p_values_of_two_halves_of_one_set_are_uniform(self, measure: str) -> None:
        """By the Kolmogorov-Smirnov statistic, whose critical value at 1 % is 1.63 / sqrt(n)."""
        n_trials = 200
        found = []
        for trial in range(n_trials):
            pooled = usages(31, seed=trial)
            found.append(p_value(measure, pooled[:12], pooled[12:], n=99, seed=trial))
        ordered = np.sort(found)
        above = np.arange(1, n_trials + 1) / n_trials - ordered
        below = ordered - np.arange(n_trials) / n_trials
        assert max(above.max(), below.max()) < 1.63 / np.sqrt(n_trials)

    def test_p_is_the_fraction_of_all_divisions(self, measure: str) -> None:
        """The expected fraction is that of all divisions of 3 + 4 usages, one of which is real."""
        pooled = usages(7, seed=5)
        values = []
        for chosen in combinations(range(7), 3):
            others = [position for position in range(7) if position not in chosen]
            values.append(PLAIN[measure](pooled[list(chosen)], pooled[others]))
        expected = np.mean(np.array(values) >= values[0] - 1e-12)
        assert 0.1 < expected < 0.9
        found = p_value(measure, pooled[:3], pooled[3:], n=4000)
        assert found == pytest.approx(expected, abs=0.03)

    def test_an_exchanged_word_has_the_smallest_p(self, measure: str) -> None:
        """The usages of the second corpus are those of another word; p is then 1 / (N + 1)."""
        first = usages(20, seed=1)
        assert p_value(measure, first, usages(30, seed=2, shift=4), n=199) == 1 / 200
        assert p_value(measure, first, usages(30, seed=2), n=199) > 0.05

    def test_equal_usages_have_the_p_one(self, measure: str) -> None:
        """All divisions give the same value, up to the order in which it is summed."""
        equal = np.repeat(usages(1, seed=3), 50, axis=0)
        assert p_value(measure, equal[:20], equal[20:], n=99) == 1

    def test_chunks_change_nothing(self, measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
        first = usages(23, seed=1)
        second = usages(8, seed=2, shift=0.3)
        whole = measure_change(first, second, n_permutations=50)
        monkeypatch.setattr(change, "_CHUNK_USAGES", 5)
        monkeypatch.setattr(change, "_CHUNK_DIVISIONS", 7)
        chunked = measure_change(first, second, n_permutations=50)
        expected = difference(whole, measure)
        assert difference(chunked, measure).p == expected.p
        assert difference(chunked, measure).value == pytest.approx(expected.value, abs=1e-12)
        monkeypatch.setattr(change, "_CHUNK_NUMBERS", 1)
        assert difference(measure_change(first, second, n_permutations=50), measure).p == expected.p
