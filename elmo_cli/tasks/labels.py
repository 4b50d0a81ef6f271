"""Labels: schemes such as BIO, the spans that they describe, and scores of labels and spans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from elmo_cli.tasks.task import Scores

Labels = tuple[str, ...]  # of the tokens of a sentence
OUTSIDE = "O"


class Scheme(NamedTuple):
    """The letters of the first, inner and last token of a span, and of the only token of one."""

    first: str
    inner: str
    last: str
    only: str


SCHEMES = {
    "BIO": Scheme(first="B", inner="I", last="I", only="B"),
    "BIOES": Scheme(first="B", inner="I", last="E", only="S"),
    "BIOUL": Scheme(first="B", inner="I", last="L", only="U"),
}
_SPAN_LABEL = re.compile(r"O|[BIESLU](-.+)?")
_TYPED_LABEL = re.compile(r"[BI]-.+")
_CONTINUING = "IEL"  # letters within a span
_CLOSED = "OESLU"  # letters after which no span is open


class Span(NamedTuple):
    """A typed span of tokens, `end` exclusive; the type is "" for labels without types."""

    start: int
    end: int
    type: str


def is_span_label(label: str) -> bool:
    """Whether a label is O, or a letter of a scheme, with or without a type."""
    return _SPAN_LABEL.fullmatch(label) is not None


def find_scheme(labels: Collection[str]) -> str | None:
    """Detect the scheme of labels, BIO also for IOB1; None for plain labels.

    Plain labels, such as parts of speech, contain no B-TYPE or I-TYPE.
    """
    has_typed = any(_TYPED_LABEL.fullmatch(label) for label in labels)
    if not has_typed and not all(is_span_label(label) for label in labels):
        return None
    letters = {label.partition("-")[0] for label in labels}
    if letters & {"E", "S"}:
        return "BIOES"
    if letters & {"L", "U"}:
        return "BIOUL"
    return "BIO"


def spans_of(labels: Sequence[str]) -> list[Span]:
    """Return the spans of a sentence in order.

    As in conlleval, a label that continues a span starts a new one if none of its type is open.
    """
    spans: list[Span] = []
    is_open = False
    for i, label in enumerate(labels):
        letter, _, span_type = label.partition("-")
        if is_open and letter in _CONTINUING and span_type == spans[-1].type:
            spans[-1] = spans[-1]._replace(end=i + 1)
        elif letter != OUTSIDE:
            spans.append(Span(i, i + 1, span_type))
        is_open = letter not in _CLOSED
    return spans


def convert_labels(labels: Sequence[str], scheme: str | None) -> tuple[str, ...]:
    """Return labels of spans in another scheme; plain labels (`scheme=None`) stay as they are."""
    if scheme is None:
        return tuple(labels)
    letters = SCHEMES[scheme]
    converted = [OUTSIDE] * len(labels)
    for span in spans_of(labels):
        n_tokens = span.end - span.start
        of_tokens = [letters.only]
        if n_tokens > 1:
            of_tokens = [letters.first, *[letters.inner] * (n_tokens - 2), letters.last]
        converted[span.start : span.end] = [_label(letter, span.type) for letter in of_tokens]
    return tuple(converted)


def _label(letter: str, span_type: str) -> str:
    return f"{letter}-{span_type}" if span_type else letter


def labels_of_types(types: Iterable[str], scheme: str) -> list[str]:
    """Return all labels of a scheme for spans of these types, O first."""
    labels = [OUTSIDE]
    for span_type in types:
        for letter in dict.fromkeys(SCHEMES[scheme]):
            labels.append(_label(letter, span_type))
    return labels


def allowed_transitions(labels: Sequence[str], scheme: str) -> list[list[bool]]:
    """Return which labels may follow each other in a scheme such as "BIO".

    There is a row per label and a column per next label; the last is the sentence boundary.
    """
    names = [*labels, OUTSIDE]
    return [[_may_follow(before, after, scheme) for after in names] for before in names]


def _may_follow(before: str, after: str, scheme: str) -> bool:
    letter, _, span_type = before.partition("-")
    next_letter, _, next_type = after.partition("-")
    is_open = letter not in _CLOSED
    if next_letter in _CONTINUING:
        return is_open and span_type == next_type
    return scheme == "BIO" or not is_open


def score_spans(
    gold: Iterable[Sequence[Span]], predicted: Iterable[Sequence[Span]], note: str = ""
) -> Scores:
    """Return micro-averaged F1: a span is correct if its boundaries and its type are.

    Source: conlleval of CoNLL-2000 to CoNLL-2003.
    """
    n_correct = Counter[str]()  # by type
    n_predicted = Counter[str]()
    n_gold = Counter[str]()
    for gold_spans, predicted_spans in zip(gold, predicted, strict=True):
        correct_spans = set(gold_spans) & set(predicted_spans)
        n_correct.update(span.type for span in correct_spans)
        n_predicted.update(span.type for span in predicted_spans)
        n_gold.update(span.type for span in gold_spans)
    by_type = {}
    for name in sorted(n_predicted.keys() | n_gold.keys()):
        by_type[name or "_"] = {
            **_f1(n_correct[name], n_predicted[name], n_gold[name]),
            "predicted": n_predicted[name],
            "gold": n_gold[name],
        }
    values = _f1(n_correct.total(), n_predicted.total(), n_gold.total())
    return Scores("f1", values, by_type, note)


def _f1(n_correct: int, n_predicted: int, n_gold: int) -> dict[str, float]:
    return {
        "f1": 200 * n_correct / max(n_predicted + n_gold, 1),
        "precision": 100 * n_correct / max(n_predicted, 1),
        "recall": 100 * n_correct / max(n_gold, 1),
    }


def score_labels(gold: Iterable[str], predicted: Iterable[str]) -> Scores:
    """Return the accuracy of labels, and precision, recall and F1 of each label."""
    gold_spans = [[Span(0, 1, label)] for label in gold]
    predicted_spans = [[Span(0, 1, label)] for label in predicted]
    scores = score_spans(gold_spans, predicted_spans)
    return Scores("accuracy", {"accuracy": scores.values["f1"]}, scores.by_type)
