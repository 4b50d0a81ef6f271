"""The tokens of a sentence, recovered from its line where nothing else records them."""

from __future__ import annotations

from elmo_cli.messages import plural, shortened
from elmo_cli.store.digests import tokens_digest
from elmo_cli.text.sentence import Sentence, Tokens


def _ways_to_split(line: str) -> tuple[Tokens, Tokens]:
    """The parts of a line that is split at whitespace, and at single spaces."""
    by_white_space = tuple(line.split())
    by_single_spaces = tuple(line.split(" "))
    return by_white_space, by_single_spaces


def split_line(line: str, n_tokens: int | None) -> Tokens | None:
    """The tokens of a line; None if neither way to split it gives `n_tokens` of them.

    Args:
        n_tokens: None if it is unknown; the line is then split at whitespace.
    """
    for tokens in _ways_to_split(line):
        if n_tokens is None or len(tokens) == n_tokens:
            return tokens
    return None


def split_line_by_digest(line: str, digest: bytes) -> Tokens | None:
    """The tokens of a line, whose `tokens_digest` is `digest`; None if neither way gives them."""
    for tokens in _ways_to_split(line):
        if tokens_digest(tokens) == digest:
            return tokens
    return None


def _line_is_tokens(sentence: Sentence, *, pooled: bool) -> bool:
    """Whether `split_line` recovers the tokens of a sentence; also true if its line is unknown."""
    if sentence.tokens and not sentence.text:
        return True
    n_tokens = None if pooled else len(sentence.tokens)
    return split_line(sentence.text, n_tokens) == sentence.tokens


class LineCheck:
    """Finds the sentences whose tokens a reader cannot recover from their lines.

    Attributes:
        are_tokens: whether `split_line` recovers the tokens of all sentences.
        n_lost: the number of sentences whose tokens no reader can recover, because one of them
            contains a space, or because the text is another one.
        first_lost: the first of these sentences.
        lacks_equal_lines: whether the sentence map has one entry for several sentences; its writer
            finds this out.
    """

    def __init__(self, *, pooled: bool) -> None:
        self.are_tokens = True
        self.n_lost = 0
        self.first_lost: Sentence | None = None
        self.lacks_equal_lines = False
        self._pooled = pooled

    def add(self, sentence: Sentence) -> None:
        """Check the next sentence."""
        if _line_is_tokens(sentence, pooled=self._pooled):
            return
        self.are_tokens = False
        if sentence.tokens not in _ways_to_split(sentence.text):
            self.n_lost += 1
            if self.first_lost is None:
                self.first_lost = sentence

    def warning(self) -> str:
        """A warning that tokens are lost, which names a layout that stores them; "" if none are."""
        first = self.first_lost
        if first is None:
            return ""
        problem = f"the tokens of {plural(self.n_lost, 'sentence')} are not recorded"
        cause = "has another text than its tokens"
        if any(" " in token for token in first.tokens):
            cause = "has tokens that contain spaces"
        where = f"sentence {first.key} (`{shortened(first.text)}`)"
        return f"{problem}: {where} {cause}; `layout=flat` records all tokens"
