"""FastLSTM: one LSTM layer in one direction over a packed batch.

It computes the function of `model.lstm`; `lm.forward` computes it with a backward pass.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from elmo_cli.engine.gemm import make_gemm, pad_rows, padded_rows
from elmo_cli.engine.packing import PackedBatch
from elmo_cli.model.lstm import FORGET_BIAS, ProjectedLSTM

_MAX_TYPE_GATES = 1 << 28  # bytes, for the gates' parts of all types of a batch


class FastLSTM:
    """One LSTM layer in one direction.

    All gates are sigmoids: tanh(x) = 2 sigmoid(2 x) - 1, and torch's tanh takes several times as
    long on a CPU. So the weights of j are doubled, the cell is kept doubled, and the projection
    takes twice the half of its input; factors of two do not round. The forget bias is added to the
    bias.

    If inputs are vectors of types, as in the first layer, the input's part of the gates is computed
    once per type; in the layers above each gate is one product with [x ; h], which in int8 share a
    scale.
    """

    def __init__(self, layer: ProjectedLSTM, precision: str, *, reads_types: bool) -> None:
        self._options, self._reads_types = layer.options, reads_types
        i, f, o, j = _split_gates(layer.input.bias)
        biases = [i, f + FORGET_BIAS, o, j]
        if reads_types:
            self._input = make_gemm(_split_gates(layer.input.weight), biases, precision)
            self._recurrent = make_gemm(_split_gates(layer.recurrent.weight), None, precision)
            one = layer.input.weight.new_zeros(1, layer.options.projection_dim)
            self._bytes_per_type = sum(gate.nbytes for gate in self._input.input_part(one))
        else:
            both = torch.cat([layer.input.weight, layer.recurrent.weight], 1)
            self._input = make_gemm(_split_gates(both), biases, precision)
        self._projection = None
        if layer.options.has_lstm_projection:
            weight = 2 * layer.projection.get_parameter("weight")
            self._projection = make_gemm([weight], None, precision)

    def forward(
        self,
        inputs: Tensor,
        packed: PackedBatch,
        start: tuple[Tensor, Tensor],
        final: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        """Read a packed batch.

        Args:
            inputs: (position, projection_dim), or (type, projection_dim) for a layer that reads
                types: those that `packed.types` numbers.
            start: h (row, projection_dim) and c (row, lstm_dim) before the first step.
            final: receives h and c after the last step of each row, if positions are rows.
        Returns:
            The output of each position, (position, projection_dim).
        """
        type_parts = self._type_parts(inputs) if self._reads_types else None
        h, c = pad_rows(start[0]), pad_rows(2 * start[1])
        outputs = h.new_zeros(len(packed.types), h.shape[1])  # (position, projection_dim)
        first, counts = 0, packed.rows_per_step
        for n, n_next, parents in zip(counts, [*counts[1:], 0], packed.parents, strict=True):
            if parents is not None:
                h, c = h.index_select(0, parents), c.index_select(0, parents)
            rows, positions = slice(padded_rows(n)), slice(first, first + padded_rows(n))
            if self._reads_types:
                gates = self._gates_of_types(inputs, type_parts, packed.types[positions], h[rows])
            else:
                gates = self._input.linear_sigmoid(torch.cat([inputs[positions], h[rows]], 1))
            h[rows] = self._step(self._input.split(gates), c[rows])
            outputs[first : first + n] = h[:n]
            if final is not None:
                final[0][n_next:n], final[1][n_next:n] = h[n_next:n], c[n_next:n] / 2
            first += n
        return outputs

    def _type_parts(self, types: Tensor) -> list[Tensor] | None:
        """The input's part of the gates of each type, as of a `Gemm`; None if too large."""
        if len(types) * self._bytes_per_type > _MAX_TYPE_GATES:
            return None
        return self._input.input_part(pad_rows(types))

    def _gates_of_types(
        self, types: Tensor, type_parts: list[Tensor] | None, numbers: Tensor, h: Tensor
    ) -> list[Tensor]:
        """i, f, o, j, as the result of a `Gemm`; may be modified in place."""
        parts: Iterable[Tensor]
        if type_parts is None:
            parts = self._input.input_part(types[numbers])
        else:
            parts = (gate.index_select(0, numbers) for gate in type_parts)
        return [z.sigmoid_() for z in self._recurrent.add_linear(h, parts)]

    def _step(self, gates: list[Tensor], c: Tensor) -> Tensor:
        """h after a token, (row, projection_dim); `c` is twice the cell, modified in place."""
        i, f, o, j = gates  # each (row, lstm_dim)
        cell_clip, proj_clip = self._options.cell_clip, self._options.proj_clip
        c.mul_(f).addcmul_(i, j, value=4).sub_(i, alpha=2)
        if cell_clip is not None:
            c.clamp_(-2 * cell_clip, 2 * cell_clip)
        half = torch.sigmoid(c, out=i).sub_(0.5).mul_(o)
        if self._projection is None:
            return half.mul_(2)
        (h,) = self._projection.linear(half)
        return h if proj_clip is None else h.clamp_(-proj_clip, proj_clip)


def _split_gates(weights: Tensor) -> list[Tensor]:
    """Those of i, f, o and j doubled, from the model's i, j, f, o in one."""
    i, j, f, o = weights.detach().chunk(4)
    return [i, f, o, 2 * j]
