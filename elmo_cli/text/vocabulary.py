"""The types (distinct tokens) of a text, counted and numbered, in the file format of bilm-tf."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo_cli.errors import InputError, UsageError
from elmo_cli.files import write_text
from elmo_cli.messages import plural
from elmo_cli.regular_files import check_regular
from elmo_cli.text.characters import BEGIN, END

SPECIALS = (BEGIN, END, "<UNK>")
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
        if missing := [special for special in SPECIALS if special not in self._ids]:
            hint = "a vocabulary begins with <S>, </S>, <UNK>, one per line"
            raise InputError(f"{where}: {missing[0]} is not among the types", hint)
        self.begin, self.end, self.unknown = (self._ids[special] for special in SPECIALS)

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

        Lines `!!!MAXTERMID` hold no type and have no id. A file named .gz is decompressed. A file
        that can't be read, is not UTF-8, lacks a special type or has a type twice is an InputError.
        """
        check_regular(path, InputError)
        try:
            with (gzip.open if str(path).endswith(".gz") else open)(path, "rb") as file:
                text = file.read().decode("utf-8-sig")
        except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
            hint = "give a vocabulary file: UTF-8, one type per line; `elmo vocab` makes one"
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{path}: can't be read ({reason})", hint) from None
        types = [line.strip() for line in text.removesuffix("\n").split("\n")]
        first: dict[str, int] = {}
        for number, token in enumerate(types, start=1):
            if first.setdefault(token, number) != number and token != _PLACEHOLDER_LINE:
                what = f"{path}, line {number}: {token!r} is already on line {first[token]}"
                raise InputError(what, "a type has one id: remove it from vocabulary and softmax")
        return cls([token for token in types if token != _PLACEHOLDER_LINE], where=str(path))

    def write(self, path: str | Path) -> None:
        """Write one type per line in UTF-8; replace an existing file when the new is complete."""
        write_text(path, (f"{token}\n" for token in self.types))


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
            raise InputError(f"{name}: contains no sentences", "give a text with tokens")
        return cls(counts, n_sentences)

    @property
    def n_tokens(self) -> int:
        """Tokens of the text."""
        return self.counts.total()

    @property
    def warning(self) -> str:
        """A warning about types that no vocabulary file can hold; empty if there are none."""
        types = [token for token in self.counts if not _is_writable(token)]
        what = "with a line end or white space at their ends, or a reserved name; the first is"
        return f"left out {plural(len(types), 'type')} {what} {types[0]!r}" if types else ""

    def vocabulary(self, *, min_count: int = 1, max_types: int | None = None) -> Vocabulary:
        """The types by descending count, after `<S>`, `</S>`, `<UNK>`; at most `max_types`.

        Rarer types than `min_count` are left out, and so are those that a vocabulary file can't
        hold; a UsageError if none is left.
        """
        usable = [(-n, t) for t, n in self.counts.items() if t not in SPECIALS and _is_writable(t)]
        # Equal counts in alphabetical order, so that the order of the text does not matter.
        types = [token for n, token in sorted(usable) if -n >= min_count]
        if not types:
            most = -min(usable)[0] if usable else 0
            what = f"the most frequent type of the text occurs {plural(most, 'time')}"
            hint = "give a smaller number, or more text"
            raise UsageError(f"`min_count={min_count}`: {what}", hint)
        return Vocabulary([*SPECIALS, *types][:max_types])

    def coverage(self, vocabulary: Vocabulary) -> float:
        """The fraction of the tokens whose type is in a vocabulary, 0 to 1."""
        unknown = vocabulary.unknown
        n_known = sum(n for token, n in self.counts.items() if vocabulary.id(token) != unknown)
        return n_known / self.n_tokens


def _is_writable(token: str) -> bool:
    return token == token.strip() != _PLACEHOLDER_LINE and "\n" not in token
