"""TokenRepresentation: token vectors from word vectors, a character CNN and ELMo, each optional."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmo_cli.errors import UsageError
from elmo_cli.model.mix import ElmoMix
from elmo_cli.tasks.inputs import N_CHARACTERS, PADDING, SentenceBatch
from elmo_cli.tasks.layers import SequenceDropout
from elmo_cli.tasks.settings import ElmoSettings, TaskSettings


class MixedLayers(nn.Module):
    """Equation (1) of the paper: a learned weighted sum of layers, then dropout and a projection.

    Attributes:
        mix: the weighted sum.
        dim: dimension of the output.
    """

    def __init__(self, n_layers: int, dim: int, settings: ElmoSettings) -> None:
        super().__init__()
        self.mix = ElmoMix(n_layers, layer_norm=settings.layer_norm, l2=settings.l2)
        self.dropout = SequenceDropout(settings.dropout)
        self.dim = settings.projection or dim
        is_mapped = bool(settings.projection)
        self.projection = nn.Linear(dim, self.dim, bias=False) if is_mapped else nn.Identity()

    def forward(self, batch: SentenceBatch) -> Tensor:
        assert batch.layers is not None
        mixed: Tensor = self.projection(self.dropout(self.mix(batch.layers, batch.mask)))
        return mixed


class TokenRepresentation(nn.Module):
    """Computes the token vectors that a task model reads, and adds ELMo to its states.

    Args:
        settings: settings of the task.
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
        elmo, n_filters = settings.elmo, settings.char_filters
        self._char_width = settings.char_width
        self.words = self.characters = self.filters = self.input_mix = self.output_mix = None
        if table is not None:
            self.words = nn.Embedding(len(table), table.shape[1], PADDING, _weight=table)
            self.words.weight.requires_grad = settings.train_word_vectors
        if n_filters:
            self.characters = nn.Embedding(N_CHARACTERS, settings.char_dim, padding_idx=PADDING)
            self.filters = nn.Linear(settings.char_dim * settings.char_width, n_filters)
        if elmo.layers != "none" and elmo.where != "output":
            self.input_mix = MixedLayers(n_layers, elmo_dim, elmo)
        if elmo.layers != "none" and elmo.where != "input":
            self.output_mix = MixedLayers(n_layers, elmo_dim, elmo)
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
            padded = functional.pad(self.characters(batch.characters), padding)
            convolved = self.filters(padded.unfold(1, self._char_width, 1).flatten(2))
            parts.append(functional.embedding(batch.types, torch.relu(convolved.amax(1))))
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

    def penalty(self) -> Tensor:
        """Return the L2 penalty on the layer weights, lambda * ||w||^2 summed over the mixes."""
        return sum((mix.penalty() for mix in self.mixes.values()), torch.zeros(()))
