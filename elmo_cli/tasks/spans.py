"""Spans: conversion from and to BIO, BIOES and BIOUL labels, and F1 scores."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from elmo_cli.tasks.task import Scores

OUTSIDE = "O"
# Name -> letters of the first, inner and last token of a span, and of a single-token span.
SCHEMES = {"BIO": "BIIB", "BIOES": "BIES", "BIOUL": "BILU"}
_SPAN_LABEL = re.compile(r"O|[BIESLU](-.+)?")
_TYPED_LABEL = re.compile(r"[BI]-.+")
_OPEN, _CONTINUES, _CLOSES = "BI", "IEL", "ESLU"  # letters


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
    start, span_type = None, ""
    for i, label in enumerate([*labels, OUTSIDE]):
        letter, _, found = label.partition("-")
        if start is not None and (letter not in _CONTINUES or found != span_type):
            spans.append(Span(start, i, span_type))
            start = None
        if start is None and letter != OUTSIDE:
            start, span_type = i, found
        if start is not None and letter in _CLOSES:
            spans.append(Span(start, i + 1, span_type))
            start = None
    return spans


def labels_of(spans: Iterable[Span], n_tokens: int, scheme: str) -> list[str]:
    """Return one label per token for spans that do not overlap."""
    first, inner, last, only = tuple(SCHEMES[scheme])
    labels = [OUTSIDE] * n_tokens
    for start, end, span_type in spans:
        n = end - start
        letters = [only] if n == 1 else [first, *[inner] * (n - 2), last]
        labels[start:end] = [f"{letter}-{span_type}" if span_type else letter for letter in letters]
    return labels


def labels_of_types(types: Iterable[str], scheme: str) -> list[str]:
    """Return all labels of a scheme for spans of these types, O first."""
    letters = dict.fromkeys(SCHEMES[scheme])
    return [OUTSIDE, *(f"{letter}-{t}" if t else letter for t in types for letter in letters)]


def may_follow(before: str, after: str, scheme: str) -> bool:
    """Whether a label may follow another; sentence boundaries count as O."""
    (letter, _, span_type), (next_letter, _, next_type) = (
        before.partition("-"),
        after.partition("-"),
    )
    if next_letter in _CONTINUES:
        return letter in _OPEN and span_type == next_type
    return scheme == "BIO" or letter not in _OPEN


def score_spans(
    gold: Iterable[Sequence[Span]], predicted: Iterable[Sequence[Span]], note: str = ""
) -> Scores:
    """Return micro-averaged F1: a span is correct if its boundaries and its type are.

    Source: conlleval of CoNLL-2000 to CoNLL-2003.
    """
    n_gold, n_predicted, n_correct = Counter[str](), Counter[str](), Counter[str]()
    for ours, theirs in zip(gold, predicted, strict=True):
        n_gold.update(span.type for span in ours)
        n_predicted.update(span.type for span in theirs)
        n_correct.update(span.type for span in set(ours) & set(theirs))
    values = _f1(n_correct.total(), n_predicted.total(), n_gold.total())
    return Scores("f1", values, f1_by_type(n_correct, n_predicted, n_gold), note)


def f1_by_type(
    n_correct: Counter[str], n_predicted: Counter[str], n_gold: Counter[str]
) -> dict[str, dict[str, float]]:
    """Return F1, precision, recall and counts of each type; "_" names the type ""."""
    return {
        name or "_": {
            **_f1(n_correct[name], n_predicted[name], n_gold[name]),
            "predicted": n_predicted[name],
            "gold": n_gold[name],
        }
        for name in sorted(n_gold.keys() | n_predicted.keys())
    }


def _f1(n_correct: int, n_predicted: int, n_gold: int) -> dict[str, float]:
    return {
        "f1": 200 * n_correct / max(n_predicted + n_gold, 1),
        "precision": 100 * n_correct / max(n_predicted, 1),
        "recall": 100 * n_correct / max(n_gold, 1),
    }
