"""ElmoMix: equation (1) of the paper, the weighted sum of layers that a task learns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo_cli.errors import UsageError

Array = np.ndarray[Any, Any]
_EPSILON = 1e-12


class ElmoMix(nn.Module):
    """gamma * sum over j of s_j h_j, with s the softmax of learned weights.

    Args:
        n_layers: layers to mix, the token layer among them (3).
        layer_norm: normalise each layer over all tokens and dimensions that are given before it is
            weighted, as the originals do; so a sentence's vectors depend on its batch.
        dropout: share of the mixed values that training sets to zero.
        l2: lambda of the penalty on the weights, see `penalty`.

    Example:
        mix = ElmoMix(n_layers=3)
        vectors = mix(embeddings[0])  # (token, dim)

    Source: Peters et al. 2018, 3.2 and 3.3; bilm-tf `bilm/elmo.py` `weight_layers`.
    """

    def __init__(
        self, n_layers: int = 3, *, layer_norm: bool = False, dropout: float = 0.0, l2: float = 0.0
    ) -> None:
        super().__init__()
        if n_layers < 1:
            raise UsageError(f"ElmoMix: n_layers is {n_layers}, at least 1 is needed")
        self.n_layers, self.layer_norm, self.l2 = n_layers, layer_norm, l2
        self.weights = nn.Parameter(torch.zeros(n_layers))
        self.gamma = nn.Parameter(torch.ones(()))
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, layers: Tensor | Array | Sequence[Tensor | Array], mask: Tensor | Array | None = None
    ) -> Tensor:
        """Mix the layers of a sentence or of a padded batch.

        Args:
            layers: (layer, token, dim) or (layer, batch, token, dim), an array of a file as well,
                or a list of layers; of float16 they are mixed in the type of the weights.
            mask: (token,) or (batch, token), true where there is a token; only layer
                normalisation looks at it. All places count when None.
        Returns:
            (token, dim) or (batch, token, dim).
        Raises:
            UsageError: `layers` has another number of layers than the mix, or `mask` is of another
                shape than their tokens.
        """
        if len(layers) != self.n_layers:
            raise UsageError(
                f"ElmoMix: {len(layers)} layers given, made for {self.n_layers}",
                "set n_layers to the first axis of the array",
            )
        if not isinstance(layers, (Tensor, np.ndarray)):
            layers = torch.stack([torch.as_tensor(layer) for layer in layers])
        layers = torch.as_tensor(layers).to(self.weights)
        if mask is not None:
            mask = torch.as_tensor(mask).to(self.weights.device, torch.bool)
            if mask.shape != layers.shape[1:-1]:
                raise UsageError(
                    f"ElmoMix: a mask of the shape {tuple(mask.shape)} for tokens of the shape "
                    f"{tuple(layers.shape[1:-1])}",
                    "give it as (token,) or (batch, token), as the layers have them",
                )
        if self.layer_norm:
            layers = torch.stack([_normalised(layer, mask) for layer in layers])
        shares = torch.softmax(self.weights, 0)  # (layer,)
        mixed = torch.tensordot(shares, layers, dims=1)  # ([batch,] token, dim)
        dropped: Tensor = self.dropout(self.gamma * mixed)  # ([batch,] token, dim)
        return dropped

    def penalty(self) -> Tensor:
        """lambda * ||w||^2, to be added to the task's loss; it draws the mix to the average."""
        return self.l2 * self.weights.square().sum()


def _normalised(layer: Tensor, mask: Tensor | None) -> Tensor:
    """A layer with mean 0 and variance 1 over its tokens and dimensions."""
    kept = layer if mask is None else layer[mask]
    if not kept.numel():  # all blank: nothing has a mean, and NaN would spoil the gradients
        return layer
    mean, variance = kept.mean(), kept.var(unbiased=False)
    return (layer - mean) / torch.sqrt(variance + _EPSILON)
