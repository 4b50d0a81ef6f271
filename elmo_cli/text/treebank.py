"""The spelling of quotes and brackets in treebanks.

Source: https://catalog.ldc.upenn.edu/docs/LDC99T42.
"""

from __future__ import annotations

from collections.abc import Sequence

OPENING = "``"
CLOSING = "''"
_BRACKETS = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
_AFTER_A_QUOTE = frozenset(".,;:!?)]}")
_GOLDEN_RATIO = 0.6180339887498949


def is_in_treebank_spelling(document: int, fraction: float) -> bool:
    """Whether a document, numbered from 0, is in the fraction with treebank spelling.

    They are spread evenly, by the fractional parts of multiples of the golden ratio. The first
    document, which may be all of a text without blank lines, is in no fraction up to a half.
    """
    return (document + 1) * _GOLDEN_RATIO % 1 < fraction


def treebank_spelling(tokens: Sequence[str]) -> tuple[str, ...]:
    """Spell the plain quotes and brackets of a sentence as in treebanks.

    A quote opens and the next one closes; one at the end of the sentence, before its punctuation,
    closes what an earlier sentence has opened.
    """
    last = _last_before_punctuation(tokens)
    is_open = False
    spelled = list[str]()
    for position, token in enumerate(tokens):
        if token == '"':
            closes_earlier_quote = position == last and last > 0
            is_open = not is_open and not closes_earlier_quote
            spelled.append(OPENING if is_open else CLOSING)
        else:
            spelled.append(_BRACKETS.get(token, token))
    return tuple(spelled)


def _last_before_punctuation(tokens: Sequence[str]) -> int:
    """The position of the last token that is not punctuation after a quote; -1 of no tokens."""
    last = len(tokens) - 1
    while last > 0 and tokens[last] in _AFTER_A_QUOTE:
        last -= 1
    return last
