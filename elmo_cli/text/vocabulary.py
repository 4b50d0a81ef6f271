"""The types (distinct tokens) of a text, counted and numbered, in the file format of bilm-tf."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import write_text
from elmo_cli.filetypes import identify
from elmo_cli.fit import FitPoint, FitRule
from elmo_cli.messages import format_bytes, plural, shortened
from elmo_cli.regular_files import check_regular
from elmo_cli.text.characters import BEGIN, END
from elmo_cli.zip_files import max_content

UNKNOWN = "<UNK>"
SPECIALS = (BEGIN, END, UNKNOWN)
_VOCABULARY_HINT = "give a vocabulary file: UTF-8, one type per line; `elmo vocab` makes one"
_PLACEHOLDER_LINE = "!!!MAXTERMID"  # of a vocabulary file; it has no id


class Vocabulary:
    """Types and their ids, as in bilm-tf `bilm/data.py`; all other tokens have the id of `<UNK>`.

    Args:
        types: `<S>`, `</S>` and `<UNK>` among them, otherwise it is an InputError; the id of each
            is its index.
    Attributes:
        begin, end, unknown: ids of `<S>`, `</S>`, `<UNK>`.
    """

    def __init__(self, types: Sequence[str], *, where: str = "vocabulary") -> None:
        self.types = tuple(types)
        self._ids = {token: i for i, token in enumerate(self.types)}
        for special in SPECIALS:
            if special not in self._ids:
                hint = "a vocabulary begins with <S>, </S>, <UNK>, one per line"
                raise InputError(f"{special} is not among the types", hint, where=where)
        self.begin = self._ids[BEGIN]
        self.end = self._ids[END]
        self.unknown = self._ids[UNKNOWN]

    def __len__(self) -> int:
        return len(self.types)

    @property
    def fingerprint(self) -> str:
        """A short text that differs between vocabularies."""
        types = "\n".join(self.types).encode("utf-8", "surrogatepass")
        return f"{len(self)} types, crc {zlib.crc32(types):08x}"

    def id(self, token: str) -> int:
        """The id of a type, that of `<UNK>` for all others."""
        return self._ids.get(token, self.unknown)

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary file: one type per line, whose id is its number among them, from 0.

        Lines `!!!MAXTERMID` hold no type and have no id. A file named .gz is decompressed, up to
        the size that `max_content` allows. A file that can't be read, is not UTF-8, lacks a special
        type, or has a type twice or a tab in a line is an InputError.
        """
        check_regular(path, InputError)
        try:
            content = _content_of(path)
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            kind = identify(content)
            found = str(error) if kind is None else kind.name
            raise InputError(f"can't be read ({found})", _VOCABULARY_HINT, where=path) from None
        except (OSError, EOFError, zlib.error) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"can't be read ({reason})", _VOCABULARY_HINT, where=path) from None
        lines = text.removesuffix("\n").split("\n")
        types = [token for token in map(str.strip, lines) if token != _PLACEHOLDER_LINE]
        if "\t" in text or len(set(types)) < len(types):
            _check_lines(lines, str(path))
        return cls(types, where=str(path))

    def write(self, path: str | Path) -> None:
        """Write one type per line in UTF-8; replace an existing file when the new is complete."""
        write_text(path, (f"{token}\n" for token in self.types), durable=True)


def _check_lines(lines: Sequence[str], path: str) -> None:
    """Raise an InputError for the first line of a vocabulary file that is not valid."""
    line_of: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        token = line.strip()
        if token == _PLACEHOLDER_LINE:
            continue
        if "\t" in token:
            problem = f"a tab in {shortened(token)!r}; a line is one type, without its count"
            hint = "`cut -f1 FILE > NEW_FILE` keeps the first column, `cut -f2` the second"
            raise InputError(problem, hint, where=f"{path}, line {number}")
        if token in line_of:
            problem = f"{token!r} is already on line {line_of[token]}"
            hint = "a type has one id: remove it from vocabulary and softmax"
            raise InputError(problem, hint, where=f"{path}, line {number}")
        line_of[token] = number


def _content_of(path: str | Path) -> bytes:
    """The bytes of a file, of a .gz file decompressed; an OSError if these are too many."""
    if not str(path).endswith(".gz"):
        return Path(path).read_bytes()
    limit = max_content(path)
    with gzip.open(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(f"its content is larger than {format_bytes(limit)}")
    return content


@dataclass(frozen=True)
class TypeCounts:
    """How often each type of a text occurs, and the number of its sentences with tokens."""

    counts: Counter[str]
    n_sentences: int

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], *, name: str = "the text") -> TypeCounts:
        """Count the tokens of sentences; none is an InputError that contains `name`."""
        counts: Counter[str] = Counter()
        n_sentences = 0
        for sentence in sentences:
            counts.update(sentence)
            n_sentences += len(sentence) > 0
        if not counts:
            raise InputError("contains no sentences", "give a text with tokens", where=name)
        return cls(counts, n_sentences)

    @property
    def n_tokens(self) -> int:
        """Tokens of the text."""
        return self.counts.total()

    @property
    def warning(self) -> str:
        """A warning about types that no vocabulary file can hold; empty if there are none."""
        left_out = [token for token in self.counts if not _is_writable(token)]
        if not left_out:
            return ""
        reason = "with a tab, a line end or white space at their ends, or a reserved name"
        n_types = plural(len(left_out), "type")
        return f"left out {n_types} {reason}; the first is {left_out[0]!r}"

    def vocabulary(self, *, min_count: int = 1, max_types: int | None = None) -> Vocabulary:
        """The types by descending count, after `<S>`, `</S>`, `<UNK>`; at most `max_types`.

        Rarer types than `min_count` are left out, and so are those that a vocabulary file can't
        hold; a UsageError if none is left.
        """
        frequent = []
        most = 0
        for token, count in self.counts.items():
            if token in SPECIALS or not _is_writable(token):
                continue
            most = max(most, count)
            if count >= min_count:
                frequent.append((-count, token))
        if not frequent:
            problem = f"the most frequent type of the text occurs {plural(most, 'time')}"
            hint = "give a smaller number, or more text"
            raise UsageError(problem, hint, where=f"`min_count={min_count}`")
        # Equal counts in alphabetical order, so that the order of the text does not matter.
        types = [token for _, token in sorted(frequent)]
        return Vocabulary([*SPECIALS, *types][:max_types])

    def coverage(self, vocabulary: Vocabulary) -> float:
        """The fraction of the tokens whose type is in a vocabulary, 0 to 1."""
        return _count_known(self.counts, vocabulary) / self.n_tokens


def vocabulary_fit(rule: FitRule, counts: Mapping[str, int], vocabulary: Vocabulary) -> FitPoint:
    """Count the tokens of a text that are in a vocabulary; the example is the first that is not.

    Args:
        counts: how often each type of the text occurs, in the order of their first occurrence.
    """
    first_unknown = ""
    for token, count in counts.items():
        if count and vocabulary.id(token) == vocabulary.unknown:
            first_unknown = token
            break
    return FitPoint(
        rule,
        n_fitting=_count_known(counts, vocabulary),
        n_all=sum(counts.values()),
        example=shortened(first_unknown),
    )


def _count_known(counts: Mapping[str, int], vocabulary: Vocabulary) -> int:
    """The number of tokens whose type is in a vocabulary."""
    n_known = 0
    for token, count in counts.items():
        if vocabulary.id(token) != vocabulary.unknown:
            n_known += count
    return n_known


def _is_writable(token: str) -> bool:
    """Whether a line of a vocabulary file can hold a type."""
    has_outer_space = token != token.strip()
    has_separator = "\n" in token or "\t" in token  # a count could follow a tab
    return not has_outer_space and not has_separator and token != _PLACEHOLDER_LINE
