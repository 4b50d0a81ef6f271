"""Rules for labels: which mean that there is none, are unknown, misspell spans, or are texts."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

_NO_LABEL = (
    "",
    "-",  # where annotators disagree
    "-1",  # in hidden test data
    "_",  # in CoNLL-U
)
# Columns of CoNLL-U in which `_` is a value: a word without features, without enhanced edges, ….
_COLUMNS_WITH_BLANKS = ("feats", "deps", "misc", "6", "9", "10")  # by name and by number
_MARK = r"[-_:./|@#+\u2010-\u2015\u2212]"  # between the letter and the type; dashes of Unicode too
_LETTER = r"B|I|E|S|L|U|Begin|Beg|Inside|In|End|Single|Last|Unit"
_PREFIXED = re.compile(rf"(?P<letter>{_LETTER})(?P<mark>{_MARK})(?P<type>.+)", re.IGNORECASE)
_SUFFIXED = re.compile(rf"(?P<type>.+)(?P<mark>{_MARK})(?P<letter>{_LETTER})", re.IGNORECASE)
_BARE = re.compile(r"(?P<letter>[bieslu])(?P<mark>)(?P<type>)")
_BRACKET = re.compile(r"\((?P<type>[^()*\s]+)(\*\)?|\))|\*?\)")
_BEGIN_OR_INSIDE = {"B", "I"}
_HINT = "write B-PER and I-PER for the tokens of a span, and O for all others"


class SpanSpelling(NamedTuple):
    """A spelling of labels of spans that is not BIO, BIOES or BIOUL.

    Attributes:
        name: what distinguishes the spelling, for messages, such as "in brackets".
        example: a label in this spelling.
        hint: how to write such labels.
    """

    name: str
    example: str
    hint: str = _HINT

    @property
    def problem(self) -> str:
        """What is wrong with the labels, for messages."""
        return f"labels such as {self.example!r} look like labels of spans {self.name}"


def is_no_label(label: object, *, column: str | None = None) -> bool:
    """Whether a label means that there is none: `-`, `-1`, `_`, nothing, None or NaN.

    Args:
        column: name or number of the column of the label in CoNLL-U, where `_` is a value in
            columns that are empty for most words; None for labels of other files.
    """
    if label is None:
        return True
    if isinstance(label, str):
        text = label.strip()
        if text not in _NO_LABEL:
            return False
        has_blanks = column is not None and column.lower() in _COLUMNS_WITH_BLANKS
        return text != "_" or not has_blanks
    if isinstance(label, float) and math.isnan(label):
        return True
    return not isinstance(label, bool) and label == -1


def unknown_labels(labels: Iterable[str], known: Collection[str]) -> list[str]:
    """Return the labels that are not known, in order; they count as errors."""
    return [label for label in labels if label not in known]


def unknown_warning(unknown: Collection[str], where: object) -> str:
    """Return the warning about labels of a file that train does not have."""
    first = next(iter(unknown))
    problem = "labels that are not in train count as errors"
    return f"{where}: {problem}: {len(unknown):,}, such as {first}"


def are_exchanged(labels: Collection[str], texts: Collection[str]) -> bool:
    """Whether labels are texts and texts labels, as if their columns were exchanged.

    In data, labels recur and texts vary: there are fewer different labels, or they are shorter.

    Args:
        texts: what has the labels, tokens or sentences.
    """
    different_labels = set(labels)
    different_texts = set(texts)
    if len(different_labels) <= len(different_texts):
        return False
    return _mean_length(different_labels) > _mean_length(different_texts)


def _mean_length(strings: Collection[str]) -> float:
    return sum(map(len, strings)) / max(1, len(strings))


def find_span_spelling(labels: Iterable[str]) -> SpanSpelling | None:
    """Recognize labels of spans in another spelling, such as B_PER, PER-B, b-per or (PERSON*.

    The result is None for all other labels.
    All labels but one, that of the tokens outside, must have the spelling. Besides, a type must
    occur with two letters, or the label of the tokens outside must be the most frequent one.

    Args:
        labels: those of all tokens, in which `tasks.labels.find_scheme` finds no scheme.
    """
    counts: dict[str, int] = defaultdict(int)
    for label in labels:
        counts[label] += 1
    for pattern in (_PREFIXED, _SUFFIXED, _BARE, _BRACKET):
        matches = {label: pattern.fullmatch(label) for label in counts}
        outside = [label for label, match in matches.items() if match is None]
        span_matches = [match for match in matches.values() if match is not None]
        if not span_matches or len(outside) > 1:
            continue
        is_mostly_outside = bool(outside) and counts[outside[0]] == max(counts.values())
        if is_mostly_outside or _have_pairs(span_matches):
            name = _name_of_spelling(pattern, span_matches)
            if name:
                first_label = span_matches[0][0]
                return SpanSpelling(name, example=first_label)
    return None


def _letter_of(match: re.Match[str]) -> str:
    """Return the letter of a label of a span; "B" or "I" for brackets."""
    if match.re is _BRACKET:
        return "B" if match["type"] else "I"
    return match["letter"][0].upper()


def _have_pairs(matches: Iterable[re.Match[str]]) -> bool:
    """Whether a type occurs with two letters, such as B and I."""
    letters_of_type: dict[str, set[str]] = defaultdict(set)
    for match in matches:
        letters_of_type[match["type"] or ""].add(_letter_of(match))
    return any(len(letters) > 1 for letters in letters_of_type.values())


def _name_of_spelling(pattern: re.Pattern[str], matches: Sequence[re.Match[str]]) -> str:
    """Return what distinguishes a spelling.

    It is "" if no label begins or continues a span, or if nothing distinguishes the first label
    from BIO.
    """
    letters = {_letter_of(match) for match in matches}
    if _BEGIN_OR_INSIDE.isdisjoint(letters):
        return ""
    if pattern is _BRACKET:
        return "in brackets"
    if pattern is _SUFFIXED:
        return "with the letter at the end"
    first = matches[0]
    if len(first["letter"]) > 1:
        return "with a word instead of a letter"
    if first["letter"].islower():
        return "in lower case"
    if first["mark"] != "-":
        return f"with `{first['mark']}` instead of `-`"
    return ""
