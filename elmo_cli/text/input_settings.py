"""How text files are to be read, and what the readers report and warn about."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from elmo_cli.errors import UsageError
from elmo_cli.messages import shortened
from elmo_cli.text.sentence import Sentence

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

    format: str = "auto"
    tokenize: bool = False
    encoding: str = "utf-8"
    column: int | None = None
    blank: str = "keep"
    max_tokens: int = 100_000
    on_error: str = "stop"
    max_characters: int = 50

    def __post_init__(self) -> None:
        for name, choices in (("format", FORMATS), ("blank", BLANK), ("on_error", ON_ERROR)):
            if (value := getattr(self, name)) not in choices:
                expected = ", ".join(map(repr, choices))
                raise UsageError(f"`{name}={value!r}`: unknown value", f"choose one of {expected}")
        for name, least in (("max_tokens", 1), ("max_characters", 3)):
            if not least <= (number := getattr(self, name)) <= MAX_TOKENS:
                hint = f"give a number from {least} to {MAX_TOKENS}"
                raise UsageError(f"`{name}={number}`: out of range", hint)
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


@dataclass
class InputReport:
    """What the readers report; filled while sentences are read, complete after the last."""

    warnings: list[str] = field(default_factory=list)  # each kind once, with its first occurrence
    blank_lines: int = 0  # sentences without tokens, whether yielded or not
    truncated_tokens: int = 0  # tokens with more bytes than a biLM reads; they lose their ends
    first_truncated: tuple[str, str, int] | None = None  # the token, shortened; source and line
    skipped: list[tuple[str, int, str]] = field(default_factory=list)  # source, line and reason
    n_keys: int = 0  # of all sentences, also of those that were left out; known at the end
    sources: list[tuple[str, int]] = field(default_factory=list)  # each file and its first key
    bytes_read: int = 0  # from the files so far, before decompression
    _kinds: set[str] = field(default_factory=set, repr=False)

    def warn(self, kind: str, message: str) -> None:
        """Add `message` unless there is one of its kind."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            self.warnings.append(message)

    def count_truncated(self, sentence: Sentence, max_bytes: int) -> None:
        """Count the tokens of more than `max_bytes` bytes of UTF-8."""
        # A character has at most four bytes.
        for token in [token for token in sentence.tokens if 4 * len(token) > max_bytes]:
            if len(token.encode()) > max_bytes:
                self.truncated_tokens += 1
                first = shortened(token, 60), sentence.source, sentence.line
                self.first_truncated = self.first_truncated or first


def _canonical_encoding(name: str) -> str:
    try:
        "".encode(name)  # fails for codecs that are not of text, such as hex
    except (LookupError, ValueError):
        hint = "try utf-8, latin-1, cp1252 or utf-16"
        raise UsageError(f"`encoding={name!r}`: not a text encoding", hint) from None
    return codecs.lookup(name).name.removesuffix("-sig")  # a byte order mark is removed anyway


N_CHECKED = 200  # sentences that are enough to see what a text is
_MAX_CHARACTERS = 100_000  # of a sentence; the patterns must not search a line of megabytes
_N_LETTERS = 100  # at the beginning of a sentence
# Two letters, so that initials do not count; not more, which would take quadratic time.
_PUNCTUATED = re.compile(r"[^\W\d_]{2}(?:[,;?!](?:\s|\Z)|[.?!][\"'”’)\]]*\Z)")
_BOUNDARIES = {"<S>", "</S>", "<s>", "</s>", "<PAD>", "<pad>", "[PAD]", "[CLS]", "[SEP]"}
_RESIDUES = re.compile(r"[A-Z*-]{30,}")
_JSON = re.compile(r"[\[{]\s*[\"\[{]")
_IsSign = Callable[[str, tuple[str, ...]], object]
# kind -> a test of a sentence, the fraction of sentences above which it is a warning, its words
_SIGNS: dict[str, tuple[_IsSign, float, str]] = {
    "untokenized": (lambda text, _: _PUNCTUATED.search(text), 0.3,
                    "looks untokenized; `tokenize=True` splits raw text"),
    # Alone on its line a boundary token is the entry of a vocabulary.
    "boundary-tokens": (lambda _, tokens: tokens[1:] and not _BOUNDARIES.isdisjoint(tokens), 0.0,
                        "boundary or padding tokens (<S>, <PAD>); the biLM adds its own"),
    "json": (lambda text, _: _JSON.match(text), 0.5,
             "looks like JSON, but is read as plain text; `format='jsonl'` reads JSON lines"),
    "fasta": (lambda text, _: _RESIDUES.fullmatch(text), 0.3,
              "looks like FASTA: residues without white space are one token per line"),
    "script": (lambda text, _: _is_not_latin(text), 0.5,
               "not in Latin script; use a model that was trained on its language"),
}  # fmt: skip


def warn_of_signs(sentences: Sequence[Sentence], report: InputReport) -> None:
    """Warn if sentences, the first ones with tokens, look like something else than a text."""
    for kind, (is_sign, fraction, words) in _SIGNS.items():
        found = [s for s in sentences if is_sign(s.text[:_MAX_CHARACTERS], s.tokens)]
        if len(found) > fraction * len(sentences):
            report.warn(kind, f"{found[0].where}: {words}")


def _is_not_latin(text: str) -> bool:
    """Whether most letters at the beginning of a sentence are of another script."""
    letters = [character for character in text[:_N_LETTERS] if character.isalpha()]
    latin = (c < "\u0250" or "\u1e00" <= c < "\u1f00" for c in letters)
    return 2 * sum(latin) < len(letters)
