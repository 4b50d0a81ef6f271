"""Forward pass over a batch of token streams, as training and evaluation compute it.

It computes the same function as `model.BiLM`, but one vector per distinct type instead of one per
token and both directions in the same matrix products, and applies dropout as bilm-tf does.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import Int16Array, Int32Array
from elmo_cli.lm.lstm import FusedLSTM, parameters_of
from elmo_cli.model.bilm import BiLM, CharCNN, ProjectedLSTM, State
from elmo_cli.text.characters import PADDING

_TYPES_AT_ONCE = {"cpu": 384}  # so that their products stay in the cache
_TYPES_AT_ONCE_ON_GPU = 2048


def type_vectors(char_cnn: CharCNN, characters: Int16Array) -> Tensor:
    """Compute vectors of types on the device of `char_cnn`: (type, char) -> (type, projection).

    Types of similar length are computed together. One position of padding after the longest of them
    is enough: later positions are equal and do not change the maximum. One matrix product over all
    positions is faster than a convolution with few channels.
    """
    device = char_cnn.embedding.weight.device
    lengths = (characters != PADDING).sum(1)
    order = np.argsort(lengths, kind="stable")
    # One product of all rows is faster with gradients; groups save memory without them.
    in_groups = not torch.is_grad_enabled()
    at_once = _TYPES_AT_ONCE.get(device.type, _TYPES_AT_ONCE_ON_GPU)
    groups = []
    for begin in range(0, len(order), at_once):
        group = order[begin : begin + at_once]  # from the shortest types to the longest
        ids = torch.from_numpy(characters[group].astype(np.int64)).to(device)  # (type, char)
        rows = _maxima(char_cnn, ids, longest=int(lengths[group[-1]]))  # (type, filter)
        if in_groups:
            rows = char_cnn.from_features(rows)  # (type, projection)
        groups.append(rows)
    back = torch.from_numpy(np.argsort(order, kind="stable")).to(device)  # (type,)
    in_text_order = torch.cat(groups).index_select(0, back)  # (type, filter or projection)
    if in_groups:
        return in_text_order
    return char_cnn.from_features(in_text_order)


def _maxima(char_cnn: CharCNN, ids: Tensor, *, longest: int) -> Tensor:
    """Compute the maximum of each filter over positions: (type, char) -> (type, filter)."""
    n_types, n_positions = ids.shape
    x = char_cnn.embedding(ids)  # (type, char, char_dim)
    maxima = []
    for part, (width, count) in zip(char_cnn.filters, char_cnn.options.filters, strict=True):
        n_windows = min(longest, n_positions - width) + 1
        n_read = n_windows + width - 1
        windows = x[:, :n_read].unfold(1, width, 1)  # (type, window, char_dim, width)
        rows = windows.reshape(n_types * n_windows, -1)  # (type * window, char_dim * width)
        weight = part.get_parameter("weight").flatten(1)  # (count, char_dim * width)
        products = rows @ weight.t()  # (type * window, count)
        highest = products.view(n_types, n_windows, count).amax(1)  # (type, count)
        maxima.append(highest + part.get_parameter("bias"))
    return torch.cat(maxima, 1)


def token_vectors(char_cnn: CharCNN, characters: Int16Array, numbers: Int32Array) -> Tensor:
    """Look up the vectors of type numbers: any shape -> shape + (projection,)."""
    distinct, inverse = np.unique(numbers, return_inverse=True)
    vectors = type_vectors(char_cnn, characters[distinct])  # (distinct type, projection)
    index = torch.from_numpy(inverse.reshape(-1).astype(np.int64)).to(vectors.device)
    of_tokens = vectors.index_select(0, index)  # (token, projection)
    return of_tokens.view(*numbers.shape, -1)


class Dropout:
    """Dropout with its own random number `generator`, whose state is saved in checkpoints."""

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        self.rate = rate
        self.generator = generator

    def __call__(self, x: Tensor) -> Tensor:
        """Apply dropout: any shape -> the same shape."""
        if self.rate == 0:
            return x
        keep = torch.empty_like(x).bernoulli_(1 - self.rate, generator=self.generator)
        return x * keep.div_(1 - self.rate)


def forward(
    bilm: BiLM,
    vectors: Tensor,
    state: State,
    dropout: Dropout | None = None,
    *,
    dtype: torch.dtype | None = None,
) -> tuple[Tensor, State]:
    """Run the LSTM layers over a batch.

    Args:
        vectors: token vectors in the reading order of each direction,
            (token, direction, stream, projection).
        state: LSTM state after the previous batch.
        dropout: applied to the input of each LSTM layer and the output of the top one, as in
            bilm-tf `bilm/training.py`.
        dtype: dtype of the matrix products and outputs; that of `vectors` by default.
    Returns:
        Outputs of the top layer, (token, direction, stream, projection), and the state after the
        batch, detached, in the dtype of `state`.
    """
    options = bilm.options
    x = vectors.to(dtype)  # (token, direction, stream, projection), like y below
    h_after = []  # of each layer, (direction, stream, projection)
    c_after = []  # of each layer, (direction, stream, cell)
    for k in range(options.n_layers):
        inputs = dropout(x) if dropout else x
        y, cells = FusedLSTM.apply(  # type: ignore[no-untyped-call]
            inputs,
            state.h[k],
            state.c[k],
            options.cell_clip,
            options.proj_clip,
            options.forget_bias,
            *parameters_of(cast(ProjectedLSTM, bilm.forward_lm.layers[k])),
            *parameters_of(cast(ProjectedLSTM, bilm.backward_lm.layers[k])),
        )
        h_after.append(y[-1].detach().to(state.h.dtype))
        c_after.append(cells[-1].detach())
        has_residual = options.residual and k > 0
        x = y + inputs if has_residual else y  # the layer's input after dropout
    top = dropout(x) if dropout else x
    return top, State(torch.stack(h_after), torch.stack(c_after))
