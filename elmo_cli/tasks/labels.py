"""Labels: schemes such as BIO, the spans that they describe, and scores of labels and spans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from elmo_cli.tasks.task import Scores

Labels = tuple[str, ...]  # of the tokens of a sentence
OUTSIDE = "O"
# Name -> letters of the first, inner and last token of a span, and of a single-token span.
SCHEMES = {"BIO": "BIIB", "BIOES": "BIES", "BIOUL": "BILU"}
_SPAN_LABEL = re.compile(r"O|[BIESLU](-.+)?")
_TYPED_LABEL = re.compile(r"[BI]-.+")
_CONTINUING, _CLOSED = "IEL", "OESLU"  # letters within a span, and letters that end one


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
    if not any(map(_TYPED_LABEL.fullmatch, labels)) and not all(map(is_span_label, labels)):
        return None
    letters = {label.partition("-")[0] for label in labels}
    if letters & {"E", "S"}:
        return "BIOES"
    return "BIOUL" if letters & {"L", "U"} else "BIO"


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
    first, inner, last, only = tuple(SCHEMES[scheme])
    found = [OUTSIDE] * len(labels)
    for start, end, span_type in spans_of(labels):
        n = end - start
        letters = [only] if n == 1 else [first, *[inner] * (n - 2), last]
        found[start:end] = [f"{letter}-{span_type}" if span_type else letter for letter in letters]
    return tuple(found)


def labels_of_types(types: Iterable[str], scheme: str) -> list[str]:
    """Return all labels of a scheme for spans of these types, O first."""
    letters = dict.fromkeys(SCHEMES[scheme])
    return [OUTSIDE, *(f"{letter}-{t}" if t else letter for t in types for letter in letters)]


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
    counts = [Counter[str]() for _ in range(3)]
    for ours, theirs in zip(gold, predicted, strict=True):
        for counter, spans in zip(counts, (set(ours) & set(theirs), theirs, ours), strict=True):
            counter.update(span.type for span in spans)
    by_type = {}
    for name in sorted(counts[1].keys() | counts[2].keys()):
        correct, found, true = (counter[name] for counter in counts)
        by_type[name or "_"] = {**_f1(correct, found, true), "predicted": found, "gold": true}
    values = _f1(*(counter.total() for counter in counts))
    return Scores("f1", values, by_type, note)


def _f1(n_correct: int, n_predicted: int, n_gold: int) -> dict[str, float]:
    return {
        "f1": 200 * n_correct / max(n_predicted + n_gold, 1),
        "precision": 100 * n_correct / max(n_predicted, 1),
        "recall": 100 * n_correct / max(n_gold, 1),
    }


def score_labels(gold: Iterable[str], predicted: Iterable[str]) -> Scores:
    """Return the accuracy of labels, and precision, recall and F1 of each label."""
    ours, theirs = ([[Span(0, 1, label)] for label in labels] for labels in (gold, predicted))
    scores = score_spans(ours, theirs)
    return Scores("accuracy", {"accuracy": scores.values["f1"]}, scores.by_type)
