"""Inputs and TokenRepresentation: sentences as padded tensors, and their token vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import UsageError
from elmo_cli.model.mix import ElmoMix
from elmo_cli.tasks.layers import SequenceDropout
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.word_vectors import PADDING, WordVectors
from elmo_cli.text.sentence import Tokens

LayerReader = Callable[[int], AnyArray]  # index of a sentence -> its layers, (layer, token, dim)
_MAX_BYTES = 20  # of a token for the character CNN, with its begin and end ids
_BEGIN = 257  # character ids, after padding and the bytes
_END = 258
_N_CHARACTERS = 259


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


class Inputs:
    """Makes batches of sentences, with word vectors and layers of a biLM if they are given."""

    def __init__(
        self,
        sentences: Sequence[Tokens],
        read_layers: LayerReader | None,
        words: WordVectors | None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.sentences = sentences
        self._read_layers = read_layers
        self._words = words
        self._character_ids = _TypeCharacters()
        self.device = torch.device(device)

    def batch(self, numbers: Sequence[int]) -> SentenceBatch:
        """Return a batch of the sentences with these indices, in this order."""
        sentences = [self.sentences[number] for number in numbers]
        tokens = list(chain.from_iterable(sentences))
        lengths = np.array([len(sentence) for sentence in sentences])
        mask = np.arange(lengths.max()) < lengths[:, None]  # (batch, token)
        words = np.zeros(mask.shape, np.int64)
        if self._words is not None:
            words[mask] = self._words.rows_of(tokens)
        rows = {token: row for row, token in enumerate(dict.fromkeys(tokens), 1)}
        types = np.zeros(mask.shape, np.int64)
        types[mask] = [rows[token] for token in tokens]
        ids = b"".join(map(self._character_ids.__getitem__, rows))
        characters = np.zeros((len(rows) + 1, _MAX_BYTES), np.int64)
        characters[1:] = np.frombuffer(ids, np.uint16).reshape(-1, _MAX_BYTES)
        return SentenceBatch(
            layers=self._layers(numbers, mask.shape[1]),
            lengths=self._to_device(lengths),
            mask=self._to_device(mask),
            words=self._to_device(words),
            types=self._to_device(types),
            characters=self._to_device(characters),
        )

    def _to_device(self, array: AnyArray) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def _layers(self, numbers: Sequence[int], longest: int) -> Tensor | None:
        if self._read_layers is None:
            return None
        arrays = [self._read_layers(number) for number in numbers]
        n_layers, _, dim = arrays[0].shape
        layers = torch.zeros(n_layers, len(arrays), longest, dim)  # (layer, batch, token, dim)
        for i, array in enumerate(arrays):
            layers[:, i, : array.shape[1]] = torch.from_numpy(array)
        return layers.to(self.device)


def character_ids(token: str) -> list[int]:
    """Return the ids of the first bytes of a token, between begin and end; 0 is padding."""
    first_bytes = token.encode()[: _MAX_BYTES - 2]
    return [_BEGIN, *(byte + 1 for byte in first_bytes), _END]


class _TypeCharacters(dict[str, bytes]):
    """The padded character ids of each token, as uint16, computed when a token is first needed."""

    def __missing__(self, token: str) -> bytes:
        ids = character_ids(token)
        padded = np.zeros(_MAX_BYTES, np.uint16)
        padded[: len(ids)] = ids
        self[token] = padded.tobytes()
        return self[token]


class MixedLayers(nn.Module):
    """Equation (1) of the paper, then dropout and a projection."""

    def __init__(self, n_layers: int, dim: int, settings: TaskSettings) -> None:
        super().__init__()
        self.mix = ElmoMix(n_layers, layer_norm=settings.elmo_layer_norm, l2=settings.elmo_l2)
        self.dropout = SequenceDropout(settings.elmo_dropout)
        self.dim = settings.elmo_projection or dim
        has_projection = bool(settings.elmo_projection)
        self.projection = nn.Linear(dim, self.dim, bias=False) if has_projection else nn.Identity()

    def forward(self, batch: SentenceBatch, rows: Tensor | None = None) -> Tensor:
        """Return (batch, token, dim), or (row, token, dim) with `rows`."""
        assert batch.layers is not None
        mixed = self.mix(batch.layers, batch.mask)  # (batch, token, dim)
        if rows is not None:  # each row has its own dropout mask
            mixed = mixed[rows]
        projected: Tensor = self.projection(self.dropout(mixed))
        return projected


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
        n_filters = settings.char_filters
        self._char_width = settings.char_width
        self.words: nn.Embedding | None = None
        self.characters: nn.Embedding | None = None
        self.filters: nn.Linear | None = None
        self.input_mix: MixedLayers | None = None
        self.output_mix: MixedLayers | None = None
        self.dim = 0
        self.output_dim = 0
        if table is not None:
            n_rows, word_dim = table.shape
            self.words = nn.Embedding(n_rows, word_dim, PADDING, _weight=table)
            self.words.weight.requires_grad = settings.train_word_vectors
            self.dim += word_dim
        if n_filters > 0:
            self.characters = nn.Embedding(_N_CHARACTERS, settings.char_dim, padding_idx=PADDING)
            self.filters = nn.Linear(settings.char_dim * settings.char_width, n_filters)
            self.dim += n_filters
        has_elmo = settings.elmo_layers != "none"
        if has_elmo and settings.elmo_where != "output":
            self.input_mix = MixedLayers(n_layers, elmo_dim, settings)
            self.dim += self.input_mix.dim
        if has_elmo and settings.elmo_where != "input":
            self.output_mix = MixedLayers(n_layers, elmo_dim, settings)
            self.output_dim = self.output_mix.dim
        self.dropout = SequenceDropout(settings.dropout)
        if self.dim == 0:
            raise UsageError(
                "no word vectors, no characters and no ELMo at the input: the model has no input",
                "give `word_vectors`, or the setting char_filters a value above 0",
            )

    def forward(self, batch: SentenceBatch, rows: Tensor | None = None) -> Tensor:
        """Return the token vectors, (batch, token, dim).

        Args:
            rows: (row,) sentences of the batch, perhaps several times; the token vectors are then
                those of each row, with a dropout mask of its own, (row, token, dim).
        """
        vectors = []
        if self.words is not None:
            vectors.append(self.words(batch.words))
        if self.characters is not None:
            vectors.append(self._character_vectors(batch))
        if vectors:
            joined = torch.cat(vectors, -1)
            if rows is not None:
                joined = joined[rows]
            vectors = [self.dropout(joined)]
        if self.input_mix is not None:
            vectors.append(self.input_mix(batch, rows))
        return torch.cat(vectors, -1)

    def _character_vectors(self, batch: SentenceBatch) -> Tensor:
        """Return the output of the character CNN, (batch, token, filter)."""
        assert self.characters is not None
        assert self.filters is not None
        # For so few dimensions, a matrix product of windows is faster than a convolution.
        width = self._char_width
        padding = (0, 0, width // 2, (width - 1) // 2)
        padded = nn.functional.pad(self.characters(batch.characters), padding)
        windows = padded.unfold(1, width, 1).flatten(2)  # (type, character, char_dim * width)
        convolved = self.filters(windows)
        of_types = torch.relu(convolved.amax(1))  # (type, filter)
        return nn.functional.embedding(batch.types, of_types)

    def at_output(self, states: Tensor, batch: SentenceBatch, rows: Tensor | None = None) -> Tensor:
        """Append ELMo, if it is used there, to the states of a biLSTM.

        Args:
            states: (batch, token, dim), or (row, token, dim) with `rows`.
            rows: (row,) the sentence of the batch that each row of the states belongs to.
        """
        if self.output_mix is None:
            return states
        return torch.cat([states, self.output_mix(batch, rows)], -1)

    @property
    def mixes(self) -> dict[str, ElmoMix]:
        """The weighted sums of layers at "input" and "output"."""
        mixes = {}
        if self.input_mix is not None:
            mixes["input"] = self.input_mix.mix
        if self.output_mix is not None:
            mixes["output"] = self.output_mix.mix
        return mixes

    def layer_weights(self) -> dict[str, dict[str, Any]]:
        """Return the normalized layer weights and gamma of each mix."""
        weights_of_mixes = {}
        for where, mix in self.mixes.items():
            weights = torch.softmax(mix.weights.detach(), 0)
            weights_of_mixes[where] = {"weights": weights.tolist(), "gamma": mix.gamma.item()}
        return weights_of_mixes

    def penalty(self) -> Tensor:
        """Return the L2 penalty on the layer weights, lambda * ||w||^2 summed over the mixes."""
        penalty = torch.zeros(())
        for mix in self.mixes.values():
            penalty = penalty + mix.penalty()
        return penalty
