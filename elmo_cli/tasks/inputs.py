"""Inputs and TokenRepresentation: sentences as padded tensors, and their token vectors."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import InputError, UsageError
from elmo_cli.model.mix import ElmoMix
from elmo_cli.regular_files import check_regular
from elmo_cli.tasks.layers import SequenceDropout
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.text.sentence import Tokens

LayerReader = Callable[[int], AnyArray]  # index of a sentence -> its layers, (layer, token, dim)
_PADDING, _UNKNOWN = 0, 1  # rows of the word embedding
_MAX_BYTES = 20  # of a token for the character CNN, with its begin and end ids
_BEGIN, _END = 257, 258
_N_CHARACTERS = 259
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
        vectors: (word, dim); they are kept in float16.
        n_seen: how many of the words, the first ones, training data contain; by default all.
    """

    def __init__(self, words: Sequence[str], vectors: AnyArray, n_seen: int | None = None) -> None:
        self.words, self._n_seen = list(words), n_seen
        with np.errstate(over="ignore"):  # `read` refuses what does not fit
            self.vectors = np.asarray(vectors, np.float16)
        self._rows = {word: row for row, word in enumerate(self.words, _UNKNOWN + 1)}

    @classmethod
    def read(cls, path: str, seen: Collection[str] = ()) -> WordVectors:
        """Read GloVe or word2vec text, plain or .gz, or .npz with `words` and `vectors`.

        Of a text file, the first 100,000 words are kept, and those that are `seen` in the data.
        InputError if it is not a file of word vectors.
        """
        check_regular(path, InputError)
        try:
            if path.endswith(".npz"):
                with np.load(path, allow_pickle=False) as arrays:
                    words = arrays["words"]
                    is_text = words.dtype == np.uint8  # written by a task model, one word per line
                    listed = words.tobytes().decode().split("\n") if is_text else words.tolist()
                    found = cls(listed, arrays["vectors"])
            else:
                rows = dict(_read_rows(path, {*seen, *map(str.lower, seen)}))
                found = cls(list(rows), np.stack(list(rows.values())))
            shape = found.vectors.shape
            if len(shape) != 2 or shape[0] != len(found.words) or not shape[1]:
                raise ValueError("it does not have one vector per word")
            if not np.isfinite(found.vectors).all():
                raise ValueError("a value is not finite in float16")
        except (OSError, ValueError, KeyError, EOFError) as error:
            what = f"{path}: cannot be read as word vectors ({error})"
            raise InputError(what, "give GloVe or word2vec text, or .npz") from None
        return found

    def rows_of(self, tokens: Iterable[str]) -> list[int]:
        """Return the rows of tokens, or else of their lower-case forms, or else `_UNKNOWN`."""
        rows = self._rows
        return [rows.get(token) or rows.get(token.lower(), _UNKNOWN) for token in tokens]

    def with_first(self, tokens: Iterable[str]) -> WordVectors:
        """Move the words of tokens of training data to the front."""
        seen = dict.fromkeys(row - _UNKNOWN - 1 for row in self.rows_of(tokens) if row > _UNKNOWN)
        order = list(dict.fromkeys([*seen, *range(len(self.words))]))
        return WordVectors([self.words[i] for i in order], self.vectors[order], len(seen))

    def table(self) -> Tensor:
        """Return the rows up to the last seen word, (row, dim); unknown words have the mean."""
        found = torch.from_numpy(self.vectors[: self._n_seen].astype(np.float32))
        unknown = found.mean(0, keepdim=True) if len(found) else found.new_zeros(1, found.shape[1])
        return torch.cat([torch.zeros_like(unknown), unknown, found])


def _read_rows(path: str, wanted: set[str]) -> Iterator[tuple[str, AnyArray]]:
    """Yield the words and vectors of a text file; the header line of word2vec is skipped.

    The first vector determines the dimension, since words may contain spaces, as in GloVe 840B.
    """
    opened, dim = gzip.open if path.endswith(".gz") else open, 0
    with opened(path, "rt", encoding="utf-8-sig", newline="\n") as file:
        for number, line in enumerate(file):
            word, *numbers = line.rstrip().rsplit(" ", dim or -1)
            is_header = number == 0 and len(numbers) == 1
            if is_header or not line.strip():
                continue
            dim = dim or len(numbers)
            if number < _MAX_WORDS or word in wanted:
                try:
                    vector = np.array(numbers, np.float32)
                except ValueError as error:
                    raise ValueError(f"line {number + 1}: {error}") from None
                if not dim or len(vector) != dim:
                    raise ValueError(
                        f"line {number + 1}: expected a word and {dim or 'its'} values"
                    )
                yield word, vector


class Inputs:
    """Makes batches of sentences, with word vectors and layers of a biLM if they are given."""

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


class MixedLayers(nn.Module):
    """Equation (1) of the paper, then dropout and a projection."""

    def __init__(self, n_layers: int, dim: int, settings: TaskSettings) -> None:
        super().__init__()
        self.mix = ElmoMix(n_layers, layer_norm=settings.elmo_layer_norm, l2=settings.elmo_l2)
        self.dropout = SequenceDropout(settings.elmo_dropout)
        self.dim = settings.elmo_projection or dim
        has_projection = bool(settings.elmo_projection)
        self.projection = nn.Linear(dim, self.dim, bias=False) if has_projection else nn.Identity()

    def forward(self, batch: SentenceBatch) -> Tensor:
        assert batch.layers is not None
        mixed: Tensor = self.projection(self.dropout(self.mix(batch.layers, batch.mask)))
        return mixed


class TokenRepresentation(nn.Module):
    """Computes the token vectors that a task model reads, and adds ELMo to its states.

    Args:
        table: (row, dim) initial word vectors, or None.
        n_layers, elmo_dim: number and dimension of the biLM layers; 0 without ELMo.
    Attributes:
        dim: dimension of a token vector.
        output_dim: dimension of what `at_output` appends; 0 for nothing.
    Raises:
        UsageError: the settings leave no input.
    Source: Peters et al. 2018, section 3.3.
    """

    def __init__(
        self, settings: TaskSettings, table: Tensor | None, n_layers: int, elmo_dim: int
    ) -> None:
        super().__init__()
        n_filters, has_elmo = settings.char_filters, settings.elmo_layers != "none"
        self._char_width = settings.char_width
        self.words = self.characters = self.filters = self.input_mix = self.output_mix = None
        if table is not None:
            self.words = nn.Embedding(len(table), table.shape[1], _PADDING, _weight=table)
            self.words.weight.requires_grad = settings.train_word_vectors
        if n_filters:
            self.characters = nn.Embedding(_N_CHARACTERS, settings.char_dim, padding_idx=_PADDING)
            self.filters = nn.Linear(settings.char_dim * settings.char_width, n_filters)
        if has_elmo and settings.elmo_where != "output":
            self.input_mix = MixedLayers(n_layers, elmo_dim, settings)
        if has_elmo and settings.elmo_where != "input":
            self.output_mix = MixedLayers(n_layers, elmo_dim, settings)
        self.dropout = SequenceDropout(settings.dropout)
        self.output_dim = self.output_mix.dim if self.output_mix else 0
        self.dim = n_filters + (0 if table is None else table.shape[1])
        self.dim += self.input_mix.dim if self.input_mix else 0
        if not self.dim:
            what = "no word vectors, no characters and no ELMo at the input: the model has no input"
            raise UsageError(what, "give `word_vectors`, or set `char_filters` above 0")

    def forward(self, batch: SentenceBatch) -> Tensor:
        """Return the token vectors, (batch, token, dim)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(batch.words))
        if self.characters is not None and self.filters is not None:
            # For so few dimensions, a matrix product of windows is faster than a convolution.
            padding = (0, 0, self._char_width // 2, (self._char_width - 1) // 2)
            padded = nn.functional.pad(self.characters(batch.characters), padding)
            convolved = self.filters(padded.unfold(1, self._char_width, 1).flatten(2))
            parts.append(nn.functional.embedding(batch.types, torch.relu(convolved.amax(1))))
        if parts:
            parts = [self.dropout(torch.cat(parts, -1))]
        if self.input_mix is not None:
            parts.append(self.input_mix(batch))
        return torch.cat(parts, -1)

    def at_output(self, states: Tensor, batch: SentenceBatch) -> Tensor:
        """Append ELMo, if it is used there, to the states (batch, token, dim) of a biLSTM."""
        if self.output_mix is None:
            return states
        return torch.cat([states, self.output_mix(batch)], -1)

    @property
    def mixes(self) -> dict[str, ElmoMix]:
        """The weighted sums of layers at "input" and "output"."""
        both = {"input": self.input_mix, "output": self.output_mix}
        return {where: mixed.mix for where, mixed in both.items() if mixed is not None}

    def layer_weights(self) -> dict[str, dict[str, Any]]:
        """Return the normalized layer weights and gamma of each mix."""
        return {
            where: {
                "weights": torch.softmax(mix.weights.detach(), 0).tolist(),
                "gamma": mix.gamma.item(),
            }
            for where, mix in self.mixes.items()
        }

    def penalty(self) -> Tensor:
        """Return the L2 penalty on the layer weights, lambda * ||w||^2 summed over the mixes."""
        return sum((mix.penalty() for mix in self.mixes.values()), torch.zeros(()))
