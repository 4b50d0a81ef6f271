"""The spelling of quotes and brackets in treebanks, for the texts of the bundled model.

`benchmarks/model_card/treebank_text.py` spells one document in eight of them in this way.

Source: https://catalog.ldc.upenn.edu/docs/LDC99T42.
"""

from __future__ import annotations

from collections.abc import Sequence

_OPENING_QUOTE = "``"
_CLOSING_QUOTE = "''"
ESCAPES_OF_BRACKETS = {
    "(": "-LRB-",
    ")": "-RRB-",
    "[": "-LSB-",
    "]": "-RSB-",
    "{": "-LCB-",
    "}": "-RCB-",
}
_AFTER_A_QUOTE = frozenset(".,;:!?)]}")
_GOLDEN_RATIO = 0.6180339887498949  # its fractional part


def gets_treebank_spelling(document_number: int, fraction: float) -> bool:
    """Decide from the number of a document, from 0, whether it gets treebank spelling.

    About `fraction` of the documents get it, spread evenly over the text: those for which the
    fractional part of a multiple of the golden ratio, a low-discrepancy sequence, is below
    `fraction`. The first document does not get it unless `fraction` is above 0.618, because it may
    be the whole text, if the text has no blank lines.
    """
    return (document_number + 1) * _GOLDEN_RATIO % 1 < fraction


def treebank_spelling(tokens: Sequence[str]) -> tuple[str, ...]:
    """Spell the plain quotes and brackets of a sentence as in treebanks.

    The first quote of a sentence opens, the next one closes, and so on. But a quote at the end of
    the sentence, where only punctuation follows it, closes what an earlier sentence has opened.
    """
    last = _last_before_punctuation(tokens)
    is_open = False
    spelled: list[str] = []
    for position, token in enumerate(tokens):
        if token == '"':
            closes_earlier_quote = position == last and last > 0
            is_open = not is_open and not closes_earlier_quote
            spelled.append(_OPENING_QUOTE if is_open else _CLOSING_QUOTE)
        else:
            spelled.append(ESCAPES_OF_BRACKETS.get(token, token))
    return tuple(spelled)


def _last_before_punctuation(tokens: Sequence[str]) -> int:
    """Return the position of the last token before the punctuation at the end of a sentence.

    Only punctuation that may follow a closing quote counts. The result is 0 if all tokens are such
    punctuation, and -1 if there are no tokens.
    """
    last = len(tokens) - 1
    while last > 0 and tokens[last] in _AFTER_A_QUOTE:
        last -= 1
    return last
