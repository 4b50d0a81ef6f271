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
from elmo_cli.regular_files import check_regular
from elmo_cli.text.characters import BEGIN, END

UNKNOWN = "<UNK>"
SPECIALS = (BEGIN, END, UNKNOWN)
PLACEHOLDER_LINE = "!!!MAXTERMID"  # of a vocabulary file; it has no id
_MAX_UNPACKED_BYTES = 256 << 20  # a million types have some ten million


class Vocabulary:
    """Types and their ids; all other tokens have the id of `<UNK>`.

    Args:
        types: `<S>`, `</S>` and `<UNK>` among them; the id of each is its index.
    Attributes:
        types: as given.
        begin, end, unknown: ids of `<S>`, `</S>`, `<UNK>`.
    Raises:
        InputError: a special type is missing.

    Source: bilm-tf `bilm/data.py` `Vocabulary`; a type that occurs twice has its later id.
    """

    def __init__(self, types: Sequence[str], *, where: str = "vocabulary") -> None:
        self.types = tuple(types)
        self._ids = {token: i for i, token in enumerate(self.types)}
        for special in SPECIALS:
            if special not in self._ids:
                raise InputError(
                    f"{where}, lines 1 to {len(self.types)}: {special} is not among the types",
                    "a vocabulary begins with <S>, </S>, <UNK>, one per line",
                )
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
    def count(
        cls,
        tokens: Iterable[str] | Mapping[str, int],
        *,
        min_count: int = 1,
        max_types: int | None = None,
    ) -> Vocabulary:
        """The types of a text by descending count, after `<S>`, `</S>`, `<UNK>`.

        Args:
            tokens: the whole text without sentence boundaries; or the count of each type.
            min_count: rarer types are left out, and so are those that a vocabulary file can't hold
                (see `is_writable`).
            max_types: maximal size of the vocabulary, specials included.
        """
        counts = Counter(tokens)
        for special in SPECIALS:
            del counts[special]
        # Equal counts in alphabetical order, so that the order of the text does not matter.
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        types = [token for token, count in ranked if count >= min_count and is_writable(token)]
        if max_types is not None:
            types = types[: max(0, max_types - len(SPECIALS))]
        return cls([*SPECIALS, *types])

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary file: one type per line, whose id is its zero-based line number.

        Lines `!!!MAXTERMID` hold no type and have no id. A file named .gz is decompressed.

        Raises:
            InputError: the file is missing, not UTF-8, lacks a special type, or decompresses to
                an implausible size.
        """
        check_regular(path, InputError)
        try:
            text = _content(Path(path)).decode("utf-8-sig")
        except FileNotFoundError:
            raise InputError(f"{path}: no such vocabulary", "`elmo vocab` makes one") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"{path}, line {line}: 0x{error.object[error.start]:02X} is not UTF-8",
                "save the vocabulary as UTF-8, one type per line",
            ) from None
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: can't be read ({error})", "give a vocabulary file") from None
        types = [line.strip() for line in text.removesuffix("\n").split("\n")]
        first: dict[str, int] = {}
        for number, token in enumerate(types, start=1):
            if first.setdefault(token, number) != number and token != PLACEHOLDER_LINE:
                raise InputError(
                    f"{path}, line {number}: {token!r} is already on line {first[token]}",
                    "each type has one id: remove one of the two from vocabulary and softmax",
                )
        return cls([token for token in types if token != PLACEHOLDER_LINE], where=str(path))

    def write(self, path: str | Path) -> None:
        """Write one type per line in UTF-8; an existing file is replaced when the new is complete.

        Raises:
            OutputError: the file can't be written.
        """
        write_text(path, (f"{token}\n" for token in self.types))


@dataclass(frozen=True)
class TypeCounts:
    """How often each type of a text occurs; memory grows with the types alone.

    Attributes:
        counts: tokens of each type.
        n_sentences: those with tokens.
    """

    counts: Counter[str]
    n_sentences: int

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]], *, name: str = "the text") -> TypeCounts:
        """Count the tokens of sentences.

        Args:
            name: of the text, for messages.
        Raises:
            InputError: there is no token.
        """
        counts: Counter[str] = Counter()
        n_sentences = 0
        for sentence in sentences:
            counts.update(sentence)
            n_sentences += len(sentence) > 0
        if not counts:
            raise InputError(f"{name}: no sentence in it", "give a text with tokens")
        return cls(counts, n_sentences)

    @property
    def n_tokens(self) -> int:
        """Tokens of the text."""
        return self.counts.total()

    @property
    def unwritable_types(self) -> list[str]:
        """Types that no vocabulary file can hold."""
        return [token for token in self.counts if not is_writable(token)]

    @property
    def warning(self) -> str | None:
        """A warning about `unwritable_types`; None if there are none."""
        types = self.unwritable_types
        if not types:
            return None
        return (
            f"left out, since no vocabulary can hold them: {len(types):,} types with a line end "
            f"or white space at their ends, or a reserved name; the first is {types[0]!r}"
        )

    def vocabulary(self, *, min_count: int = 1, max_types: int | None = None) -> Vocabulary:
        """The types as `Vocabulary.count` selects and sorts them.

        Raises:
            UsageError: none occurs `min_count` times.
            InputError: there are only special and unwritable types.
        """
        vocabulary = Vocabulary.count(self.counts, min_count=min_count, max_types=max_types)
        if len(vocabulary) == len(SPECIALS):
            usable = {token for token in self.counts if is_writable(token)}.difference(SPECIALS)
            if not usable:
                raise InputError(
                    "the text: no token of it is a type that a vocabulary can hold",
                    "give a text with words in it, without <S>, </S> and <UNK>",
                )
            raise UsageError(
                f"`min_count={min_count}`: the most frequent type of the text occurs "
                f"{max(self.counts[token] for token in usable)} times",
                "give a smaller number, or more text",
            )
        return vocabulary

    def coverage(self, vocabulary: Vocabulary) -> float:
        """The fraction of the tokens whose type is in a vocabulary, 0 to 1."""
        unknown = vocabulary.unknown
        n_known = sum(n for token, n in self.counts.items() if vocabulary.id(token) != unknown)
        return n_known / self.n_tokens


def is_writable(token: str) -> bool:
    """Whether a vocabulary file can hold a type: without line ends, without white space at its
    ends, and not the placeholder."""
    return token == token.strip() != PLACEHOLDER_LINE and "\n" not in token


def _content(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    with gzip.open(path) as file:
        content = file.read(_MAX_UNPACKED_BYTES + 1)
    if len(content) > _MAX_UNPACKED_BYTES:
        raise InputError(
            f"{path}: more than {_MAX_UNPACKED_BYTES >> 20} MiB when decompressed",
            "decompress it yourself if you trust it, and give that file",
        )
    return content
