"""ElmoMix: equation (1) of the paper, the weighted sum of layers that a task learns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import UsageError

_EPSILON = 1e-12  # of bilm-tf
_WHERE = "ElmoMix"  # in messages


class ElmoMix(nn.Module):
    """gamma * sum over j of s_j h_j, with s the softmax of learned weights.

    Args:
        n_layers: layers to mix, the token layer among them (3).
        batch_first: batches are (batch, layer, token, dim), not (layer, batch, token, dim).
        layer_norm: normalize each layer over all tokens and dimensions of the input before it is
            weighted, as the original code does, so that the vectors depend on the batch.
        dropout: fraction of the mixed values that training sets to zero.
        l2: lambda of the penalty on the weights, see `penalty`.
    Raises:
        UsageError: `n_layers` is not a positive integer.

    Example:
        mix = ElmoMix(n_layers=3)
        vectors = mix(embeddings[0])  # (token, dim)

    Source: Peters et al. 2018, 3.2 and 3.3; bilm-tf `bilm/elmo.py` `weight_layers`.
    """

    def __init__(
        self,
        n_layers: int = 3,
        *,
        batch_first: bool = False,
        layer_norm: bool = False,
        dropout: float = 0.0,
        l2: float = 0.0,
    ) -> None:
        super().__init__()
        is_number = isinstance(n_layers, (int, np.integer)) and not isinstance(n_layers, bool)
        if not is_number or n_layers < 1:
            hint = "count the token layer too: the published models have 3 layers"
            raise UsageError("not a positive integer", hint, where=f"`n_layers={n_layers!r}`")
        self.n_layers = n_layers
        self.batch_first = batch_first
        self.layer_norm = layer_norm
        self.l2 = l2
        self.weights = nn.Parameter(torch.zeros(n_layers))
        self.gamma = nn.Parameter(torch.ones(()))
        self.dropout = nn.Dropout(dropout)

    def __repr__(self) -> str:
        return f"ElmoMix({self.extra_repr()})"  # in one line, without its dropout as a module

    def extra_repr(self) -> str:
        """The settings, and the learned values of equation (1)."""
        s = ", ".join(f"{weight:.3f}" for weight in torch.softmax(self.weights.detach(), 0))
        return (
            f"n_layers={self.n_layers}, batch_first={self.batch_first}, "
            f"layer_norm={self.layer_norm}, dropout={self.dropout.p}, l2={self.l2}, "
            f"s=({s}), gamma={self.gamma.item():.3f}"
        )

    def forward(
        self,
        layers: Tensor | AnyArray | Sequence[Tensor | AnyArray],
        mask: Tensor | AnyArray | None = None,
    ) -> Tensor:
        """Mix the layers of a sentence or of a padded batch, in the dtype of the weights.

        Args:
            layers: (layer, token, dim), or of a batch (layer, batch, token, dim); a tensor, an
                array, or a list with one of these for each layer.
            mask: (token,) or (batch, token), booleans or 0 and 1: where there is a token. Only
                layer normalization uses it; without a mask all positions count.
        Returns:
            (token, dim) or (batch, token, dim).
        Raises:
            UsageError: layers or mask have another shape or another kind of dtype.
        """
        stacked = self._checked(layers).to(self.weights)  # (layer, …, token, dim)
        is_token = None if mask is None else _checked_mask(mask, stacked)  # (…, token)
        if self.layer_norm:
            stacked = torch.stack([_normalized(layer, is_token) for layer in stacked])
        scales = self.gamma * torch.softmax(self.weights, 0)  # gamma s_j of equation (1), (layer,)
        with torch.autocast(stacked.device.type, enabled=False):  # no half precision
            mixed = (scales @ stacked.flatten(1)).view(stacked.shape[1:])  # (…, token, dim)
        dropped: Tensor = self.dropout(mixed)
        return dropped

    def spec(self) -> str:
        """The learned mix for `elmo embed` and `elmo convert`: the value of their `--layers`; a
        UsageError if the mix normalizes layers, which these commands do not."""
        if self.layer_norm:
            problem = "a mix with `layer_norm` cannot be written as `layers=mix:…`"
            hint = "store all layers, and mix them in the task model"
            raise UsageError(problem, hint, where=_WHERE)
        scales = torch.softmax(self.weights.detach(), 0).tolist()
        values = [*scales, self.gamma.item()]
        return "mix:" + ",".join(str(np.float32(value)) for value in values)

    def penalty(self) -> Tensor:
        """lambda * ||w||^2, to be added to the task's loss; it draws the mix to the average."""
        return self.l2 * self.weights.square().sum()

    def _checked(self, layers: Tensor | AnyArray | Sequence[Tensor | AnyArray]) -> Tensor:
        """The layers as (layer, token, dim) or (layer, batch, token, dim)."""
        is_list = not isinstance(layers, (Tensor, np.ndarray))
        if is_list:
            layers = torch.stack([torch.as_tensor(layer) for layer in layers])
        tensor = torch.as_tensor(layers)
        if not tensor.is_floating_point():
            problem = f"the layers have dtype {str(tensor.dtype).removeprefix('torch.')}"
            hint = "give floating-point layers, as a file of embeddings has them"
            raise UsageError(problem, hint, where=_WHERE)
        is_batch_first = self.batch_first and not is_list and tensor.ndim == 4
        axes = ["batch", "layer"] if is_batch_first else ["layer", "batch"]
        shape = tuple(tensor.shape)
        if tensor.ndim not in (3, 4):
            problem = f"layers of shape {shape}, which has {tensor.ndim} axes"
            hint = f"give (layer, token, dim) or ({', '.join(axes)}, token, dim)"
            raise UsageError(problem, hint, where=_WHERE)
        axis = axes.index("layer")
        if shape[axis] != self.n_layers:
            size = f"axis {axis} (layer) of shape {shape} has size {shape[axis]}"
            problem = f"{size}, but `n_layers` is {self.n_layers}"
            hint = "`batch_first` says which axis of a batch is the layer"
            raise UsageError(problem, hint, where=_WHERE)
        return tensor.movedim(axis, 0)


def _checked_mask(mask: Tensor | AnyArray, layers: Tensor) -> Tensor:
    """The mask as booleans, (token,) or (batch, token), on the device of the layers."""
    values = torch.as_tensor(mask).to(layers.device)
    shape = layers.shape[1:-1]
    if values.shape != shape:
        problem = f"a mask of shape {tuple(values.shape)} for tokens of shape {tuple(shape)}"
        raise UsageError(problem, "give (token,) or (batch, token), like the layers", where=_WHERE)
    is_boolean = values.dtype == torch.bool
    if not is_boolean and not ((values == 0) | (values == 1)).all():
        problem = "the mask has values other than 0 and 1"
        raise UsageError(problem, "give booleans", where=_WHERE)
    return values.to(torch.bool)


def _normalized(layer: Tensor, mask: Tensor | None) -> Tensor:
    """A layer with mean 0 and variance 1 over its tokens and dimensions."""
    kept = layer if mask is None else layer[mask]
    if not kept.numel():  # without tokens there is no mean, and NaN would spoil the gradients
        return layer
    mean = kept.mean()
    variance = kept.var(unbiased=False)
    return (layer - mean) / torch.sqrt(variance + _EPSILON)
