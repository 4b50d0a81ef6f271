"""Labels, their spans, transitions and scores, and a CRF over them."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest
import torch
import torchcrf
from seqeval import metrics

from elmo_cli.tasks.labels import (
    Span,
    allowed_transitions,
    convert_labels,
    find_scheme,
    labels_of_types,
    score_labels,
    score_spans,
    spans_of,
)
from elmo_cli.tasks.layers import CRF, viterbi


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        ("O O", []),
        ("B-X I-X O B-Y", [(0, 2, "X"), (3, 4, "Y")]),
        ("B-X I-Y I-Y", [(0, 1, "X"), (1, 3, "Y")]),  # conlleval: another type starts a span
        ("I-X I-X O I-X B-X", [(0, 2, "X"), (3, 4, "X"), (4, 5, "X")]),  # IOB1
        ("B-X E-X S-X S-Y", [(0, 2, "X"), (2, 3, "X"), (3, 4, "Y")]),
        ("B-X I-X L-X U-X O", [(0, 3, "X"), (3, 4, "X")]),
        ("B-X L-X L-X I-X", [(0, 2, "X"), (2, 3, "X"), (3, 4, "X")]),
        ("B-A-B I-A-B", [(0, 2, "A-B")]),
        ("B I O B", [(0, 2, ""), (3, 4, "")]),
    ],
)
def test_spans_of_labels(labels: str, spans: list[Span]) -> None:
    assert spans_of(labels.split()) == spans


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "BIOUL"])
def test_labels_may_follow_each_other_where_they_are_those_of_spans(scheme: str) -> None:
    names = labels_of_types("XY", scheme)
    allowed = allowed_transitions(names, scheme)
    n_valid = 0
    for labels in product(names, repeat=3):
        is_valid = convert_labels(labels, scheme) == labels
        steps = pairwise([-1, *map(names.index, labels), -1])
        assert all(allowed[a][b] for a, b in steps) == is_valid, labels
        n_valid += is_valid
    assert n_valid == 41  # of n tokens: a(n) = 4 a(n - 1) - a(n - 2), of one 3, of two 11


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("O B-X I-X", "BIO"),
        ("O I-X", "BIO"),
        ("O B-X E-X S-X", "BIOES"),
        ("O S-X", "BIOES"),
        ("O B-X L-X U-Y", "BIOUL"),
        ("B-X L-X", "BIOUL"),
        ("B I O", "BIO"),
        ("O B-X PERSON", "BIO"),  # refused later, rather than taken for parts of speech
        ("NN -LRB- O", None),
        ("NOUN VERB X", None),
    ],
)
def test_schemes_are_recognized(labels: str, scheme: str | None) -> None:
    assert find_scheme(labels.split()) == scheme


def test_scores_of_labels() -> None:
    scores = score_labels(["a", "a", "b", "d"], ["a", "b", "b", "c"])
    assert scores.values == {"accuracy": 50}
    expected = {"f1": 200 / 3, "precision": 100, "recall": 50, "predicted": 1, "gold": 2}
    assert scores.by_type["a"] == pytest.approx(expected)
    assert [scores.by_type[label]["gold"] for label in "abcd"] == [2, 1, 0, 1]
    assert list(score_spans([[Span(0, 2, "")]], [[Span(0, 1, "X")]]).by_type) == ["_", "X"]
    assert score_spans([[]], [[]]).values == {"f1": 0, "precision": 0, "recall": 0}


@pytest.mark.parametrize("letters", ["BI", "BIES"])
def test_scores_equal_those_of_seqeval(letters: str) -> None:
    chosen = random.Random(0)
    names = ["O", "O", *(f"{letter}-{name}" for letter in letters for name in "XYZ")]
    sizes = (1, 2, 5, 9, 30, 100)
    gold = [chosen.choices(names, k=n) for n in sizes]
    other = [chosen.choices(names, k=n) for n in sizes]
    predicted = []
    for right_labels, other_labels in zip(gold, other, strict=True):
        pairs = zip(right_labels, other_labels, strict=True)
        predicted.append([wrong if chosen.random() < 0.3 else right for right, wrong in pairs])
    scores = score_spans(map(spans_of, gold), map(spans_of, predicted))
    report = metrics.classification_report(gold, predicted, output_dict=True)
    assert scores.values == pytest.approx(as_percent(report["micro avg"]))
    for name in "XYZ":
        score = scores.by_type[name]
        assert score["gold"] == report[name]["support"]
        assert {key: score[key] for key in scores.values} == pytest.approx(as_percent(report[name]))


def as_percent(row: dict[str, float]) -> dict[str, float]:
    names = {"f1": "f1-score", "precision": "precision", "recall": "recall"}
    return {ours: 100 * row[theirs] for ours, theirs in names.items()}


LENGTHS = [4, 1, 3]
MASK = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


def random_crf(scheme: str | None) -> tuple[CRF, torch.Tensor]:
    """A CRF for two types of spans, or for five plain labels, and scores of labels."""
    torch.manual_seed(1)
    if scheme is None:
        allowed = [[True] * 6] * 6
    else:
        allowed = allowed_transitions(labels_of_types("XY", scheme), scheme)
    crf = CRF(allowed).double()
    torch.nn.init.normal_(crf.weights)
    return crf, torch.randn(len(LENGTHS), max(LENGTHS), len(allowed) - 1, dtype=torch.double)


@pytest.mark.parametrize("scheme", ["BIO", "BIOUL", None])
def test_equals_pytorch_crf(scheme: str | None) -> None:
    crf, scores = random_crf(scheme)
    theirs = torchcrf.CRF(scores.shape[2], batch_first=True).double()
    with torch.no_grad():
        theirs.transitions.copy_(crf.transitions[:-1, :-1])
        theirs.start_transitions.copy_(crf.transitions[-1, :-1])
        theirs.end_transitions.copy_(crf.transitions[:-1, -1])
    assert viterbi(scores, MASK, crf.transitions) == theirs.decode(scores, MASK)
    labels = torch.randint(scores.shape[2], MASK.shape)
    expected = theirs(scores, labels, MASK, reduction="none")
    assert torch.allclose(crf.log_likelihood(scores, labels, MASK), expected)
