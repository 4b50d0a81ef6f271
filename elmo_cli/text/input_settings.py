"""How text files are to be read, and what the readers report."""

from __future__ import annotations

import codecs
from dataclasses import dataclass, field

from elmo_cli.errors import UsageError
from elmo_cli.text.sentence import Sentence

FORMATS = ("auto", "plain", "conll", "conllu", "jsonl")
BLANK = ("keep", "skip", "error")
ON_ERROR = ("stop", "skip")
MAX_TOKENS = 1 << 30  # of a sentence; the vectors of more fit in no memory

# Codecs that Python has for itself. Some of them decode anything, so mistakes would stay unseen.
_NOT_FOR_TEXT = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
_SHOWN_CHARACTERS = 60  # of a truncated token in a message


@dataclass(frozen=True)
class InputSettings:
    """How text files are to be read; checked when it is made.

    Attributes:
        format: "plain" (one sentence per line), "conll" (columns), "conllu", "jsonl", or "auto": by
            the suffix of each file's name before .gz or .xz, and plain for other suffixes.
        tokenize: whether lines are raw text, to be split into sentences and tokens.
        encoding: a text encoding that Python knows.
        column: the column of the tokens in "conll" and "conllu", from 1 as `cut -f` counts, or from
            the end with -1 the last; None: column 2 of CoNLL-U, and detected in "conll".
        blank: what a blank line is where each line is a sentence: "keep" a sentence without
            tokens, "skip" no sentence (its number is left out), "error" an InputError.
        max_tokens: tokens of the longest sentence that is accepted.
        on_error: "stop" at the first line that can't be read, or "skip" and report such lines.
        max_characters: characters of a token, two of which mark its ends; a token of more than
            max_characters - 2 bytes of UTF-8 is reported as truncated.
    Raises:
        UsageError: a value that does not exist, or two that contradict each other.
    """

    format: str = "auto"
    tokenize: bool = False
    encoding: str = "utf-8"
    column: int | None = None
    blank: str = "keep"
    max_tokens: int = 100_000
    on_error: str = "stop"
    max_characters: int = 50

    def __post_init__(self) -> None:
        _check_choice("format", self.format, FORMATS)
        _check_choice("blank", self.blank, BLANK)
        _check_choice("on_error", self.on_error, ON_ERROR)
        _check_range("max_tokens", self.max_tokens, 1)
        _check_range("max_characters", self.max_characters, 3)
        if self.column == 0:
            raise UsageError(
                "`column=0`: columns are counted from 1", "1 is the first, -1 the last"
            )
        object.__setattr__(self, "encoding", _canonical_encoding(self.encoding))
        if self.format != "auto":
            self.check_fits(self.format)

    def check_fits(self, text_format: str) -> None:
        """Refuse settings that have no meaning for files of `text_format`.

        Raises:
            UsageError: `tokenize` for columns or with `blank="error"`, or `column` for a format
                without columns.
        """
        has_columns = text_format in ("conll", "conllu")
        if self.tokenize and has_columns:
            raise UsageError(
                f"`tokenize=True`: {text_format} files state their tokens, one per line",
                "leave it out, or add `format='plain'` if the file is raw text",
            )
        if self.tokenize and self.blank == "error" and text_format == "plain":
            raise UsageError(
                "`blank='error'`: with `tokenize=True` blank lines separate documents and are no "
                "sentences",
                "leave out `blank`",
            )
        if self.column is not None and not has_columns:
            raise UsageError(
                f"`column={self.column}`: {text_format} has no columns",
                "add `format='conll'` or `format='conllu'`, or leave out `column`",
            )


@dataclass
class InputReport:
    """What the readers report; filled while sentences are read, complete after the last.

    Attributes:
        warnings: what looks wrong but can be read, each kind once, with its first occurrence.
        blank_lines: sentences without tokens, whether yielded or not.
        truncated_tokens: tokens with more bytes than a biLM reads; they lose their ends.
        first_truncated: (token, source, line) of the first of them, a very long token shortened.
        skipped: (source, line, reason) of each line that could not be read, with on_error "skip".
        next_key: for each of them the number of the sentence that followed.
        n_keys: keys that sentences have or had before they were left out; known at the end.
        sources: (name, first key) of each file in order.
        bytes_read: bytes read from the files so far, before decompression.
    """

    warnings: list[str] = field(default_factory=list)
    blank_lines: int = 0
    truncated_tokens: int = 0
    first_truncated: tuple[str, str, int] | None = None
    skipped: list[tuple[str, int, str]] = field(default_factory=list)
    next_key: list[int] = field(default_factory=list)
    n_keys: int = 0
    sources: list[tuple[str, int]] = field(default_factory=list)
    bytes_read: int = 0
    _kinds: set[str] = field(default_factory=set, repr=False)

    def warn(self, kind: str, message: str) -> None:
        """Add `message` unless there is one of its kind."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self.warnings.append(message)

    def note_position(self, key: int) -> None:
        """Record that the lines skipped since the last sentence precede sentence `key`."""
        new = len(self.skipped) - len(self.next_key)
        if new > 0:
            self.next_key += [key] * new

    def count_truncated(self, sentence: Sentence, max_bytes: int) -> None:
        """Count the tokens of more than `max_bytes` bytes of UTF-8."""
        # A character has at most four bytes, so most sentences are done after this line.
        if 4 * max(map(len, sentence.tokens), default=0) <= max_bytes:
            return
        for token in sentence.tokens:
            if len(token) > max_bytes or len(token.encode()) > max_bytes:
                self._count_truncated_token(token, sentence)

    def _count_truncated_token(self, token: str, sentence: Sentence) -> None:
        self.truncated_tokens += 1
        if self.first_truncated is None:
            shown = token[:_SHOWN_CHARACTERS] + "…" * (len(token) > _SHOWN_CHARACTERS)
            self.first_truncated = (shown, sentence.source, sentence.line)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        expected = ", ".join(map(repr, choices))
        raise UsageError(f"`{name}={value!r}`: unknown value", f"choose one of {expected}")


def _check_range(name: str, value: int, least: int) -> None:
    if not least <= value <= MAX_TOKENS:
        raise UsageError(
            f"`{name}={value}`: out of range", f"give a number from {least} to {MAX_TOKENS}"
        )


def _canonical_encoding(name: str) -> str:
    try:
        codec = codecs.lookup(name).name
        bytes(8).decode(name, "replace")  # fails for codecs that are not of text, such as hex
    except (LookupError, UnicodeError, ValueError):
        codec = "undefined"
    if codec in _NOT_FOR_TEXT:
        raise UsageError(
            f"`encoding={name!r}`: not a text encoding",
            "try utf-8, latin-1, cp1252 or utf-16",
        )
    # A byte order mark of UTF-8 is removed in any case.
    return "utf-8" if codec == "utf-8-sig" else codec
