"""InputSettings: how text files are to be read."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from elmo_cli.errors import UsageError

FORMATS = ("auto", "plain", "conll", "conllu", "jsonl")
BLANK = ("keep", "skip", "error")
ON_ERROR = ("stop", "skip")
MOST_TOKENS = 1 << 30  # of a sentence; no memory holds the vectors of more

# Codecs that Python has for itself; nobody keeps a corpus in them, and some never fail.
_NO_CORPUS = {"idna", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}


@dataclass(frozen=True)
class InputSettings:
    """How text files are to be read; checked when it is made.

    Attributes:
        format: "plain" (one sentence a line), "conll" (columns), "conllu", "jsonl", or "auto": by
            the suffix of each file's name, before .gz or .xz, and plain where it tells nothing.
        tokenize: whether lines are raw text, to be split into sentences and tokens.
        encoding: a text encoding that Python knows.
        column: the column that holds the token in "conll" and "conllu", counted from 1 as `cut -f`
            counts, or from the end with -1 the last; None: as the format or the file itself says.
        blank: what a blank line becomes where every line is a sentence: "keep" a sentence without
            tokens, "skip" no sentence (its number is left out), "error" an InputError.
        max_tokens: tokens in the longest sentence that is taken.
        on_error: "stop" at the first line that can't be read, or "skip" such lines, noting each.
        max_characters: places for characters in a token, two of which are its borders; a token of
            more than max_characters - 2 bytes of UTF-8 is counted as truncated.
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
        _check_choice("--input-format", self.format, FORMATS)
        _check_choice("--blank-lines", self.blank, BLANK)
        _check_choice("--on-error", self.on_error, ON_ERROR)
        _check_between("--max-sentence-length", self.max_tokens, 1, MOST_TOKENS)
        _check_between("max_characters", self.max_characters, 3, MOST_TOKENS)
        if self.column == 0:
            raise UsageError("--column: 0, columns are counted from 1", "`--column 1` or -1 (last)")
        object.__setattr__(self, "encoding", _canonical_encoding(self.encoding))
        if self.format != "auto":
            self.check_fits(self.format)

    def check_fits(self, text_format: str) -> None:
        """Refuse settings that have no meaning for files of `text_format`.

        Raises:
            UsageError: `tokenize` for columns or with `blank="error"`, or `column` for a format
                without columns.
        """
        columns = text_format in ("conll", "conllu")
        if self.tokenize and columns:
            raise UsageError(
                f"--tokenize: the tokens of {text_format} are given, one a line",
                "leave out `--tokenize`, or add `--input-format plain` if the file is raw text",
            )
        if self.tokenize and self.blank == "error" and text_format == "plain":
            raise UsageError(
                "--blank-lines error: with `--tokenize` a blank line separates documents",
                "leave out `--blank-lines`",
            )
        if self.column is not None and not columns:
            raise UsageError(
                f"--column {self.column}: {text_format} has no columns",
                "add `--input-format conll` or `--input-format conllu`, or leave out `--column`",
            )


def _check_choice(option: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{option}: no {value!r}", f"choose one of {', '.join(choices)}")


def _check_between(option: str, value: int, least: int, most: int) -> None:
    if value < least:
        raise UsageError(f"{option}: {value}, less than {least}", f"give {least} or more")
    if value > most:
        raise UsageError(f"{option}: {value}, more than {most}", f"give {most} or less")


def _canonical_encoding(name: str) -> str:
    try:
        codec = codecs.lookup(name).name
        bytes(8).decode(name, "replace")  # fails for what is no text encoding, such as hex
    except (LookupError, UnicodeError, ValueError):
        codec = "undefined"
    if codec in _NO_CORPUS:
        raise UsageError(
            f"--encoding: {name!r} is not a text encoding",
            "try `--encoding utf-8`, `latin-1`, `cp1252` or `utf-16`",
        )
    # The mark of utf-8-sig is dropped in any case.
    return "utf-8" if codec == "utf-8-sig" else codec
