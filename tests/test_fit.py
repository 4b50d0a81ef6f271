"""FitPoint: what is warned of, and what is refused."""

from __future__ import annotations

import pytest

from elmo_cli.errors import InputError
from elmo_cli.fit import (
    ANSWERS_AT_TOKENS,
    EXAMPLES_TO_SCORE,
    FIRST_CHARACTERS_KNOWN,
    FIRST_TOKENS_IN_VOCABULARY,
    HELDOUT_IN_TRAIN,
    HELDOUT_IN_VOCABULARY,
    KNOWN_LABELS,
    REPEATED_LABELS,
    TEST_IN_VOCABULARY,
    TEXT_IN_VOCABULARY,
    TOKENS_WITH_WORD_VECTOR,
    TRAIN_IN_VOCABULARY,
    VALIDATION_IN_VOCABULARY,
    FitPoint,
    FitRule,
    fit_facts,
    repeated_in,
)

RULE = FitRule("words that are known", "known", "give other words", warn_below=0.5, warn_above=0.9)


@pytest.mark.parametrize(
    ("n_fitting", "is_warned"), [(0, True), (4, True), (5, False), (9, False), (10, True)]
)
def test_a_fraction_outside_the_limits_is_warned_of(n_fitting: int, is_warned: bool) -> None:
    point = FitPoint(RULE, n_fitting, 10, "xyz")
    assert (point.warning != "") == is_warned
    if is_warned:
        assert "xyz" in point.warning
        assert point.warning.endswith("; give other words")


def test_a_point_is_a_line_for_people() -> None:
    assert FitPoint(RULE, 980, 1000).line == "words that are known: 980 of 1,000 (98.0%)"
    beginning = FitPoint(RULE, 100, 1000, "xyz", is_beginning=True)
    assert beginning.warning.startswith("words that are known: 100 of the first 1,000 (10.0%)")


def test_a_fraction_of_few_things_is_not_warned_of() -> None:
    rule = FitRule("words", "known", "hint", warn_below=0.5, least_counted=20)
    assert FitPoint(rule, 0, 19).warning == ""
    assert FitPoint(rule, 0, 20).warning != ""
    assert FitPoint(RULE, 0, 0).warning == ""


IN_VOCABULARY = (
    TEXT_IN_VOCABULARY,
    TRAIN_IN_VOCABULARY,
    HELDOUT_IN_VOCABULARY,
    VALIDATION_IN_VOCABULARY,
    TEST_IN_VOCABULARY,
)


@pytest.mark.parametrize(
    ("rule", "warned", "fine", "is_required"),  # how many of 100 fit
    [
        *((rule, 59, 60, True) for rule in IN_VOCABULARY),
        (FIRST_TOKENS_IN_VOCABULARY, 59, 60, False),
        (FIRST_CHARACTERS_KNOWN, 49, 50, False),
        (TOKENS_WITH_WORD_VECTOR, 49, 50, False),
        (KNOWN_LABELS, 99, 100, True),
        (REPEATED_LABELS, 59, 60, False),
        (ANSWERS_AT_TOKENS, 94, 95, False),
        (HELDOUT_IN_TRAIN, 11, 10, False),
        (repeated_in("dev"), 11, 10, False),
        (EXAMPLES_TO_SCORE, None, 1, True),
    ],
    ids=lambda value: value.key if isinstance(value, FitRule) else "",
)
def test_the_limits_of_each_rule(
    rule: FitRule, warned: int | None, fine: int, is_required: bool
) -> None:
    assert FitPoint(rule, fine, 100).warning == ""
    if warned is not None:
        assert FitPoint(rule, warned, 100).warning.endswith(f"; {rule.hint}")
    assert rule.is_required == is_required


@pytest.mark.parametrize(
    "rule", [FIRST_TOKENS_IN_VOCABULARY, FIRST_CHARACTERS_KNOWN, REPEATED_LABELS]
)
def test_few_things_are_not_judged(rule: FitRule) -> None:
    assert [bool(FitPoint(rule, 0, n).warning) for n in (19, 20)] == [False, True]


def test_the_example_is_the_first_that_does_not_fit() -> None:
    things = [("a", True), ("b", False), ("c", False), ("d", True)]
    assert FitPoint.count(RULE, things) == FitPoint(RULE, 2, 4, "b")
    assert FitPoint.count(RULE, []) == FitPoint(RULE, 0, 0, "")


def test_only_a_required_point_is_refused() -> None:
    FitPoint(RULE, 0, 10).check("a.txt")
    required = FitRule("words that are known", "known", "give other words", is_required=True)
    FitPoint(required, 1, 10).check("a.txt")
    with pytest.raises(InputError, match="words that are known") as caught:
        FitPoint(required, 0, 10).check("a.txt")
    assert caught.value.where == "a.txt"


def test_json_has_the_counts_of_each_point() -> None:
    facts = fit_facts([FitPoint(RULE, 5, 10, "xyz"), FitPoint(KNOWN_LABELS, 2, 2)])
    assert facts == {
        "known": {"fitting": 5, "of": 10, "example": "xyz"},
        "known_labels": {"fitting": 2, "of": 2, "example": ""},
    }


def test_different_labels_that_are_repeated_are_counted() -> None:
    point = FitPoint.count_repeated(RULE, ["a", "b", "a", "c", "a"])
    assert point == FitPoint(RULE, 1, 3, "b")
