"""Inputs: the sentences of a data file as padded tensors of words, characters and biLM layers."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.regular_files import check_regular

Array = npt.NDArray[Any]
Tokens = tuple[str, ...]
PADDING, UNKNOWN = 0, 1  # rows of the table of word vectors
MAX_BYTES = 20  # of a token for the character CNN, with its begin and end ids
_BEGIN, _END = 257, 258
N_CHARACTERS = 259
_MAX_WORDS = 100_000  # words of a file of word vectors that a task model keeps


@dataclass(frozen=True)
class SentenceBatch:
    """Sentences padded to one length.

    Attributes:
        lengths: (batch,), in tokens.
        mask: (batch, token), true where there is a token.
        words: (batch, token) rows of the `WordTable`, 0 where there is no token.
        types: (batch, token) rows of `characters`, one per distinct token; 0 where there is none.
        characters: (type, character) ids, 0 where there is none; the first row is padding.
        layers: (layer, batch, token, dim) float32, 0 where there is no token; None without ELMo.
    """

    lengths: Tensor
    mask: Tensor
    words: Tensor
    types: Tensor
    characters: Tensor
    layers: Tensor | None

    def __len__(self) -> int:
        return len(self.lengths)


class WordVectors:
    """Pretrained vectors of the most frequent words of a file.

    Args:
        words: distinct words, as in the file.
        vectors: (word, dim).
    """

    def __init__(self, words: Sequence[str], vectors: Array) -> None:
        self.words = list(words)
        with np.errstate(over="ignore"):  # `read` refuses what does not fit
            self.vectors = np.asarray(vectors, np.float16)
        self._rows = {word: row for row, word in enumerate(self.words)}

    @property
    def dim(self) -> int:
        """The dimension of a vector."""
        return int(self.vectors.shape[1])

    def find(self, word: str) -> int | None:
        """Return the row of a word, or else of its lower-case form; None if both are missing."""
        row = self._rows.get(word)
        return self._rows.get(word.lower()) if row is None else row

    @classmethod
    def read(cls, path: str, seen: Iterable[str] = ()) -> WordVectors:
        """Read GloVe or word2vec text, plain or .gz, or .npz with `words` and `vectors`.

        Args:
            seen: words to keep even if they are not among the first 100,000 of the file.
        Raises:
            InputError: the file is not a file of word vectors.
        """
        check_regular(path, InputError)
        wanted = {form for word in seen for form in (word, word.lower())}
        try:
            if path.endswith(".npz"):
                with np.load(path, allow_pickle=False) as arrays:
                    words, vectors = arrays["words"].tolist(), arrays["vectors"]
                if vectors.ndim != 2 or len(words) != len(vectors):
                    raise ValueError("`words` and `vectors` have different lengths")
                rows = {
                    word: vectors[i]
                    for i, word in enumerate(words)
                    if i < _MAX_WORDS or word in wanted
                }
            else:
                rows = dict(_read_rows(path, wanted))
            found = cls(list(rows), np.stack(list(rows.values())))
            if not np.isfinite(found.vectors).all():
                raise ValueError("a value is not finite in float16")
        except (OSError, ValueError, KeyError, EOFError) as error:
            what = f"{path}: cannot be read as word vectors ({error})"
            raise InputError(what, "give GloVe or word2vec text, or .npz") from None
        return found


def _read_rows(path: str, wanted: set[str]) -> Iterator[tuple[str, Array]]:
    """Yield the words and vectors of a text file; the header line of word2vec is skipped."""
    dim = 0
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8", newline="\n") as file:
        for number, line in enumerate(file):
            word, *numbers = line.rstrip().split(" ")
            if number == 0 and len(numbers) == 1:
                continue
            dim = dim or len(numbers)
            if len(numbers) != dim or not dim:
                raise ValueError(f"line {number + 1} has {len(numbers)} numbers, others {dim}")
            if number < _MAX_WORDS or word in wanted:
                yield word, np.array(numbers, np.float32)
    if not dim:
        raise ValueError("the file is empty")


class WordTable:
    """The rows of the word embedding: padding, the unknown word, then one per word.

    Args:
        words: distinct words with a vector.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self._rows = {word: row for row, word in enumerate(self.words, UNKNOWN + 1)}

    def __len__(self) -> int:
        return len(self.words) + UNKNOWN + 1

    @classmethod
    def of(cls, vectors: WordVectors, sentences: Iterable[Tokens]) -> WordTable:
        """Build the table of the words of sentences that have a vector, by first occurrence."""
        found = dict.fromkeys(
            row
            for word in dict.fromkeys(word for tokens in sentences for word in tokens)
            if (row := vectors.find(word)) is not None
        )
        return cls([vectors.words[row] for row in found])

    def extended(self, vectors: WordVectors, sentences: Iterable[Tokens]) -> WordTable:
        """Return this table, extended by further words of `sentences` that have a vector."""
        more = WordTable.of(vectors, sentences).words
        return WordTable(list(dict.fromkeys([*self.words, *more])))

    def rows_of(self, tokens: Tokens) -> list[int]:
        """Return the rows of tokens; an unknown token is also searched in lower case."""
        rows = self._rows
        return [rows.get(t) or rows.get(t.lower(), UNKNOWN) for t in tokens]

    def initial(self, vectors: WordVectors) -> Tensor:
        """Return initial vectors, (row, dim) float32; the unknown word is the mean of the rest."""
        rows = [row for word in self.words if (row := vectors.find(word)) is not None]
        found = torch.from_numpy(vectors.vectors[rows].astype(np.float32))
        mean = found.mean(0, keepdim=True) if len(found) else torch.zeros(1, vectors.dim)
        return torch.cat([torch.zeros(1, vectors.dim), mean, found])


class LayerSource(Protocol):
    """Provides the biLM layers of sentences by index."""

    def __getitem__(self, number: int, /) -> Array:
        """Return the layers of a sentence that the model uses, (layer, token, dim)."""


class Inputs:
    """Makes batches of the sentences of a data file.

    Args:
        sentences: those of the `Split`.
        vectors: the layers of each sentence; None without ELMo.
        words: the word table; None without word vectors.
        device: device of the tensors.
    """

    def __init__(
        self,
        sentences: Sequence[Tokens],
        vectors: LayerSource | None,
        words: WordTable | None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.sentences, self._vectors, self._words = sentences, vectors, words
        self.device = torch.device(device)

    def batch(self, numbers: Sequence[int]) -> SentenceBatch:
        """Return a batch of the sentences with these indices, in this order."""
        found = [self.sentences[number] for number in numbers]
        lengths = np.array([len(tokens) for tokens in found])
        mask = np.arange(lengths.max())[None] < lengths[:, None]
        types: dict[str, int] = {}
        words = np.zeros(mask.shape, np.int64)
        if self._words is not None:
            words[mask] = [row for tokens in found for row in self._words.rows_of(tokens)]
        rows = np.zeros(mask.shape, np.int64)
        rows[mask] = [types.setdefault(t, len(types) + 1) for tokens in found for t in tokens]
        characters = np.zeros((len(types) + 1, MAX_BYTES), np.int64)
        for token, row in types.items():
            ids = character_ids(token)
            characters[row, : len(ids)] = ids
        layers = None if self._vectors is None else self._layers(numbers, int(lengths.max()))
        return SentenceBatch(
            lengths=self._tensor(lengths),
            mask=self._tensor(mask),
            words=self._tensor(words),
            types=self._tensor(rows),
            characters=self._tensor(characters),
            layers=layers,
        )

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _layers(self, numbers: Sequence[int], longest: int) -> Tensor:
        assert self._vectors is not None
        arrays = [self._vectors[number] for number in numbers]
        n_layers, _, dim = arrays[0].shape
        layers = torch.zeros(n_layers, len(arrays), longest, dim, dtype=torch.float32)
        for i, array in enumerate(arrays):
            layers[:, i, : array.shape[1]] = torch.from_numpy(array)
        return layers.to(self.device)


def character_ids(token: str) -> list[int]:
    """Return the ids of the first bytes of a token, between begin and end; 0 is padding."""
    return [_BEGIN, *(byte + 1 for byte in token.encode()[: MAX_BYTES - 2]), _END]
