"""The biLM over a window of a stream, as training computes it.

The same function as `model.BiLM`: token vectors are made once a distinct type instead of once a
token, both directions go through the same products, and dropout stands where the originals have it.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo_cli.lm.corpus import Int32Array
from elmo_cli.lm.lstm import fused_lstm
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.char_cnn import CharCNN
from elmo_cli.model.lstm import ProjectedLSTM
from elmo_cli.model.state import State
from elmo_cli.text.characters import PADDING

_TYPES_AT_ONCE = {"cpu": 384}  # their products stay in the processor's cache
_ELSEWHERE = 2048


def type_vectors(char_cnn: CharCNN, characters: npt.NDArray[np.int16]) -> Tensor:
    """Vectors of types, on the device of `char_cnn`: (type, char) -> (type, projection).

    Types go by length. After the longest of a group one window of padding is enough: all windows
    further right hold nothing else, so the maximum is the same. The filters are products of windows
    laid side by side, forward and backward faster than convolutions of so few channels.
    """
    device = char_cnn.embedding.weight.device
    lengths = (characters != PADDING).sum(1)
    order = np.argsort(lengths, kind="stable")
    # Gradients want all rows in one product; without them memory holds the vectors alone.
    in_groups = not torch.is_grad_enabled()
    found, at_once = [], _TYPES_AT_ONCE.get(device.type, _ELSEWHERE)
    for begin in range(0, len(order), at_once):
        group = order[begin : begin + at_once]
        ids = torch.from_numpy(characters[group].astype(np.int64)).to(device)
        maxima = _maxima(char_cnn, ids, longest=int(lengths[group[-1]]))
        found.append(char_cnn.from_filters(maxima) if in_groups else maxima)
    back = torch.from_numpy(np.argsort(order, kind="stable")).to(device)
    rows = torch.cat(found).index_select(0, back)
    return rows if in_groups else char_cnn.from_filters(rows)


def _maxima(char_cnn: CharCNN, ids: Tensor, *, longest: int) -> Tensor:
    """Each filter's maximum over the windows of a type: (type, char) -> (type, filter)."""
    n_types, n_places = ids.shape
    x, maxima = char_cnn.embedding(ids), []  # (type, char, char_dim)
    for part, (width, count) in zip(char_cnn.filters, char_cnn.options.filters, strict=True):
        n_windows = min(longest, n_places - width) + 1
        seen = x[:, : n_windows + width - 1].unfold(1, width, 1)  # (type, window, char_dim, width)
        weight = part.get_parameter("weight").flatten(1)
        products = seen.reshape(n_types * n_windows, -1) @ weight.t()
        highest = products.view(n_types, n_windows, count).amax(1)
        maxima.append(highest + part.get_parameter("bias"))
    return torch.cat(maxima, 1)


def token_vectors(
    char_cnn: CharCNN, characters: npt.NDArray[np.int16], numbers: Int32Array
) -> Tensor:
    """Vectors of tokens that are given as numbers of types: any shape -> shape + (projection,)."""
    distinct, place = np.unique(numbers, return_inverse=True)
    vectors = type_vectors(char_cnn, characters[distinct])
    index = torch.from_numpy(place.reshape(-1).astype(np.int64)).to(vectors.device)
    return vectors.index_select(0, index).view(*numbers.shape, -1)


class Dropout:
    """Zeroes a share of the values and scales the others up; with random numbers of its own.

    Attributes:
        rate: share of values that become zero.
        generator: its random numbers; saved in checkpoints.
    """

    def __init__(self, rate: float, generator: torch.Generator) -> None:
        self.rate, self.generator = rate, generator

    def __call__(self, x: Tensor) -> Tensor:
        """Any shape -> the same shape."""
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
    """The top layer's outputs in a window.

    Args:
        vectors: token vectors in the order in which each direction reads them,
            (token, direction, row, projection).
        state: that the window before left.
        dropout: on the input of each LSTM layer and on the output of the top one, and nowhere else
            (bilm-tf `bilm/training.py`); None for none.
        dtype: of the products, such as bfloat16; None for that of the vectors.
    Returns:
        Outputs (token, direction, row, projection) in `dtype`; the state after the window,
        detached, in the type it came in.
    """
    options = bilm.options
    x, h_after, c_after = vectors.to(dtype), [], []
    for k in range(options.n_layers):
        layers = [cast(ProjectedLSTM, lm.layers[k]) for lm in (bilm.forward_lm, bilm.backward_lm)]
        read = dropout(x) if dropout else x
        clips = options.cell_clip, options.proj_clip
        y, h, c = fused_lstm(read, state.h[k], state.c[k], layers, clips)
        # The residual adds what the layer has read, dropout in it.
        x = y + read if options.residual and k > 0 else y
        h_after.append(h.to(state.h.dtype))
        c_after.append(c)
    top = dropout(x) if dropout else x
    return top, State(torch.stack(h_after), torch.stack(c_after))
