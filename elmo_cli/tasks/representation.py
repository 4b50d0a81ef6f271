"""TokenRepresentation: word vectors, a character CNN and ELMo, each optional, for every token."""

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
    """Equation (1) of the paper: a learned sum of layers, with dropout and a linear map.

    Attributes:
        mix: the learned sum.
        dim: size of the output.
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
    """The vectors that a task model reads, and those that it adds to its output (section 3.3).

    Args:
        settings: of the task.
        table: (row, dim) initial word vectors; None for none.
        n_layers, elmo_dim: of the layers that the model reads; 0 without ELMo.
    Attributes:
        dim: size of a token's vector.
        output_dim: size of what `at_output` appends.
    Raises:
        UsageError: nothing represents a token.
    """

    def __init__(
        self, settings: TaskSettings, table: Tensor | None, n_layers: int, elmo_dim: int
    ) -> None:
        super().__init__()
        elmo, n_filters = settings.elmo, settings.char_filters
        self.words = self.characters = self.filters = None
        if table is not None:
            self.words = nn.Embedding(len(table), table.shape[1], PADDING, _weight=table)
            self.words.weight.requires_grad = settings.train_word_vectors
        if n_filters:
            self.characters = nn.Embedding(N_CHARACTERS, settings.char_dim, padding_idx=PADDING)
            width = settings.char_width
            self.filters = nn.Conv1d(settings.char_dim, n_filters, width, padding=width // 2)
        is_used = elmo.layers != "none"
        at_input, at_output = elmo.where in ("input", "both"), elmo.where in ("output", "both")
        self.input_mix = MixedLayers(n_layers, elmo_dim, elmo) if is_used and at_input else None
        self.output_mix = MixedLayers(n_layers, elmo_dim, elmo) if is_used and at_output else None
        self.dropout = SequenceDropout(settings.dropout)
        sizes = [0 if table is None else table.shape[1], n_filters]
        self.dim = sum(sizes) + (self.input_mix.dim if self.input_mix else 0)
        self.output_dim = self.output_mix.dim if self.output_mix else 0
        if not self.dim:
            what = "no word vectors, no characters and no ELMo at the input: nothing to read"
            raise UsageError(what, "`word_vectors` names a file; `char_filters` is 64 by default")

    def forward(self, batch: SentenceBatch) -> Tensor:
        """The vectors of the tokens, (batch, token, dim)."""
        parts = []
        if self.words is not None:
            parts.append(self.words(batch.words))
        if self.characters is not None and self.filters is not None:
            convolved = self.filters(self.characters(batch.characters).transpose(1, 2))
            parts.append(functional.embedding(batch.types, torch.relu(convolved).amax(2)))
        if parts:
            parts = [self.dropout(torch.cat(parts, -1))]
        if self.input_mix is not None:
            parts.append(self.input_mix(batch))
        return torch.cat(parts, -1)

    def at_output(self, states: Tensor, batch: SentenceBatch) -> Tensor:
        """The states of a biLSTM, (batch, token, dim), with ELMo appended where it is used."""
        if self.output_mix is None:
            return states
        return torch.cat([states, self.output_mix(batch)], -1)

    def add_words(self, rows: Tensor) -> None:
        """Append rows (row, dim) to the table of words, for text with words that it lacks."""
        if self.words is not None and len(rows):
            weight = torch.cat([self.words.weight.detach(), rows.to(self.words.weight)])
            self.words = nn.Embedding(len(weight), weight.shape[1], PADDING, _weight=weight)

    @property
    def mixes(self) -> dict[str, ElmoMix]:
        """The learned sums of layers, by "input" and "output"."""
        both = {"input": self.input_mix, "output": self.output_mix}
        return {where: mixed.mix for where, mixed in both.items() if mixed is not None}

    def penalty(self) -> Tensor:
        """The sum of lambda * ||w||^2 over the mixes, ()."""
        return sum((mix.penalty() for mix in self.mixes.values()), torch.zeros(()))
