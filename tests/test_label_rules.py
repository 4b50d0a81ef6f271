"""Labels that mean that there is none, and labels of spans in other spellings."""

from __future__ import annotations

import math

import pytest

from elmo_cli.label_rules import (
    are_exchanged,
    find_span_spelling,
    is_no_label,
    unknown_labels,
    unknown_warning,
)


@pytest.mark.parametrize("label", ["-", "-1", "_", "", " ", None, math.nan, -1, -1.0])
def test_labels_that_mean_none(label: object) -> None:
    assert is_no_label(label)
    assert is_no_label(label, column="xpos")


@pytest.mark.parametrize(
    "label", ["O", "0", 0, 1, 0.0, -100, False, True, "nan", "--", [], "-LRB-"]
)
def test_labels(label: object) -> None:
    assert not is_no_label(label)


@pytest.mark.parametrize("column", ["feats", "FEATS", "Misc", "deps", "6", "9", "10"])
def test_a_blank_is_a_value_in_columns_that_most_words_lack(column: str) -> None:
    """Names of columns are read in any case."""
    assert not is_no_label("_", column=column)
    assert is_no_label("-", column=column)


@pytest.mark.parametrize(
    ("labels", "texts", "expected"),
    [
        (["A day .", "A dull day .", "So ."], ["pos", "neg", "pos"], True),
        (["pos", "neg", "pos"], ["A day .", "A dull day .", "So ."], False),
        (["positive", "negative"], ["good", "bad"], False),  # as many texts
        (["positive", "negative", "neutral"], ["A long day .", "So it is ."], False),  # longer
        (["1", "2", "3"], ["A day .", "A day .", "So ."], False),  # numbers of rows
        (["the", "dog", "sleeps", "deeply"], ["DT", "NN", "VB", "RB", "NN"], False),
        (["the", "dog", "slept", "deeply"], ["DT", "NN", "DT"], True),
        ([], [], False),
    ],
)
def test_labels_and_texts_that_are_exchanged(
    labels: list[str], texts: list[str], expected: bool
) -> None:
    assert are_exchanged(labels, texts) == expected


SPANS = [("PER", 2), ("LOC", 1), ("", 3), ("ORG", 3), ("", 2)]  # types and lengths; "" for O


def spelled(first: str, inner: str, outside: str) -> list[str]:
    """Labels of spans, where `{}` is the type."""
    labels = []
    for name, length in SPANS:
        if not name:
            labels += [outside] * length
        else:
            labels += [first.format(name), *[inner.format(name)] * (length - 1)]
    return labels


@pytest.mark.parametrize(
    ("first", "inner", "outside", "name"),
    [
        ("B_{}", "I_{}", "O", "with `_` instead of `-`"),
        *(
            (f"B{m}{{}}", f"I{m}{{}}", "O", f"with `{m}` instead of `-`")
            for m in ":./|@#+\u2010\u2013\u2014\u2212"
        ),
        ("{}-B", "{}-I", "O", "with the letter at the end"),
        ("{}_b", "{}_i", "o", "with the letter at the end"),
        ("b-{}", "i-{}", "o", "in lower case"),
        ("b_{}", "i_{}", "O", "in lower case"),
        ("b", "i", "o", "in lower case"),
        ("Begin-{}", "Inside-{}", "O", "with a word instead of a letter"),
        ("begin-{}", "inside-{}", "o", "with a word instead of a letter"),
        ("B_{}", "I_{}", "OTHER", "with `_` instead of `-`"),
        ("I_{}", "I_{}", "O", "with `_` instead of `-`"),
    ],
)
def test_spellings_of_spans(first: str, inner: str, outside: str, name: str) -> None:
    labels = spelled(first, inner, outside)
    spelling = find_span_spelling(labels)
    assert spelling is not None
    assert spelling.name == name
    assert spelling.example == labels[0]
    assert repr(spelling.example) in spelling.problem


@pytest.mark.parametrize("spelling", ["{}_PER", "PER_{}"])
@pytest.mark.parametrize("letters", ["B I E S L U", "Begin Inside End Single", "Beg In Last Unit"])
def test_spans_have_the_letters_or_words_of_any_scheme(letters: str, spelling: str) -> None:
    labels = [spelling.format(letter) for letter in letters.split()]
    assert find_span_spelling([*labels, "O", "O"]) is not None
    assert find_span_spelling([*"bieslu", "o"]) is not None


@pytest.mark.parametrize(
    "labels",
    ["(PER* *) * (LOC) *", "(PER* * *) * * (LOC*)", "* * * (LOC) *", "(PER* * ) *"],
)
def test_brackets_are_spans(labels: str) -> None:
    spelling = find_span_spelling(labels.split())
    assert spelling is not None
    assert spelling.name == "in brackets"


@pytest.mark.parametrize(
    "labels",
    [
        "NN VB IN NN DT",
        "DT JJ NN-B VB",
        "B M E S B E",
        "0 1 2 0 0",
        "I IN IN UH SYM",
        "E_x L_y O O O",  # no span begins
        "A a _x B_y C O",
        "B_X B_X B_Y O",  # no type has two letters, and O is rare
        "",
    ],
)
def test_plain_labels_are_no_spans(labels: str) -> None:
    assert find_span_spelling(labels.split()) is None


def test_unknown_labels_are_counted_and_the_first_is_named() -> None:
    unknown = unknown_labels(["X", "A", "Y", "X"], {"A", "B"})
    assert unknown == ["X", "Y", "X"]
    problem = "labels that are not in train count as errors: 1,200, such as X"
    assert unknown_warning(unknown * 400, "a.conll") == f"a.conll: {problem}"
