"""The gates of an LSTM layer in one direction, as the fast engine computes them.

torch's tanh takes three to five times as long as its sigmoid on a CPU, and
tanh(x) = 2 sigmoid(2 x) - 1. So what goes out is the sigmoid of i, f, o and of j doubled; a factor
of two does not round. The forget bias is part of the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from elmo_cli.engine.packed import heightened
from elmo_cli.engine.products import product
from elmo_cli.model.lstm import FORGET_BIAS, ProjectedLSTM

# From places that stand one after the other, and h before them, (place, projection), to the gates
# i, f, o, j, (place, cell) each, which are the caller's to change.
OfPlaces = Callable[[slice, Tensor], list[Tensor]]
_TYPES_BYTES = 1 << 28  # of the gates of types, if they are made beforehand


class FirstGates:
    """Of the first layer, which reads types: the part that comes of them is computed once a type.

    Args:
        layer: with (4 * cell, projection) weights.
        precision: of the products, see `products`.
    """

    def __init__(self, layer: ProjectedLSTM, precision: str) -> None:
        self._of_x = product(_weights(layer.input.weight), _biases(layer), precision)
        self._of_h = product(_weights(layer.recurrent.weight), None, precision)
        one = layer.input.weight.new_zeros(1, layer.input.weight.shape[1])
        self._bytes = sum(gate.nbytes for gate in self._of_x.bases(one))  # of the gates of a type

    def reading(self, x: Tensor, numbers: Tensor) -> OfPlaces:
        """The gates of a batch.

        Args:
            x: vectors of types, (type, projection).
            numbers: the type of each place, (place,).
        """
        if len(x) * self._bytes > _TYPES_BYTES:
            return lambda places, h: self._with(h, self._of_x.bases(x[numbers[places]]))
        known = self._of_x.bases(heightened(x))  # (type, cell) each
        return lambda places, h: self._with(
            h, (gate.index_select(0, numbers[places]) for gate in known)
        )

    def _with(self, h: Tensor, of_x: Iterable[Tensor]) -> list[Tensor]:
        return [z.sigmoid_() for z in self._of_h.plus(h, of_x)]


class UpperGates:
    """Of a layer above the first: one product with [x ; h] a gate; in int8 they share a scale.

    Args:
        layer, precision: as of `FirstGates`.
    """

    def __init__(self, layer: ProjectedLSTM, precision: str) -> None:
        both = torch.cat([layer.input.weight, layer.recurrent.weight], 1)
        self._of_both = product(_weights(both), _biases(layer), precision)

    def reading(self, x: Tensor) -> OfPlaces:
        """The gates of a batch, from the vectors of its places, (place, projection)."""
        return lambda places, h: self._of_both.sigmoid(torch.cat([x[places], h], 1))


def _weights(of_gates: Tensor) -> list[Tensor]:
    """Those of i, f, o and j doubled, from the model's i, j, f, o in one."""
    i, j, f, o = of_gates.detach().chunk(4)
    return [i, f, o, 2 * j]


def _biases(layer: ProjectedLSTM) -> list[Tensor]:
    i, f, o, j = _weights(layer.input.bias)
    return [i, f + FORGET_BIAS, o, j]
