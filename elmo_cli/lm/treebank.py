"""Quotes and brackets as the treebanks spell them.

Source: the Penn Treebank's tokenization, https://catalog.ldc.upenn.edu/docs/LDC99T42.
"""

from __future__ import annotations

from collections.abc import Sequence

OPENING, CLOSING = "``", "''"
BRACKETS = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
_AFTER_A_QUOTE = frozenset(".,;:!?)]}")
_GOLDEN_RATIO = 0.6180339887498949


def is_in_treebank_spelling(document: int, share: float) -> bool:
    """Whether the document of this number is among the `share` that is spelled so.

    They are spread evenly: multiples of the golden ratio, without their whole part. The first
    document, which may be all of a text without blank lines, is among no share up to a half.

    Args:
        document: its number, from 0.
    """
    return (document + 1) * _GOLDEN_RATIO % 1 < share


def treebank_spelling(tokens: Sequence[str]) -> tuple[str, ...]:
    """A sentence with its plain quotes and brackets in treebank spelling.

    A quote opens and the next one closes; one that ends the sentence, but for its full stop, closes
    what an earlier sentence has opened.
    """
    spelled, is_open = [], False
    last = len(tokens) - 1
    while last > 0 and tokens[last] in _AFTER_A_QUOTE:
        last -= 1
    for place, token in enumerate(tokens):
        if token == '"':
            closes = is_open or (place == last and place > 0)
            spelled.append(CLOSING if closes else OPENING)
            is_open = not closes
        else:
            spelled.append(BRACKETS.get(token, token))
    return tuple(spelled)
