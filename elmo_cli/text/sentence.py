"""Sentence: what every reader of text yields, with its position in its document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from elmo_cli.errors import InputError
from elmo_cli.messages import shortened

Tokens = tuple[str, ...]  # of a sentence, without its boundaries
Item = TypeVar("Item")
_SURROGATE = re.compile("[\ud800-\udfff]")


class OtherLine(NamedTuple):
    """A line of columns that is not a token, such as a comment, `-DOCSTART-` or a blank line."""

    position: int  # the number of tokens of the sentence before it
    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """One list of tokens, without sentence boundaries, and where it comes from.

    Attributes:
        tokens: empty for a blank line.
        key: zero-based number of the sentence, or of the line, in the whole input, over all files.
        text: the line of the file without whitespace at its ends, or the tokens joined by spaces.
            Names in embeddings files are derived from it.
        source: name of the file as the user gave it; "-" for standard input.
        line: line of the file where the sentence begins, from 1; 0 if unknown.
        document: key of its document ("bc/cctv/00/cctv_0000_12"), None if the format has none; in
            FASTA the id of the sequence.
        place: position in its document, from 0; 0 without a document key.
        offset: what LSGN adds to `place` in its keys (`sent_offset` in its jsonl files).
        starts_document: whether a document starts here; true for the first sentence of a file.
        labels: a column of labels, one per token, if `read_columns` was asked for one.
        other_lines: in columns, the lines before and among its tokens that are not tokens, without
            the blank line that ends the sentence before.
    """

    tokens: tuple[str, ...]
    key: int
    text: str = ""
    source: str = "-"
    line: int = 0
    document: str | None = None
    place: int = 0
    offset: int = 0
    starts_document: bool = False
    labels: tuple[str, ...] = ()
    other_lines: tuple[OtherLine, ...] = field(default=(), compare=False, repr=False)

    @property
    def where(self) -> str:
        """Its file and line for messages, or its number if the line is unknown."""
        if self.line:
            return f"{self.source}, line {self.line}"
        return f"{self.source}: sentence {self.key}"


def sentence_of(tokens: Iterable[str], key: int) -> Sentence:
    """A sentence from tokens that a program gives.

    Raises:
        TypeError: they are a single string, are not strings, or have no order.
        InputError: a token is empty, or UTF-8 or HDF5 cannot hold it.
    """
    if isinstance(tokens, (str, bytes)):
        text = shortened(repr(tokens))
        raise TypeError(f"a sentence is a list of tokens, not a text: {text}; .split() it")
    checked: tuple[Any, ...] = tuple(_ordered(tokens, "a sentence is a list of tokens"))
    for position, token in enumerate(checked):
        if not isinstance(token, str):
            kind = type(token).__name__
            raise TypeError(
                f"a token is a string, not of type {kind}; `embed_batch` takes several sentences"
            )
        problem = token_problem(token)
        if problem:
            hint = "a token is a string of at least one character; a list of none is a blank line"
            where = f"sentence {key}"
            raise InputError(f"token {position} {problem}", hint, where=where)
    return Sentence(checked, key)


def sentences_of(sentences: Iterable[Sentence | Iterable[str]]) -> Iterator[Sentence]:
    """Sentences from those of a reader or from lists of tokens; the errors of `sentence_of`."""
    ordered = _ordered(sentences, "sentences are a list of lists of tokens")
    for key, sentence in enumerate(ordered):
        yield sentence if isinstance(sentence, Sentence) else sentence_of(sentence, key)


def _ordered(items: Iterable[Item], expected: str) -> Iterable[Item]:
    """The items; a TypeError that says what is expected if they have no order."""
    if isinstance(items, (Set, Mapping)) or not isinstance(items, Iterable):
        raise TypeError(f"{expected}, not of type {type(items).__name__}")
    return items


def token_problem(token: str) -> str:
    """Why UTF-8 or HDF5 cannot hold a string as a token; "" if they can."""
    if not token:
        return "is empty"
    if "\0" in token:
        return "holds a NUL"
    if not token.isascii() and _SURROGATE.search(token):
        return "contains a lone surrogate (half a character)"
    return ""


class DocumentCounter:
    """The document that is being read, and the position in it.

    The offset is that of LSGN `input_utils.py`, which keeps counting over consecutive documents
    whose keys are equal up to the last underscore, the parts of one text.
    """

    def __init__(self) -> None:
        self._key: str | None = None
        self._position = 0
        self._offset = 0
        self._starts = True

    def start(self, key: str | None, offset: int | None = None) -> None:
        """Start a document; give `offset` if the file states it."""
        if offset is None:
            next_offset = self._offset + self._position
            offset = next_offset if _is_same_text(self._key, key) else 0
        self._key = key
        self._offset = offset
        self._position = 0
        self._starts = True

    def advance(self, *, yielded: bool) -> None:
        """Move on by one sentence, which was yielded or refused."""
        self._position += self._key is not None
        self._starts = self._starts and not yielded

    def sentence(
        self,
        tokens: Sequence[str],
        *,
        key: int,
        text: str,
        source: str,
        line: int,
        labels: Sequence[str] = (),
        other_lines: Sequence[OtherLine] = (),
    ) -> Sentence:
        """Make the next sentence."""
        return Sentence(
            tokens=tuple(tokens),
            key=key,
            text=text,
            source=source,
            line=line,
            document=self._key,
            place=self._position,
            offset=self._offset,
            starts_document=self._starts,
            labels=tuple(labels),
            other_lines=tuple(other_lines),
        )


def _is_same_text(key: str | None, next_key: str | None) -> bool:
    """Whether two documents have keys that are equal up to the last underscore."""
    if key is None or next_key is None:
        return False
    return key[: key.rfind("_")] == next_key[: next_key.rfind("_")]
