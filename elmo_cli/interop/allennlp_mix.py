"""ScalarMix: AllenNLP's learned sum of layers; and remove_sentence_boundaries."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_cli.interop.allennlp_ids import ConfigurationError

_EPSILON = 1e-12


class ScalarMix(nn.Module):
    """gamma * sum over k of s_k x_k, with s the softmax of `scalar_parameters`.

    The parameters have AllenNLP's names, so that its checkpoints load; `ElmoMix` is the mix of this
    package.

    Args:
        mixture_size: the number of tensors.
        do_layer_norm: give each tensor mean 0 and variance 1 over all positions of the mask.
        initial_scalar_parameters: by default zeros.
        trainable: whether the parameters have gradients.
    Raises:
        ConfigurationError: there are not `mixture_size` initial values.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        if initial_scalar_parameters is None:
            initial_scalar_parameters = [0.0] * mixture_size
        if len(initial_scalar_parameters) != mixture_size:
            n_values = len(initial_scalar_parameters)
            problem = f"{n_values} initial scalar parameters for {mixture_size} layers"
            raise ConfigurationError(problem, "give one value for each layer, token layer first")
        parameters = []
        for value in initial_scalar_parameters:
            parameters.append(nn.Parameter(torch.tensor([float(value)]), requires_grad=trainable))
        self.scalar_parameters = nn.ParameterList(parameters)  # each (1,)
        self.gamma = nn.Parameter(torch.tensor([1.0]), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Mix tensors of the same shape, (…, dim).

        Args:
            mask: (…,), 0 and 1; only layer normalization uses it, and it needs one.
        Raises:
            ConfigurationError: there are not `mixture_size` tensors.
            AttributeError: layer normalization without a mask.
        """
        if len(tensors) != self.mixture_size:
            problem = f"{len(tensors)} tensors for a mix of {self.mixture_size}"
            raise ConfigurationError(problem, "give one tensor for each layer, token layer first")
        if self.do_layer_norm:
            if mask is None:
                raise AttributeError("ScalarMix with do_layer_norm=True needs a mask")
            tensors = [_normalized_over(tensor, mask) for tensor in tensors]
        scales = self.gamma * torch.softmax(torch.cat(list(self.scalar_parameters)), 0)
        mixed = scales[0] * tensors[0]
        for scale, tensor in zip(scales[1:], tensors[1:], strict=True):
            mixed = mixed + scale * tensor
        return mixed


def _normalized_over(tensor: Tensor, mask: Tensor) -> Tensor:
    """A tensor (…, dim) with mean 0 and variance 1 over the positions of a mask (…,).

    Positions that are not in the mask are shifted and scaled like the others. A mask of zeros gives
    NaN.
    """
    weights = mask.to(tensor.dtype).unsqueeze(-1)  # (…, 1)
    n_values = weights.sum() * tensor.shape[-1]
    mean = (tensor * weights).sum() / n_values
    variance = ((tensor - mean).square() * weights).sum() / n_values
    return (tensor - mean) / torch.sqrt(variance + _EPSILON)


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Leave out the first and the last position of each row; what is behind them becomes zero.

    Args:
        tensor: (batch, token, dim).
        mask: (batch, token), 0 and 1; its sum is the length of each row.
    Returns:
        (batch, token - 2, dim), and the mask of it, int64; both are zero for rows shorter than 3.
    """
    inner = tensor[:, 1:-1, :]
    n_tokens = mask.sum(1, keepdim=True) - 2  # (batch, 1)
    is_token = torch.arange(inner.shape[1], device=tensor.device) < n_tokens  # (batch, token - 2)
    is_left_out = ~is_token.view(*is_token.shape, *[1] * (inner.ndim - 2))
    return inner.masked_fill(is_left_out, 0), is_token.to(torch.int64)
