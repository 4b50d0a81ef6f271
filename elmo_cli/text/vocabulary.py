"""Vocabulary: types and their ids, in the file form of bilm-tf."""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from elmo_cli.errors import InputError
from elmo_cli.files import write_text
from elmo_cli.text.characters import BEGIN, END

UNKNOWN = "<UNK>"
SPECIALS = (BEGIN, END, UNKNOWN)
_FILLER = "!!!MAXTERMID"
_MOST_UNPACKED = 256 << 20  # bytes; a million types have some ten million


class Vocabulary:
    """Types and their ids; what is not among them has the id of `<UNK>`.

    Args:
        types: `<S>`, `</S>` and `<UNK>` among them, the id of each is its place.
    Attributes:
        types: as given.
        begin, end, unknown: ids of `<S>`, `</S>`, `<UNK>`.
    Raises:
        InputError: a special type is missing.

    Source: bilm-tf `bilm/data.py` `Vocabulary`; a type that stands there twice has its later id.
    """

    def __init__(self, types: Sequence[str], *, where: str = "vocabulary") -> None:
        self.types = tuple(types)
        self._ids = {token: i for i, token in enumerate(self.types)}
        for special in SPECIALS:
            if special not in self._ids:
                raise InputError(
                    f"{where}, lines 1 to {len(self.types)}: {special} is not among the types",
                    "a vocabulary begins with <S>, </S>, <UNK>, each on a line of its own",
                )
        self.begin, self.end, self.unknown = (self._ids[special] for special in SPECIALS)

    def __len__(self) -> int:
        return len(self.types)

    @property
    def known_by(self) -> str:
        """What tells it from another one, in words."""
        types = "\n".join(self.types).encode("utf-8", "surrogatepass")
        return f"{len(self)} types, crc {zlib.crc32(types):08x}"

    def id(self, token: str) -> int:
        """The id of a type, that of `<UNK>` for what is not in the vocabulary."""
        return self._ids.get(token, self.unknown)

    @classmethod
    def count(
        cls,
        tokens: Iterable[str] | Mapping[str, int],
        *,
        min_count: int = 1,
        max_types: int | None = None,
    ) -> Vocabulary:
        """The types of a text, the commonest first, after `<S>`, `</S>`, `<UNK>`.

        Args:
            tokens: the whole text, borders not among it; or how often each type stands in it.
            min_count: types seen less often are left out, and so are those that can't stand on a
                line of a vocabulary file (see `fits_a_line`).
            max_types: size of the vocabulary at most, the specials counted.
        """
        counts = Counter(tokens)
        for special in SPECIALS:
            del counts[special]
        # Equal counts in the order of the alphabet, so that the order of the text does not matter.
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        types = [token for token, count in ranked if count >= min_count and fits_a_line(token)]
        if max_types is not None:
            types = types[: max(0, max_types - len(SPECIALS))]
        return cls([*SPECIALS, *types])

    @classmethod
    def read(cls, path: str | Path) -> Vocabulary:
        """Read a vocabulary: one type a line, the id of each is its line from 0.

        Lines `!!!MAXTERMID` hold no type and no id. A file called .gz is decompressed.

        Raises:
            InputError: not there, not UTF-8, a special type is missing, or it is decompressed to
                more than makes sense.
        """
        try:
            text = _content(Path(path)).decode("utf-8-sig")
        except FileNotFoundError:
            raise InputError(f"{path}: no such vocabulary", "`elmo vocab` makes one") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"{path}, line {line}: 0x{error.object[error.start]:02X} is not UTF-8",
                "save the vocabulary as UTF-8, one type a line",
            ) from None
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: can't be read ({error})", "give a vocabulary file") from None
        types = [line.strip() for line in text.removesuffix("\n").split("\n")]
        return cls([token for token in types if token != _FILLER], where=str(path))

    def write(self, path: str | Path) -> None:
        """Write one type a line, UTF-8; a file that is there stays until the new one is whole.

        Raises:
            OutputError: the place can't be written to.
        """
        write_text(path, (f"{token}\n" for token in self.types))


def _content(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    with gzip.open(path) as file:
        content = file.read(_MOST_UNPACKED + 1)
    if len(content) > _MOST_UNPACKED:
        raise InputError(
            f"{path}: more than {_MOST_UNPACKED >> 20} MiB when decompressed",
            "decompress it by hand if you trust it, and give that file",
        )
    return content


def fits_a_line(token: str) -> bool:
    """Whether a vocabulary file can hold a type: it has no line end in it nor white space at its
    edges, and is not the filler."""
    return token == token.strip() != _FILLER and "\n" not in token
