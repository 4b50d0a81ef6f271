"""InputSettings: how text files are to be read."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from elmo_cli.errors import UsageError
from elmo_cli.fields import check_fields, convert_integers, one_of, within

FORMATS = ("auto", "plain", "conll", "conllu", "jsonl")
BLANK = ("keep", "skip", "error")
ON_ERROR = ("stop", "skip")
MAX_TOKENS = 1 << 30  # of a sentence; the vectors of more fit in no memory


@dataclass(frozen=True)
class InputSettings:
    """How text files are to be read; values that are unknown or contradict are a UsageError.

    Attributes:
        format: "plain" (one sentence per line), "conll" (columns), "conllu", "jsonl", or "auto": by
            the suffix of each file's name before .gz or .xz, and plain for other suffixes.
        tokenize: whether lines are raw text, to be split into sentences and tokens.
        encoding: a text encoding that Python knows.
        column: the column of the tokens in "conll" and "conllu", from 1 as `cut -f` counts, or from
            the end with -1 the last; None: column 2 of CoNLL-U, and detected in "conll".
        blank: what a blank line of plain text is: "keep" a sentence without tokens, "skip" no
            sentence (its number is left out), "error" an InputError.
        max_tokens: tokens of the longest sentence that is accepted.
        on_error: "stop" at the first line that can't be read, or "skip" and report such lines.
        max_characters: ids of a token, two of which mark its ends; a token of more bytes of UTF-8
            than the rest is reported as truncated.
    """

    format: str = one_of(*FORMATS)
    tokenize: bool = False
    encoding: str = "utf-8"
    column: int | None = None
    blank: str = one_of(*BLANK)
    max_tokens: int = within(1, MAX_TOKENS, 100_000)
    on_error: str = one_of(*ON_ERROR)
    max_characters: int = within(3, MAX_TOKENS, 50)

    def __post_init__(self) -> None:
        convert_integers(self)
        check_fields(self)
        if self.column == 0:
            hint = "1 is the first, -1 the last"
            raise UsageError("`column=0`: columns are counted from 1", hint)
        object.__setattr__(self, "encoding", _canonical_encoding(self.encoding))
        if self.format != "auto":
            self.check_fits(self.format)

    def check_fits(self, text_format: str) -> None:
        """Raise a UsageError for settings that have no meaning for files of `text_format`."""
        has_columns = text_format in ("conll", "conllu")
        if self.tokenize and has_columns:
            hint = "leave it out, or add `format='plain'` if the file is raw text"
            raise UsageError(f"`tokenize=True`: {text_format} files state their tokens", hint)
        if self.column is not None and not has_columns:
            hint = "add `format='conll'` or `format='conllu'`, or leave out `column`"
            raise UsageError(f"`column={self.column}`: {text_format} has no columns", hint)


def _canonical_encoding(name: str) -> str:
    try:
        "".encode(name)  # fails for codecs that are not of text, such as hex
    except (LookupError, ValueError):
        hint = "try utf-8, latin-1, cp1252 or utf-16"
        raise UsageError(f"`encoding={name!r}`: not a text encoding", hint) from None
    return codecs.lookup(name).name.removesuffix("-sig")  # a byte order mark is removed anyway
