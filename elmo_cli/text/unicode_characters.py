"""UnicodeCharacterIds: from tokens to the ids of their Unicode characters, and of known words."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_cli.arrays import Int64Array
from elmo_cli.errors import ModelError
from elmo_cli.messages import format_bytes, shortened
from elmo_cli.regular_files import check_regular

BEGIN_MARK = "<bos>"  # tokens and, in the dictionary, characters
END_MARK = "<eos>"
_UNKNOWN = "<oov>"
_PADDING_MARK = "<pad>"
# The marks of a word are swapped, which is how the published models were trained.
_FIRST_CHARACTER = "<eow>"
_LAST_CHARACTER = "<bow>"
_BLANK_ENTRY = "\u3000"  # what `strip` leaves of such a line is the id alone
_REQUIRED_CHARACTERS = (
    _UNKNOWN, BEGIN_MARK, END_MARK, _PADDING_MARK, _FIRST_CHARACTER, _LAST_CHARACTER,
)  # fmt: skip
_REQUIRED_WORDS = (_UNKNOWN, _PADDING_MARK)
_MAX_BYTES = 1 << 28  # of a dictionary; published ones have a few megabytes
_HINT = "get the file again; a line is an entry, a tab and its number"


class UnicodeCharacterIds:
    """Ids of the Unicode characters of tokens, and of words, as ELMoForManyLangs numbers them.

    A token is cut to `max_characters - 2` code points before it is looked up among the words. A
    character or word that has no entry is `<oov>`. No character is normalized.

    Args:
        characters: the id of each character, with the entries for boundaries, marks and padding.
        words: the id of each word; None for a model without words.
        max_characters: ids of characters per token.

    Source: ELMoForManyLangs `elmoformanylangs/elmo.py` `create_one_batch`.
    """

    begin = BEGIN_MARK
    end = END_MARK

    def __init__(
        self,
        characters: Mapping[str, int],
        words: Mapping[str, int] | None,
        max_characters: int = 50,
    ) -> None:
        self.padding = characters[_PADDING_MARK]
        self.known_characters: Collection[str] | None = characters.keys()
        self.known_words: Collection[str] | None = None if words is None else words.keys()
        self._characters = characters
        self._words = words
        self._max_characters = max_characters

    def tokens(self, tokens: Iterable[str]) -> Int64Array:
        """The ids of tokens, (token, id): those of its characters, then that of the word if any."""
        rows = list(tokens)
        n_ids = self._max_characters + (self._words is not None)
        ids = np.full((len(rows), n_ids), self.padding, np.int64)
        ids[:, 0] = self._characters[_FIRST_CHARACTER]
        unknown = self._characters[_UNKNOWN]
        for row, token in zip(ids, rows, strict=True):
            cut = token[: self._max_characters - 2]
            characters = [cut] if cut in (BEGIN_MARK, END_MARK) else list(cut)
            n_characters = len(characters)
            row[1 : 1 + n_characters] = [self._characters.get(c, unknown) for c in characters]
            row[1 + n_characters] = self._characters[_LAST_CHARACTER]
            if self._words is not None:
                row[-1] = self._words.get(cut, self._words[_UNKNOWN])
        return ids


@dataclass(frozen=True)
class Dictionary:
    """The dictionary of the characters or the words of a model.

    Attributes:
        path: the file.
        ids: the row of each entry in the embedding matrix.
        n_blank: lines without an entry, each of which stands for U+3000.
    """

    path: Path
    ids: Mapping[str, int]
    n_blank: int

    @property
    def text(self) -> str:
        """The content of a file that is read as this dictionary, by ascending id."""
        entries = sorted(self.ids.items(), key=lambda entry: entry[1])
        return "".join(f"{entry}\t{number}\n" for entry, number in entries)

    def check_rows(self, n_rows: int, *, matrix: str) -> None:
        """Raise a ModelError unless each entry has a row of the embedding matrix.

        Args:
            matrix: the name of the file with the matrix, for the message.
        """
        hint = "dictionaries and weights must come from one model: get them again"
        if len(self.ids) != n_rows:
            problem = f"has {len(self.ids):,} entries, {matrix} {n_rows:,} rows"
            if self.n_blank > 1:
                problem += f"; {self.n_blank} of its lines have the same blank entry, U+3000"
            raise ModelError(problem, hint, where=self.path)
        for entry, number in self.ids.items():
            if not 0 <= number < n_rows:
                problem = f"{shortened(entry)!r} has the number {number}, {matrix} {n_rows:,} rows"
                raise ModelError(problem, hint, where=self.path)


def read_characters(path: Path) -> Dictionary:
    """Read the dictionary of the characters of a model; or ModelError."""
    return _read_dictionary(path, _REQUIRED_CHARACTERS)


def read_words(path: Path) -> Dictionary:
    """Read the dictionary of the words of a model; or ModelError."""
    return _read_dictionary(path, _REQUIRED_WORDS)


def _read_dictionary(path: Path, required: Iterable[str]) -> Dictionary:
    """Read lines of an entry, a tab and its id; the last line of an entry wins.

    Source: ELMoForManyLangs, which splits and strips lines with the methods of Python's strings.
    """
    ids: dict[str, int] = {}
    n_blank = 0
    for number, line in enumerate(_content(path).splitlines(), 1):
        fields = line.strip().split("\t")
        if len(fields) == 1:
            fields.insert(0, _BLANK_ENTRY)
            n_blank += 1
        try:
            entry, id_text = fields
            ids[entry] = int(id_text)
        except ValueError:
            problem = f"{shortened(line)!r} is not an entry, a tab and its number"
            raise ModelError(problem, _HINT, where=f"{path}, line {number}") from None
    for entry in required:
        if entry not in ids:
            raise ModelError(f"has no entry {entry}", _HINT, where=path)
    return Dictionary(path, ids, n_blank)


def _content(path: Path) -> str:
    """The text of a dictionary; a ModelError if it is too large, not UTF-8 or unreadable."""
    check_regular(path, ModelError)
    try:
        n_bytes = os.path.getsize(path)
        if n_bytes > _MAX_BYTES:
            size = format_bytes(n_bytes)
            raise ModelError(f"has {size}, too many for a dictionary", _HINT, where=path)
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        problem = f"not UTF-8 ({error.reason} at byte {error.start})"
        raise ModelError(problem, _HINT, where=path) from None
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise ModelError(problem, "check the path and its permissions", where=path) from None
