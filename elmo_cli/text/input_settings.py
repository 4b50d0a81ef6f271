"""InputSettings: how text files are to be read."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from elmo_cli.errors import UsageError
from elmo_cli.fields import check_fields, convert_integers, one_of, within

FORMATS = ("auto", "plain", "conll", "conllu", "jsonl", "fasta")
FASTA_IDS = ("first", "uniprot", "header")
BLANK = ("keep", "skip", "error")
ROWS = ("words", "tokens", "all")
ON_ERROR = ("stop", "skip")
MAX_TOKENS = 1 << 24  # of a sentence; a line of 64 MiB, which is the longest, has hardly more


@dataclass(frozen=True)
class InputSettings:
    """How text files are to be read; values that are unknown or contradict are a UsageError.

    Attributes:
        format: "plain" (one sentence per line), "conll" (columns), "conllu", "jsonl", "fasta", or
            "auto": by the suffix of each file's name before .gz or .xz; for other suffixes "fasta"
            if the file begins like it, otherwise "plain".
        tokenize: whether lines are raw text, to be split into sentences and tokens.
        encoding: a text encoding that Python knows.
        column: the column of the tokens in "conll" and "conllu", from 1 as `cut -f` counts, or from
            the end with -1 the last; None: column 2 of CoNLL-U, and detected in "conll".
        rows: those of "conllu" that are read: its "words"; the "tokens" of its text, where a range
            such as `3-4` stands for its words; or "all", also empty nodes such as `5.1`.
        fasta_id: the id of a sequence in "fasta": the "first" word of its header, what is between
            its first two `|` ("uniprot"), or the whole "header".
        fasta_raw: whether every character of a sequence in "fasta" is a token, as in SeqVec.
            Otherwise only letters and `*` are accepted, and `*` at the end is left out.
        blank: what a blank line of plain text is: "keep" a sentence without tokens, "skip" no
            sentence (its number is left out), "error" an InputError.
        max_tokens: tokens of the longest sentence that is accepted. Its vectors must fit in memory;
            language models read a text as windows, and need no limit.
        on_error: "stop" at the first line that can't be read, or "skip" and report such lines.
        max_characters: ids of a token, two of which mark its ends; a token that needs more ids than
            the rest is reported as truncated.
        is_unicode: whether these ids are those of Unicode characters, in a dictionary of the model
            and in any script; otherwise they are those of bytes of UTF-8.
    """

    format: str = one_of(*FORMATS)
    tokenize: bool = False
    encoding: str = "utf-8"
    column: int | None = None
    rows: str = one_of(*ROWS)
    fasta_id: str = one_of(*FASTA_IDS)
    fasta_raw: bool = False
    blank: str = one_of(*BLANK)
    max_tokens: int = within(1, MAX_TOKENS, MAX_TOKENS)
    on_error: str = one_of(*ON_ERROR)
    max_characters: int = within(3, MAX_TOKENS, 50)
    is_unicode: bool = False

    def __post_init__(self) -> None:
        convert_integers(self)
        check_fields(self)
        if self.column == 0:
            hint = "1 is the first, -1 the last"
            raise UsageError("columns are counted from 1", hint, where="`column=0`")
        object.__setattr__(self, "encoding", _canonical_encoding(self.encoding))
        if self.format != "auto":
            self.check_fits(self.format)

    def check_fits(self, text_format: str) -> None:
        """Raise a UsageError for settings that have no meaning for files of `text_format`."""
        has_columns = text_format in ("conll", "conllu")
        if self.tokenize and (has_columns or text_format == "fasta"):
            hint = "leave it out, or add `format='plain'` if the file is raw text"
            if text_format == "fasta":
                hint = "leave it out: each letter of a sequence is a token"
            problem = f"{text_format} files state their tokens"
            raise UsageError(problem, hint, where="`tokenize=True`")
        if self.column is not None and not has_columns:
            hint = "add `format='conll'` or `format='conllu'`, or leave out `column`"
            problem = f"{text_format} has no columns"
            raise UsageError(problem, hint, where=f"`column={self.column}`")
        if self.rows != ROWS[0] and text_format != "conllu":
            hint = "add `format='conllu'` if the file is CoNLL-U, or leave out `rows`"
            problem = f"{text_format} has no ranges of words and empty nodes"
            raise UsageError(problem, hint, where=f"`rows={self.rows}`")
        has_fasta_setting = self.fasta_raw or self.fasta_id != FASTA_IDS[0]
        if has_fasta_setting and text_format != "fasta":
            setting = "fasta_raw=True" if self.fasta_raw else f"fasta_id={self.fasta_id}"
            hint = "add `format='fasta'` if the file holds sequences, or leave it out"
            problem = f"{text_format} has no sequences with headers"
            raise UsageError(problem, hint, where=f"`{setting}`")


def _canonical_encoding(name: str) -> str:
    try:
        "".encode(name)  # fails for a codec that is not of text, such as hex
        b"a".decode(name, "replace")  # fails for a codec of host names, such as idna
    except (LookupError, ValueError):
        hint = "try utf-8, latin-1, cp1252 or utf-16"
        raise UsageError("not a text encoding", hint, where=f"`encoding={name!r}`") from None
    return codecs.lookup(name).name.removesuffix("-sig")  # a byte order mark is removed anyway
