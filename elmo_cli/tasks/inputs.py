"""Inputs: the sentences of a data file as padded tensors of words, characters and biLM layers."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo_cli.errors import InputError
from elmo_cli.regular_files import check_regular

Array = npt.NDArray[Any]
Tokens = tuple[str, ...]
LayerReader = Callable[[int], Array]  # index of a sentence -> its layers, (layer, token, dim)
PADDING, UNKNOWN = 0, 1  # rows of the word embedding
_MAX_BYTES = 20  # of a token for the character CNN, with its begin and end ids
_BEGIN, _END = 257, 258
N_CHARACTERS = 259
_MAX_WORDS = 100_000  # words of a file of word vectors that a task model keeps


@dataclass(frozen=True)
class SentenceBatch:
    """Sentences padded to one length.

    Attributes:
        layers: (layer, batch, token, dim) float32, 0 where there is no token; None without ELMo.
        lengths: (batch,), in tokens.
        mask: (batch, token), true where there is a token.
        words: (batch, token) rows of the word embedding, 0 where there is no token.
        types: (batch, token) rows of `characters`, one per distinct token; 0 where there is none.
        characters: (type, character) ids, 0 where there is none; the first row is padding.
    """

    layers: Tensor | None
    lengths: Tensor
    mask: Tensor
    words: Tensor
    types: Tensor
    characters: Tensor


class WordVectors:
    """Words and their pretrained vectors: rows of a word embedding after padding and unknown words.

    Args:
        words: distinct words.
        vectors: (word, dim); they are kept in float16.
    """

    def __init__(self, words: Sequence[str], vectors: Array) -> None:
        self.words = list(words)
        with np.errstate(over="ignore"):  # `read` refuses what does not fit
            self.vectors = np.asarray(vectors, np.float16)
        self._rows = {word: row for row, word in enumerate(self.words, UNKNOWN + 1)}

    @classmethod
    def read(cls, path: str, seen: Collection[str] = ()) -> WordVectors:
        """Read GloVe or word2vec text, plain or .gz, or .npz with `words` and `vectors`.

        Args:
            seen: words to keep even if they are not among the first 100,000 of a text file.
        Raises:
            InputError: the file is not a file of word vectors.
        """
        check_regular(path, InputError)
        try:
            if path.endswith(".npz"):
                with np.load(path, allow_pickle=False) as arrays:
                    found = cls(arrays["words"].tolist(), arrays["vectors"])
            else:
                rows = dict(_read_rows(path, {*seen, *map(str.lower, seen)}))
                found = cls(list(rows), np.stack(list(rows.values())))
            if found.vectors.ndim != 2 or len(found.words) != len(found.vectors):
                raise ValueError("`words` and `vectors` have different lengths")
            if not np.isfinite(found.vectors).all():
                raise ValueError("a value is not finite in float16")
        except (OSError, ValueError, KeyError, EOFError) as error:
            what = f"{path}: cannot be read as word vectors ({error})"
            raise InputError(what, "give GloVe or word2vec text, or .npz") from None
        return found

    def rows_of(self, tokens: Iterable[str]) -> list[int]:
        """Return the rows of tokens, or else of their lower-case forms, or else `UNKNOWN`."""
        rows = self._rows
        return [rows.get(token) or rows.get(token.lower(), UNKNOWN) for token in tokens]

    def with_first(self, tokens: Iterable[str]) -> tuple[WordVectors, int]:
        """Move the words of tokens to the front; return also the number of these words."""
        first = [row - UNKNOWN - 1 for row in dict.fromkeys(self.rows_of(tokens)) if row > UNKNOWN]
        order = list(dict.fromkeys([*first, *range(len(self.words))]))
        return WordVectors([self.words[i] for i in order], self.vectors[order]), len(first)

    def table(self, n_words: int | None = None) -> Tensor:
        """Return the initial rows up to the first `n_words` words, (row, dim) float32.

        The row of unknown words is the mean of these words.
        """
        found = torch.from_numpy(self.vectors[:n_words].astype(np.float32))
        unknown = found.mean(0, keepdim=True) if len(found) else found.new_zeros(1, found.shape[1])
        return torch.cat([torch.zeros_like(unknown), unknown, found])


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


class Inputs:
    """Makes batches of the sentences of a data file.

    Args:
        sentences: those of the `Split`.
        read_layers: reads the layers of a sentence; None without ELMo.
        words: the words of the embedding; None without word vectors.
        device: device of the tensors.
    """

    def __init__(
        self,
        sentences: Sequence[Tokens],
        read_layers: LayerReader | None,
        words: WordVectors | None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.sentences, self._read_layers, self._words = sentences, read_layers, words
        self.device = torch.device(device)

    def batch(self, numbers: Sequence[int]) -> SentenceBatch:
        """Return a batch of the sentences with these indices, in this order."""
        found = [self.sentences[number] for number in numbers]
        tokens = list(chain.from_iterable(found))
        lengths = np.array([len(one) for one in found])
        mask = np.arange(lengths.max()) < lengths[:, None]
        words, types = np.zeros((2, *mask.shape), np.int64)
        if self._words is not None:
            words[mask] = self._words.rows_of(tokens)
        rows = {token: row for row, token in enumerate(dict.fromkeys(tokens), 1)}
        types[mask] = [rows[token] for token in tokens]
        characters = np.zeros((len(rows) + 1, _MAX_BYTES), np.int64)
        for token, row in rows.items():
            ids = character_ids(token)
            characters[row, : len(ids)] = ids
        arrays = (lengths, mask, words, types, characters)
        tensors = (torch.from_numpy(array).to(self.device) for array in arrays)
        return SentenceBatch(self._layers(numbers, mask.shape[1]), *tensors)

    def _layers(self, numbers: Sequence[int], longest: int) -> Tensor | None:
        if self._read_layers is None:
            return None
        arrays = [self._read_layers(number) for number in numbers]
        n_layers, _, dim = arrays[0].shape
        layers = torch.zeros(n_layers, len(arrays), longest, dim)
        for i, array in enumerate(arrays):
            layers[:, i, : array.shape[1]] = torch.from_numpy(array)
        return layers.to(self.device)


def character_ids(token: str) -> list[int]:
    """Return the ids of the first bytes of a token, between begin and end; 0 is padding."""
    return [_BEGIN, *(byte + 1 for byte in token.encode()[: _MAX_BYTES - 2]), _END]
