"""CharCNN: from the characters of a token to its vector, independent of its context."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmo_cli.model.options import N_CHARACTERS, Options


class CharCNN(nn.Module):
    """Character embeddings, filters, maximum over positions, highway layers, projection.

    Source: Peters et al. 2018, 3.4 (after Kim et al. 2015); bilm-tf `bilm/model.py`.
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.embedding = nn.Embedding(N_CHARACTERS, options.char_dim)
        self.filters = nn.ModuleList(
            nn.Conv1d(options.char_dim, count, width) for width, count in options.filters
        )
        self.highways = nn.ModuleList(Highway(options.n_filters) for _ in range(options.n_highway))
        self.projection: nn.Module = nn.Identity()
        if options.has_cnn_projection:
            self.projection = nn.Linear(options.n_filters, options.projection_dim)

    def forward(self, ids: Tensor) -> Tensor:
        """The vector of each token.

        Args:
            ids: character ids, (token, char) int64 in 0..260, padding 260.
        Returns:
            (token, projection_dim), in the dtype of the weights.
        """
        characters = self.embedding(ids).transpose(1, 2)  # (token, char_dim, char)
        # The maximum is over all positions: padding has a learned vector and takes part.
        maxima = [conv(characters).amax(2) for conv in self.filters]  # each (token, count)
        return self.from_filters(torch.cat(maxima, 1))

    def from_filters(self, maxima: Tensor) -> Tensor:
        """From the filters' maxima to vectors: (token, filter) -> (token, projection_dim)."""
        activation = torch.relu if self.options.activation == "relu" else torch.tanh
        x = activation(maxima)  # (token, filter)
        for highway in self.highways:
            x = highway(x)  # (token, filter)
        vectors: Tensor = self.projection(x)  # (token, projection_dim)
        return vectors


class Highway(nn.Module):
    """One gated layer: a part of the input is carried through, the rest is transformed.

    Source: Srivastava et al. 2015; bilm-tf `bilm/model.py`, whose `carry` gate is the weight of the
    transformed input, and which uses relu here whatever the activation of the convolutions is.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        """(token, filter) -> (token, filter)."""
        gate = torch.sigmoid(self.carry(x))  # (token, filter)
        transformed = torch.relu(self.transform(x))  # (token, filter)
        mixed: Tensor = gate * transformed + (1 - gate) * x  # (token, filter)
        return mixed
