"""Signs that a text is not what it is read as: untokenized, escaped, JSON, another script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from elmo_cli.text.input_report import InputReport
from elmo_cli.text.sentence import Tokens

N_CHECKED = 200  # sentences that are enough to see what a text is
_TOKENS_CHECKED = 10_000  # of the first sentences, which a run checks before it computes any
_MAX_CHARACTERS = 100_000  # of a sentence; the patterns must not search a line of megabytes
_N_LETTERS = 100  # at the beginning of a sentence
# Two letters, so that initials do not count; not more, which would take quadratic time.
_PUNCTUATED = re.compile(r"[^\W\d_]{2}(?:[,;?!](?:\s|\Z)|[.?!][\"'”’)\]]*\Z)")
_BOUNDARIES = {
    "<S>", "</S>", "<s>", "</s>", "<bos>", "<eos>", "<PAD>", "<pad>", "[PAD]", "[CLS]", "[SEP]",
}  # fmt: skip
_RESIDUES = re.compile(r"[A-Z*-]{30,}")
# `&apos;` and others of the Moses tokenizer, most of which are HTML too
_ESCAPE = re.compile(r"&(?:amp|apos|quot|lt|gt|nbsp|#\d{1,4});")
_JSON = re.compile(r"[\[{]\s*[\"\[{]")


@dataclass(frozen=True)
class InputSign:
    """A sign that a text is not what it is read as.

    Attributes:
        kind: of the warning, of which a report has one.
        is_shown: whether a sentence, by its text and its tokens, shows the sign.
        fraction: the text is warned of if more of its first sentences show the sign.
        warning: what the text looks like, and what to do about it.
    """

    kind: str
    is_shown: Callable[[str, Tokens], bool]
    fraction: float
    warning: str


class SampledSentence(NamedTuple):
    """A sentence with tokens, and its file and line for messages."""

    text: str
    tokens: Tokens
    where: str


@dataclass
class TextSample:
    """The first sentences with tokens of a text, as many as show what it is."""

    sentences: list[SampledSentence] = field(default_factory=list)
    _n_tokens: int = 0

    @property
    def is_full(self) -> bool:
        """Whether no more sentences are needed."""
        return len(self.sentences) >= N_CHECKED or self._n_tokens >= _TOKENS_CHECKED

    def add(self, text: str, tokens: Tokens, where: str) -> None:
        """Add a sentence that has tokens."""
        self.sentences.append(SampledSentence(text, tokens, where))
        self._n_tokens += len(tokens)


def warn_of_signs(sample: TextSample, report: InputReport, signs: Iterable[InputSign]) -> None:
    """Warn if the first sentences of a text look like something else, once for each sign."""
    for sign in signs:
        showing = []
        for sentence in sample.sentences:
            if sign.is_shown(sentence.text[:_MAX_CHARACTERS], sentence.tokens):
                showing.append(sentence)
        if len(showing) > sign.fraction * len(sample.sentences):
            report.warn(sign.kind, f"{showing[0].where}: {sign.warning}")


def signs_of_text(*, any_script: bool = False) -> tuple[InputSign, ...]:
    """Return the signs that are looked for in a text.

    Args:
        any_script: whether the text may be in another script than Latin.
    """
    return _SIGNS_OF_TEXT if any_script else (*_SIGNS_OF_TEXT, SCRIPT_SIGN)


def _has_attached_punctuation(text: str, tokens: Tokens) -> bool:
    without_escapes = _ESCAPE.sub("'", text)  # which end in a semicolon
    return _PUNCTUATED.search(without_escapes) is not None


def _has_escapes(text: str, tokens: Tokens) -> bool:
    return _ESCAPE.search(text) is not None


def _has_boundary_tokens(text: str, tokens: Tokens) -> bool:
    # Alone on its line a boundary token is the entry of a vocabulary.
    return len(tokens) > 1 and not _BOUNDARIES.isdisjoint(tokens)


def _starts_like_json(text: str, tokens: Tokens) -> bool:
    return _JSON.match(text) is not None


def _is_one_word_of_residues(text: str, tokens: Tokens) -> bool:
    return _RESIDUES.fullmatch(text) is not None


def _is_not_latin(text: str, tokens: Tokens) -> bool:
    """Whether most letters at the beginning of a sentence are of another script."""
    letters = [character for character in text[:_N_LETTERS] if character.isalpha()]
    n_latin = sum(letter < "\u0250" or "\u1e00" <= letter < "\u1f00" for letter in letters)
    return 2 * n_latin < len(letters)


_UNTOKENIZED = InputSign(
    kind="untokenized",
    is_shown=_has_attached_punctuation,
    fraction=0.3,
    warning="looks untokenized; `tokenize=True` splits raw text",
)
_UNTOKENIZED_DATA = replace(
    _UNTOKENIZED,
    warning="looks untokenized; the biLM was trained on text in which punctuation marks are tokens",
)
_ESCAPES = InputSign(
    kind="escapes",
    is_shown=_has_escapes,
    fraction=0.0,
    warning="escapes such as `&apos;` or `&amp;`, as the Moses tokenizer or HTML writes them; the "
    "biLM was trained on the characters, which `deescape-special-chars.perl` of Moses restores",
)
_BOUNDARY_TOKENS = InputSign(
    kind="boundary-tokens",
    is_shown=_has_boundary_tokens,
    fraction=0.0,
    warning="boundary or padding tokens (<S>, <bos>, <PAD>); the biLM adds its own",
)
_JSON_LINES = InputSign(
    kind="json",
    is_shown=_starts_like_json,
    fraction=0.5,
    warning="looks like JSON, but is read as plain text; `format='jsonl'` reads JSON lines",
)
_SEQUENCES = InputSign(
    kind="fasta",
    is_shown=_is_one_word_of_residues,
    fraction=0.3,
    warning="looks like sequences of residues, but each line is read as one token; "
    "`format='fasta'` reads FASTA, which has a header before each sequence",
)
SCRIPT_SIGN = InputSign(
    kind="script",
    is_shown=_is_not_latin,
    fraction=0.5,
    warning="not in Latin script; use a model that was trained on its language",
)
_SIGNS_OF_TEXT = (_UNTOKENIZED, _ESCAPES, _BOUNDARY_TOKENS, _JSON_LINES, _SEQUENCES)
# The data of a task are not plain text, and are not tokenized, since their tokens have labels.
SIGNS_OF_DATA = (_UNTOKENIZED_DATA, _ESCAPES, _BOUNDARY_TOKENS)
