"""FastLSTM: one LSTM layer in one direction over a `PackedBatch`, and the states of its rows.

It computes the function of `model.bilm`; `lm.lstm` computes it with a backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import Int64Array
from elmo_cli.engine.gemm import make_gemm, pad_rows, padded_rows
from elmo_cli.model.bilm import FORGET_BIAS, ProjectedLSTM
from elmo_cli.text.batching import Batch

_MAX_TYPE_GATES = 1 << 28  # bytes, for the gates' parts of all types of a batch

Step = Callable[[Iterable[Tensor], Tensor, Tensor], None]
"""Reads one array, or one for each gate, (row, n); updates h (row, projection_dim) and
c (row, lstm_dim) in place."""


@dataclass(frozen=True)
class PackedBatch:
    """The positions of a batch in one direction: step after step, the longest rows first.

    A position is one row of one time step. With a shared start, rows that have read the same tokens
    share a position. Each step is computed for `padded_rows(n)` positions; those in excess belong
    to the next step, or at the end to no row, and their results are discarded.

    Attributes:
        rows_per_step: positions of each step.
        parents: for each step the positions of the previous step that its own continue, (padded
            position,); for the first step, rows of the state. None for the first ones, in order.
        types: the number of the type that is read at each position, (position,).
        token_positions: the position of each token without sentence boundaries, in the order of
            the batch, (token,).
    """

    rows_per_step: list[int]
    parents: list[Tensor | None]
    types: Tensor
    token_positions: Tensor

    @classmethod
    def of(
        cls,
        batch: Batch,
        order: Int64Array,
        device: torch.device,
        *,
        backward: bool,
        shared_start: bool,
    ) -> PackedBatch:
        """Lay out a batch.

        Args:
            order: the batch's row for each sorted row, from long to short; the state is so sorted.
            backward: whether rows are read from their end.
            shared_start: whether rows that read the same tokens share positions. The boundary at
                which a row ends is then left out: no token follows it.
        """
        tokens, is_running = _tokens_by_step(batch, order, backward, n_unread=int(shared_start))
        n_running = is_running.sum(0)  # (step,)
        if shared_start:
            ranks, counts, parents = _share_prefixes(tokens, n_running)
        else:
            ranks = np.broadcast_to(np.arange(len(order))[:, None], tokens.shape)
            counts, parents = n_running.tolist(), [None] * len(n_running)
        starts = np.cumsum([0, *counts])[:-1]
        positions = starts + ranks  # (sorted row, step)
        n_positions = max(starts + [padded_rows(n) for n in counts])
        types = np.full(n_positions, tokens[0, 0])
        types[positions[is_running]] = tokens[is_running]
        token_positions = positions[_inner_tokens(batch, order, backward=backward)]
        padded = [None if p is None else _pad_parents(p).to(device) for p in parents]
        types_t = torch.from_numpy(types).to(device)
        return cls(counts, padded, types_t, torch.from_numpy(token_positions).to(device))


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
                `numbers[positions]`, or the rows `positions` if `numbers` is None.
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
    scale. Batches use `states`, if given, unless they have more rows than these.
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
        """What each step reads, and the step; for types, their part of the gates if it is small."""
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


def _pad_parents(parents: Int64Array) -> Tensor:
    """With parents for the positions in excess."""
    excess = padded_rows(len(parents)) - len(parents)
    return torch.from_numpy(np.pad(parents, (0, excess)))


def _tokens_by_step(
    batch: Batch, order: Int64Array, backward: bool, *, n_unread: int
) -> tuple[Int64Array, np.ndarray]:
    """The tokens of sorted rows in reading order, (row, step), and where there are any."""
    lengths = batch.lengths[order] - n_unread
    is_running = np.arange(lengths[0]) < lengths[:, None]  # (row, step)
    tokens = np.zeros(is_running.shape, np.int64)
    rows = (batch.rows[r][::-1] if backward else batch.rows[r] for r in order)
    tokens[is_running] = np.concatenate([row[: len(row) - n_unread] for row in rows])
    return tokens, is_running


def _inner_tokens(
    batch: Batch, order: Int64Array, *, backward: bool
) -> tuple[Int64Array, Int64Array]:
    """Sorted row and step of each token without boundaries, in the order of the batch."""
    lengths = batch.lengths
    rank = np.argsort(order)  # the inverse permutation
    n_inner = lengths - 2
    row = np.repeat(np.arange(len(order)), n_inner)
    step = 1 + np.arange(len(row)) - np.repeat(np.cumsum(n_inner) - n_inner, n_inner)
    return rank[row], lengths[row] - 1 - step if backward else step


def _share_prefixes(
    tokens: Int64Array, n_running: Int64Array
) -> tuple[Int64Array, list[int], list[Int64Array | None]]:
    """One position per distinct prefix: the rank of each row's position in each step, (row, step);
    positions and parents per step. Rows are from long to short, `n_running` at each step."""
    n_rows, n_steps = tokens.shape
    ranks = np.zeros((n_rows, n_steps), np.int64)
    counts: list[int] = []
    parents: list[Int64Array | None] = []
    previous = np.zeros(n_rows, np.int64)  # rank of each row in the step before
    n_types = tokens.max() + 1
    for step, n in enumerate(n_running.tolist()):
        prefixes = previous[:n] * n_types + tokens[:n, step]
        _, first, inverse = np.unique(prefixes, return_index=True, return_inverse=True)
        by_row = np.argsort(first)  # so that positions are in the order of their longest rows
        parent = previous[first[by_row]]
        is_same = np.array_equal(parent, np.arange(len(parent)))
        counts.append(len(first))
        parents.append(None if is_same else parent)
        previous = np.argsort(by_row)[inverse]
        ranks[:n, step] = previous
        if len(first) == n:  # no prefix is shared from here on
            ranks[:, step + 1 :] = np.arange(n_rows)[:, None]
            counts += n_running[step + 1 :].tolist()
            parents += [None] * (n_steps - step - 1)
            break
    return ranks, counts, parents
