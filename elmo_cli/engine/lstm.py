"""FastLSTM: one LSTM layer in one direction over a `PackedBatch`, and the states of its rows.

It computes the function of `model.bilm`; `lm.lstm` computes it with a backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import BoolArray, Int64Array
from elmo_cli.engine.gemm import make_gemm, pad_rows, padded_rows
from elmo_cli.model.bilm import ProjectedLSTM
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
        token_positions: the position of each token whose vector is returned, in the order of the
            batch, (token,).
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
        keep_boundaries: bool = False,
    ) -> PackedBatch:
        """Lay out a batch.

        Args:
            order: the batch's row for each sorted row, from long to short; the state is so sorted.
            backward: whether rows are read from their end.
            shared_start: whether rows that read the same tokens share positions. The boundary at
                which a row ends is then left out: no token follows it.
            keep_boundaries: whether sentence boundaries are tokens whose vectors are returned; then
                none is left out.
        """
        n_unread = 1 if shared_start and not keep_boundaries else 0
        tokens, is_running = _tokens_by_step(batch, order, backward, n_unread=n_unread)
        n_running = is_running.sum(0)  # (step,)
        if shared_start:
            ranks, counts, parents = _share_prefixes(tokens, n_running)
        else:
            ranks = np.broadcast_to(np.arange(len(order))[:, None], tokens.shape)
            counts = n_running.tolist()
            parents = [None] * len(n_running)
        first_positions = np.cumsum([0, *counts])[:-1]  # (step,)
        positions = first_positions + ranks  # (sorted row, step)
        n_positions = max(first_positions + [padded_rows(n) for n in counts])
        types = np.full(n_positions, tokens[0, 0])  # (position,); any type for those in excess
        types[positions[is_running]] = tokens[is_running]
        n_left_out = 0 if keep_boundaries else 1
        kept = _kept_tokens(batch, order, backward=backward, n_left_out=n_left_out)
        token_positions = positions[kept]  # (token,)
        return cls(
            rows_per_step=counts,
            parents=[None if p is None else _pad_parents(p).to(device) for p in parents],
            types=torch.from_numpy(types).to(device),
            token_positions=torch.from_numpy(token_positions).to(device),
        )


class RowStates:
    """The state of each row of a batch: h (row, projection_dim) and c (row, lstm_dim)."""

    def __init__(self, h: Tensor, c: Tensor) -> None:
        self.h = h
        self.c = c

    def set(self, h: Tensor, c: Tensor) -> None:
        """Set the states of the first rows."""
        self.h = h
        self.c = c

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
        n_rows = positions.stop - positions.start
        inputs = (read_rows(source, numbers, positions) for source in sources)
        step(inputs, self.h[:n_rows], self.c[:n_rows])


def read_rows(
    source: Tensor, numbers: Tensor | None, positions: slice, out: Tensor | None = None
) -> Tensor:
    """The rows `numbers[positions]` of a source, or without numbers `positions`."""
    if numbers is not None:
        return torch.index_select(source, 0, numbers[positions], out=out)
    rows = source[positions]
    return rows if out is None else out.copy_(rows)


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
        options = layer.options
        self._options = options
        self._reads_types = reads_types
        self._states = states
        i, f, o, j = _split_gates(layer.input.bias)
        biases = [i, f + options.forget_bias, o, j]
        if reads_types:
            self._input = make_gemm(_split_gates(layer.input.weight), biases, precision)
            self._recurrent = make_gemm(_split_gates(layer.recurrent.weight), None, precision)
            type_vector = layer.input.weight.new_zeros(1, options.projection_dim)
            gates = self._input.input_part(type_vector)
            self._bytes_per_type = sum(gate.nbytes for gate in gates)
        else:
            # (gate * lstm_dim, 2 * projection_dim), for [x ; h]
            joint_weight = torch.cat([layer.input.weight, layer.recurrent.weight], 1)
            self._input = make_gemm(_split_gates(joint_weight), biases, precision)
        self._projection = None
        if options.has_lstm_projection:
            doubled = 2 * layer.projection.get_parameter("weight")
            self._projection = make_gemm([doubled], None, precision)

    def forward(
        self,
        inputs: Tensor,
        packed: PackedBatch,
        start: RowStates,
        final: RowStates | None,
    ) -> Tensor:
        """Read a packed batch.

        Args:
            inputs: (position, projection_dim), or (type, projection_dim) for a layer that reads
                types: those that `packed.types` numbers.
            start: the state of each row before the first step.
            final: receives the state of each row after its last step, if positions are rows.
        Returns:
            The output of each position, (position, projection_dim).
        """
        sources, step = self._sources(inputs)
        numbers = packed.types if self._reads_types else None
        counts = packed.rows_per_step
        state = self._start(pad_rows(start.h), pad_rows(2 * start.c), max(counts))
        outputs = state.h.new_zeros(len(packed.types), state.h.shape[1])
        first = 0  # position of the step
        for number, n in enumerate(counts):
            parents = packed.parents[number]
            if parents is not None:
                state.select(parents)
            state.advance(step, sources, numbers, slice(first, first + padded_rows(n)))
            outputs[first : first + n] = state.h[:n]
            if final is not None:
                # Rows are sorted by length: those that the next step lacks have ended.
                n_next = counts[number + 1] if number + 1 < len(counts) else 0
                final.h[n_next:n] = state.h[n_next:n]
                final.c[n_next:n] = state.c[n_next:n] / 2
            first += n
        return outputs

    def _start(self, h: Tensor, c: Tensor, most_rows: int) -> RowStates:
        """States to begin with; `c` is twice the cell."""
        if self._states is None or padded_rows(most_rows) > len(self._states.h):
            return RowStates(h, c)
        self._states.set(h, c)
        return self._states

    def _sources(self, inputs: Tensor) -> tuple[list[Tensor], Step]:
        """What a step reads, and the step: the inputs, or the input's part of the gates, which is
        computed in advance for all types unless it is too large."""
        if not self._reads_types:
            return [inputs], self._read_inputs
        if len(inputs) * self._bytes_per_type > _MAX_TYPE_GATES:
            return [inputs], self._read_types
        return self._input.input_part(pad_rows(inputs)), self._read_parts

    def _read_parts(self, x: Iterable[Tensor], h: Tensor, c: Tensor) -> None:
        gates = [z.sigmoid_() for z in self._recurrent.add_linear(h, x)]
        self._update(gates, h, c)

    def _read_types(self, x: Iterable[Tensor], h: Tensor, c: Tensor) -> None:
        (types,) = x
        self._read_parts(self._input.input_part(types), h, c)

    def _read_inputs(self, x: Iterable[Tensor], h: Tensor, c: Tensor) -> None:
        joint = torch.cat([*x, h], 1)  # (row, 2 * projection_dim)
        self._update(self._input.linear_sigmoid(joint), h, c)

    def _update(self, gates: list[Tensor], h: Tensor, c: Tensor) -> None:
        """Update h (row, projection_dim), and c (row, lstm_dim), which is twice the cell."""
        cell_clip = self._options.cell_clip
        proj_clip = self._options.proj_clip
        i, f, o, j = self._input.split(gates)  # each (row, lstm_dim)
        # With j a sigmoid, 2 (f c + i (2 j - 1)) = f 2c + 4 i j - 2 i.
        c.mul_(f).addcmul_(i, j, value=4).sub_(i, alpha=2)
        if cell_clip is not None:
            c.clamp_(-2 * cell_clip, 2 * cell_clip)
        # tanh of the cell is 2 sigmoid(2c) - 1, of which this is the half.
        half = torch.sigmoid(c, out=i).sub_(0.5).mul_(o)  # (row, lstm_dim)
        if self._projection is None:
            h.copy_(half.mul_(2))
            return
        (projected,) = self._projection.linear(half)  # (row, projection_dim)
        if proj_clip is not None:
            projected.clamp_(-proj_clip, proj_clip)
        h.copy_(projected)


def _split_gates(weights: Tensor) -> list[Tensor]:
    """Split the model's rows (i, j, f, o) into i, f, o and twice j, each (lstm_dim, …)."""
    i, j, f, o = weights.detach().chunk(4)
    return [i, f, o, 2 * j]


def _pad_parents(parents: Int64Array) -> Tensor:
    """Append parents of the positions in excess: (position,) -> (padded position,)."""
    n_excess = padded_rows(len(parents)) - len(parents)
    return torch.from_numpy(np.pad(parents, (0, n_excess)))


def _tokens_by_step(
    batch: Batch, order: Int64Array, backward: bool, *, n_unread: int
) -> tuple[Int64Array, BoolArray]:
    """Return the tokens of sorted rows in reading order, and where there are any: (row, step)."""
    lengths = batch.lengths[order] - n_unread  # (row,), descending
    is_running = np.arange(lengths[0]) < lengths[:, None]
    tokens = np.zeros(is_running.shape, np.int64)
    read_tokens = []
    for number in order:
        row = batch.rows[number][::-1] if backward else batch.rows[number]
        read_tokens.append(row[: len(row) - n_unread])
    tokens[is_running] = np.concatenate(read_tokens)
    return tokens, is_running


def _kept_tokens(
    batch: Batch, order: Int64Array, *, backward: bool, n_left_out: int
) -> tuple[Int64Array, Int64Array]:
    """Return the sorted row and the step of each token, both (token,), in the order of the batch,
    without the first and the last `n_left_out` tokens of each row."""
    lengths = batch.lengths
    sorted_rows = np.argsort(order)  # the inverse permutation: where each row is
    n_kept = lengths - 2 * n_left_out
    first_tokens = np.cumsum(n_kept) - n_kept  # of each row, (row,)
    row = np.repeat(np.arange(len(order)), n_kept)  # (token,)
    in_row = np.arange(len(row)) - np.repeat(first_tokens, n_kept)
    position = n_left_out + in_row  # in its row, (token,)
    step = lengths[row] - 1 - position if backward else position
    return sorted_rows[row], step


def _share_prefixes(
    tokens: Int64Array, n_running: Int64Array
) -> tuple[Int64Array, list[int], list[Int64Array | None]]:
    """Give the rows that have read the same tokens one position.

    Args:
        tokens: (row, step), rows from long to short.
        n_running: rows that have a token at each step, (step,).
    Returns:
        The rank of each row's position within its step, (row, step); the positions of each step;
        and their parents, as in `PackedBatch` without padding.
    """
    n_rows, n_steps = tokens.shape
    ranks = np.zeros((n_rows, n_steps), np.int64)
    counts: list[int] = []
    parents: list[Int64Array | None] = []
    previous = np.zeros(n_rows, np.int64)  # rank of each row in the step before
    n_types = tokens.max() + 1
    for step, n in enumerate(n_running.tolist()):
        # A prefix is a prefix of the step before, and one more token.
        prefixes = previous[:n] * n_types + tokens[:n, step]
        _, first_rows, inverse = np.unique(prefixes, return_index=True, return_inverse=True)
        by_row = np.argsort(first_rows)  # so that positions are in the order of their longest rows
        parent = previous[first_rows[by_row]]
        is_same = np.array_equal(parent, np.arange(len(parent)))
        counts.append(len(first_rows))
        parents.append(None if is_same else parent)
        previous = np.argsort(by_row)[inverse]
        ranks[:n, step] = previous
        if len(first_rows) == n:  # no prefix is shared from here on
            ranks[:, step + 1 :] = np.arange(n_rows)[:, None]
            counts += n_running[step + 1 :].tolist()
            parents += [None] * (n_steps - step - 1)
            break
    return ranks, counts, parents
