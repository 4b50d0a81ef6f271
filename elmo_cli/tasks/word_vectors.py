"""WordVectors: words and their pretrained vectors, read from the files of GloVe, word2vec or NumPy.

A file may come from anywhere, so the sizes of its content, of a line and of a vector are limited,
and so is the number of words. If a word occurs twice, its first vector counts, as in gensim: files
are sorted by frequency.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import InputError
from elmo_cli.files import new_file
from elmo_cli.messages import format_bytes, plural
from elmo_cli.regular_files import check_regular
from elmo_cli.text.chunks import check_input_file
from elmo_cli.zip_files import max_content, read_npz

PADDING = 0  # rows of the word embedding
UNKNOWN = 1
FIRST_WORD = 2
_MAX_WORDS = 100_000  # words of a text file that a task model keeps, besides those of the data
_MAX_LINES = 10_000_000  # of a text file; the largest published one has 9 million
_MAX_STORED = 5_000_000  # words of a .npz file, all of which are kept
_MAX_LINE = 1 << 20  # bytes
_MAX_DIM = 10_000
_HEADER = re.compile("([0-9]{1,9}) ([0-9]{1,9})")
_HINT = "give GloVe or word2vec text (also .gz), or .npz with arrays `words` and `vectors`"


class WordVectors:
    """Words and their pretrained vectors: rows of a word embedding after padding and unknown words.

    Args:
        words: distinct words.
        vectors: (word, dim); they are kept in float16.
        n_seen: how many of the words, the first ones, training data contain; by default all.
    Attributes:
        warning: about words that occurred twice in the file; "" for none.
    """

    def __init__(self, words: Sequence[str], vectors: AnyArray, n_seen: int | None = None) -> None:
        self.words = list(words)
        self.warning = ""
        self._n_seen = n_seen
        with np.errstate(over="ignore"):  # `read` refuses what does not fit
            self.vectors = np.asarray(vectors, np.float16)
        self._rows = {word: row for row, word in enumerate(self.words, FIRST_WORD)}

    @classmethod
    def read(cls, path: str, seen: Collection[str] = ()) -> WordVectors:
        """Read GloVe or word2vec text, plain or .gz, or .npz with `words` and `vectors`.

        Of a text file, the first 100,000 words are kept, and those that are `seen` in the data.
        InputError if it is not a file of word vectors.
        """
        check_input_file(path)
        check_regular(path, InputError)
        try:
            is_npz = path.endswith(".npz")
            found = _read_npz(path) if is_npz else _read_text(path, seen)
            _check(found)
        except Exception as error:  # zipfile and NumPy raise a dozen types on corrupt files
            reason = " ".join(str(error).split()) or type(error).__name__
            problem = f"cannot be read as word vectors ({reason})"
            raise InputError(problem, _HINT, where=path) from error
        words = cls(found.words, found.vectors)
        if found.n_repeated:
            words.warning = (
                f"{path}: left out {plural(found.n_repeated, 'vector')} of words that have one "
                f"already, such as {found.repeated!r}; the first vector of a word counts"
            )
        return words

    def write(self, path: Path) -> None:
        """Write a .npz file that `read` reads, and wait until it is on the disk; or OutputError."""
        # One string, since a NumPy array pads each string to the length of the longest.
        words = np.frombuffer("\n".join(self.words).encode(), np.uint8)
        with new_file(path, durable=True) as file:
            np.savez(file, words=words, vectors=self.vectors)

    def rows_of(self, tokens: Iterable[str]) -> list[int]:
        """Return the rows of tokens, or else of their lower-case forms, or else `UNKNOWN`."""
        rows = self._rows
        return [rows.get(token) or rows.get(token.lower(), UNKNOWN) for token in tokens]

    def has_vectors(self, tokens: Iterable[str]) -> list[bool]:
        """Return whether tokens, or their lower-case forms, have vectors."""
        return [row != UNKNOWN for row in self.rows_of(tokens)]

    def with_first(self, tokens: Iterable[str]) -> WordVectors:
        """Move the words of tokens of training data to the front."""
        seen = [row - FIRST_WORD for row in self.rows_of(tokens) if row >= FIRST_WORD]
        n_seen = len(set(seen))
        order = list(dict.fromkeys([*seen, *range(len(self.words))]))
        ordered = WordVectors([self.words[i] for i in order], self.vectors[order], n_seen)
        ordered.warning = self.warning
        return ordered

    def table(self) -> Tensor:
        """Return the rows up to the last seen word, (row, dim); unknown words have the mean."""
        seen = torch.from_numpy(self.vectors[: self._n_seen].astype(np.float32))
        unknown = seen.mean(0, keepdim=True) if len(seen) else seen.new_zeros(1, seen.shape[1])
        padding = torch.zeros_like(unknown)
        return torch.cat([padding, unknown, seen])


@dataclass(frozen=True)
class _FoundVectors:
    """What a file contains.

    Attributes:
        words: distinct words.
        vectors: (word, dim), the first of each word.
        n_repeated: further vectors, which are left out.
        repeated: the first word that has one; "" for none.
    """

    words: list[str]
    vectors: AnyArray
    n_repeated: int = 0
    repeated: str = ""


def _check(found: _FoundVectors) -> None:
    """Raise a ValueError unless each word has a vector of finite values, and can be stored."""
    vectors = found.vectors
    if not found.words:
        raise ValueError("it contains no words")
    if vectors.dtype.kind not in "fiu":
        raise ValueError(f"its vectors are of the type {vectors.dtype}")
    with np.errstate(over="ignore"):
        is_finite = np.isfinite(vectors.astype(np.float16)).all()
    if not is_finite:
        raise ValueError("a value is not finite in float16")
    text = "\n".join(found.words)
    text.encode()  # a word may have half a surrogate pair, which is a ValueError
    if text.count("\n") != len(found.words) - 1:
        raise ValueError("a word contains a line end")


def _check_dim(dim: int) -> None:
    if not 0 < dim <= _MAX_DIM:
        raise ValueError(f"a vector has {dim:,} values, not 1 to {_MAX_DIM:,}")


def _read_npz(path: str) -> _FoundVectors:
    arrays = read_npz(path)
    for name in ("words", "vectors"):
        if name not in arrays:
            raise ValueError(f"it has no array {name!r}")
    words = _decode(arrays["words"])
    vectors = arrays["vectors"]
    if vectors.ndim != 2 or len(vectors) != len(words):
        raise ValueError("it does not have one vector per word")
    _check_dim(vectors.shape[1])
    rows: dict[str, int] = {}  # of the first vector of each word
    repeated = ""
    for row, word in enumerate(words):
        is_repeated = rows.setdefault(word, row) != row
        if is_repeated and not repeated:
            repeated = word
    n_repeated = len(words) - len(rows)
    if n_repeated == 0:
        return _FoundVectors(words, vectors)
    return _FoundVectors(
        words=list(rows),
        vectors=vectors[list(rows.values())],
        n_repeated=n_repeated,
        repeated=repeated,
    )


def _decode(words: AnyArray) -> list[str]:
    """Return words that are strings, bytes, or one text with a line for each, as `write` has it."""
    kind = words.dtype.kind
    is_text = words.dtype == np.uint8
    if words.ndim != 1 or (kind not in "US" and not is_text):
        raise ValueError(f"its words are of the type {words.dtype} and the shape {words.shape}")
    if is_text:
        text = words.tobytes()
        _check_n_words(text.count(b"\n") + 1)
        return text.decode().split("\n")
    _check_n_words(len(words))
    if kind == "S":
        return [word.decode() for word in words]
    strings: list[str] = words.tolist()
    return strings


def _check_n_words(n_words: int) -> None:
    if n_words > _MAX_STORED:
        raise ValueError(f"it has {n_words:,} words, more than {_MAX_STORED:,}")


def _read_text(path: str, seen: Collection[str]) -> _FoundVectors:
    """Read the first words of a text file, and those that are seen in the data."""
    wanted = {*seen, *(word.lower() for word in seen)}
    vectors: dict[str, AnyArray] = {}
    n_repeated = 0
    repeated = ""
    for row in _read_rows(path):
        if row.number > _MAX_WORDS and row.word not in wanted:
            continue
        if row.word in vectors:
            n_repeated += 1
            if not repeated:
                repeated = row.word
        else:
            vectors[row.word] = row.vector()
    table = np.stack(list(vectors.values())) if vectors else np.zeros((0, 1))
    return _FoundVectors(
        words=list(vectors),
        vectors=table,
        n_repeated=n_repeated,
        repeated=repeated,
    )


class _TextRow(NamedTuple):
    """A line of a text file.

    Attributes:
        number: of the line, from 1.
        values: the values of the vector, as text.
        dim: how many values there must be.
    """

    number: int
    word: str
    values: list[str]
    dim: int

    def vector(self) -> AnyArray:
        """Parse the values; ValueError that names the line if they are invalid."""
        try:
            vector = np.array(self.values, np.float32)
        except ValueError as error:
            raise ValueError(f"line {self.number}: {error}") from None
        if len(vector) != self.dim:
            raise ValueError(f"line {self.number}: expected a word and {self.dim} values")
        return vector


@dataclass(frozen=True)
class _Header:
    """The first line of a text file of word2vec: the numbers of words and of values per word."""

    n_rows: int
    dim: int

    @classmethod
    def parse(cls, line: str) -> _Header:
        """Read the line, or raise a ValueError."""
        match = _HEADER.fullmatch(line.rstrip())
        if match is None:
            raise ValueError("line 1: neither a word and its values nor a header of two numbers")
        return cls(n_rows=int(match[1]), dim=int(match[2]))


def _read_rows(path: str) -> Iterator[_TextRow]:
    """Yield the rows of a text file; blank lines are skipped.

    The first vector determines the dimension, since words may contain spaces, as in GloVe 840B.

    Raises:
        ValueError: the header line, which word2vec has, states another dimension or more rows than
            the file has; or a line has no values.
    """
    dim = 0  # unknown
    max_splits = -1  # at all spaces
    header: _Header | None = None
    n_rows = 0
    for number, line in enumerate(_read_lines(path), 1):
        word, *values = line.rstrip().rsplit(" ", max_splits)
        if number == 1 and len(values) == 1:
            header = _Header.parse(line)
            continue
        if not line.strip():
            continue
        if dim == 0:
            dim = len(values)
            if dim == 0:
                raise ValueError(f"line {number}: expected a word and its values")
            _check_dim(dim)
            if header is not None and dim != header.dim:
                stated = f"its header states {header.dim:,} values per word"
                raise ValueError(f"{stated}, line {number} has {dim:,}")
            max_splits = dim
        n_rows += 1
        yield _TextRow(number=number, word=word, values=values, dim=dim)
    if header is not None and n_rows < header.n_rows:
        stated = f"its header states {plural(header.n_rows, 'word')}"
        raise ValueError(f"{stated}, but it has {n_rows:,}: it may be truncated")


def _read_lines(path: str) -> Iterator[str]:
    """Yield the lines of a text file, plain or .gz; ValueError for one that is far too large."""
    is_gzip = path.endswith(".gz")
    limit = max_content(path)
    # A vector takes more than a byte, also in a .gz file, unless very many vectors are equal.
    max_lines = min(_MAX_LINES, max(_MAX_WORDS, os.path.getsize(path)))
    n_bytes = 0
    with gzip.open(path) if is_gzip else open(path, "rb") as file:
        for number in range(1, max_lines + 1):
            line = file.readline(_MAX_LINE)
            if not line:
                return
            n_bytes += len(line)
            if len(line) == _MAX_LINE:
                raise ValueError(f"line {number}: longer than {format_bytes(_MAX_LINE)}")
            if is_gzip and n_bytes > limit:
                raise ValueError(f"its content has more than {format_bytes(limit)}")
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    raise ValueError(f"it has more than {max_lines:,} lines")
