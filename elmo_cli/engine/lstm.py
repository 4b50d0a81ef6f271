"""FastLSTM: one LSTM layer in one direction over a packed batch, and the states of its rows.

It computes the function of `model.bilm`; `lm.forward` computes it with a backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from elmo_cli.engine.gemm import make_gemm, pad_rows, padded_rows
from elmo_cli.engine.packing import PackedBatch
from elmo_cli.model.bilm import FORGET_BIAS, ProjectedLSTM

_MAX_TYPE_GATES = 1 << 28  # bytes, for the gates' parts of all types of a batch

Step = Callable[[Iterable[Tensor], Tensor, Tensor], None]
"""Reads one array, or one for each gate, (row, n); updates h (row, projection_dim) and
c (row, lstm_dim) in place."""


class RowStates:
    """The state of each row of a batch: h (row, projection_dim) and c (row, lstm_dim)."""

    def __init__(self, h: Tensor, c: Tensor) -> None:
        self.h, self.c = h, c

    def set(self, h: Tensor, c: Tensor) -> None:
        """Set the states of the first rows."""
        self.h, self.c = h, c

    def select(self, rows: Tensor) -> None:
        """Continue from the states of these rows."""
        self.set(self.h.index_select(0, rows), self.c.index_select(0, rows))

    def advance(
        self, step: Step, sources: Sequence[Tensor], numbers: Tensor | None, positions: slice
    ) -> None:
        """Compute a step of the first rows.

        Args:
            sources: what the step reads, one array or one for each gate, (number, n): the rows
                `numbers[positions]`, or without numbers the rows `positions`.
        """
        rows = slice(positions.stop - positions.start)
        step((read_rows(s, numbers, positions) for s in sources), self.h[rows], self.c[rows])


def read_rows(
    source: Tensor, numbers: Tensor | None, positions: slice, out: Tensor | None = None
) -> Tensor:
    """The rows `numbers[positions]` of a source, or without numbers `positions`."""
    if numbers is not None:
        return torch.index_select(source, 0, numbers[positions], out=out)
    return source[positions] if out is None else out.copy_(source[positions])


class FastLSTM:
    """One LSTM layer in one direction.

    All gates are sigmoids: tanh(x) = 2 sigmoid(2 x) - 1, and torch's tanh takes several times as
    long on a CPU. So the weights of j are doubled, the cell is kept doubled, and the projection
    takes twice the half of its input; factors of two do not round. The forget bias is added to the
    bias.

    If inputs are vectors of types, as in the first layer, the input's part of the gates is computed
    once per type; in the layers above each gate is one product with [x ; h], which in int8 share a
    scale.

    Args:
        states: of a fixed number of rows, which batches of at most as many rows use.
    """

    def __init__(
        self,
        layer: ProjectedLSTM,
        precision: str,
        *,
        reads_types: bool,
        states: RowStates | None = None,
    ) -> None:
        self._options, self._reads_types, self._states = layer.options, reads_types, states
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
        sources, step = self._sources(inputs)
        numbers = packed.types if self._reads_types else None
        state = self._start(pad_rows(start[0]), pad_rows(2 * start[1]), max(packed.rows_per_step))
        outputs = state.h.new_zeros(len(packed.types), state.h.shape[1])
        first, counts = 0, packed.rows_per_step
        for n, n_next, parents in zip(counts, [*counts[1:], 0], packed.parents, strict=True):
            if parents is not None:
                state.select(parents)
            state.advance(step, sources, numbers, slice(first, first + padded_rows(n)))
            outputs[first : first + n] = state.h[:n]
            if final is not None:
                final[0][n_next:n], final[1][n_next:n] = state.h[n_next:n], state.c[n_next:n] / 2
            first += n
        return outputs

    def _start(self, h: Tensor, c: Tensor, most_rows: int) -> RowStates:
        if self._states is None or padded_rows(most_rows) > len(self._states.h):
            return RowStates(h, c)
        self._states.set(h, c)
        return self._states

    def _sources(self, inputs: Tensor) -> tuple[list[Tensor], Step]:
        """What steps read, and such a step; of types their part of the gates, if not too large."""
        if not self._reads_types:
            return [inputs], self._read_inputs
        if len(inputs) * self._bytes_per_type > _MAX_TYPE_GATES:
            return [inputs], self._read_types
        return self._input.input_part(pad_rows(inputs)), self._read_parts

    def _read_parts(self, x: Iterable[Tensor], h: Tensor, c: Tensor) -> None:
        self._update([z.sigmoid_() for z in self._recurrent.add_linear(h, x)], h, c)

    def _read_types(self, x: Iterable[Tensor], h: Tensor, c: Tensor) -> None:
        (types,) = x
        self._read_parts(self._input.input_part(types), h, c)

    def _read_inputs(self, x: Iterable[Tensor], h: Tensor, c: Tensor) -> None:
        self._update(self._input.linear_sigmoid(torch.cat([*x, h], 1)), h, c)

    def _update(self, gates: list[Tensor], h: Tensor, c: Tensor) -> None:
        """Update h (row, projection_dim), and c (row, lstm_dim), which is twice the cell."""
        i, f, o, j = self._input.split(gates)  # each (row, lstm_dim)
        cell_clip, proj_clip = self._options.cell_clip, self._options.proj_clip
        c.mul_(f).addcmul_(i, j, value=4).sub_(i, alpha=2)
        if cell_clip is not None:
            c.clamp_(-2 * cell_clip, 2 * cell_clip)
        half = torch.sigmoid(c, out=i).sub_(0.5).mul_(o)
        if self._projection is None:
            h.copy_(half.mul_(2))
            return
        (projected,) = self._projection.linear(half)
        h.copy_(projected if proj_clip is None else projected.clamp_(-proj_clip, proj_clip))


def _split_gates(weights: Tensor) -> list[Tensor]:
    """Those of i, f, o and j doubled, from the model's i, j, f, o in one."""
    i, j, f, o = weights.detach().chunk(4)
    return [i, f, o, 2 * j]
