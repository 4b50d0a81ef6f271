"""One LSTM layer over a window, both directions in the same products, with its own gradient.

The plain loop of `model.lstm` would be recorded by autograd operation by operation: per step some
fifteen small nodes and a weight gradient of its own. Here the window is one node: its backward pass
walks the steps once and makes each weight gradient in a single product over all of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo_cli.engine.packed import PackedWeight, packs
from elmo_cli.model.lstm import FORGET_BIAS, ProjectedLSTM

Weights = tuple[Tensor, Tensor, Tensor | None]


def stacked_weights(layers: list[ProjectedLSTM], dtype: torch.dtype | None = None) -> Weights:
    """The weights of one layer in each direction, side by side.

    Args:
        dtype: what they are turned into; None for as they are.
    Returns:
        Gates over [x ; h], (direction, 4 * cell, 2 * projection); their bias with the forget bias
        in it, (direction, 4 * cell); projection (direction, projection, cell), or None.
        Gradients flow through to the layers' parameters.
    """
    gates = torch.stack([torch.cat([k.input.weight, k.recurrent.weight], 1) for k in layers])
    cell = layers[0].options.cell
    forget = torch.zeros_like(layers[0].input.bias)
    forget[2 * cell : 3 * cell] = FORGET_BIAS
    bias = torch.stack([k.input.bias + forget for k in layers])
    projection = None
    if layers[0].options.lstm_projection:
        weights: list[Tensor] = [k.projection.get_parameter("weight") for k in layers]
        projection = torch.stack(weights).to(dtype)
    return gates.to(dtype), bias.to(dtype), projection


def scan(
    x: Tensor, h: Tensor, c: Tensor, weights: Weights, clips: tuple[float | None, float | None]
) -> tuple[Tensor, Tensor, Tensor]:
    """Read a window.

    Products and gates are computed in the type of `x` and of the weights, cells in the type of `c`:
    of bfloat16's eight digits a cell would lose one in every few steps.

    Args:
        x: (token, direction, row, projection).
        h: before the first token, (direction, row, projection); no gradient flows into it.
        c: before the first token, (direction, row, cell); no gradient flows into it.
        weights: of `stacked_weights`.
        clips: bounds of the cell and of the projected output, None for none.
    Returns:
        Outputs (token, direction, row, projection); h and c after the last token, detached.
    """
    scanned: tuple[Tensor, Tensor] = _Scan.apply(  # type: ignore[no-untyped-call]
        x, h, c, *weights, *clips
    )
    outputs, cells = scanned
    return outputs, outputs[-1].detach(), cells[-1].detach()


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        gates: Tensor,
        bias: Tensor,
        projection: Tensor | None,
        cell_clip: float | None,
        proj_clip: float | None,
    ) -> tuple[Tensor, Tensor]:
        n_tokens, n_directions, n_rows, size = x.shape
        n_cells = c.shape[2]
        acts = _at_all_steps(x, gates[..., :size], bias)  # (token, direction, row, 4 * cell)
        cells = c.new_empty(n_tokens + 1, n_directions, n_rows, n_cells)
        squashed = x.new_empty(n_tokens, n_directions, n_rows, n_cells)
        read = x.new_empty(n_tokens + 1, n_directions, n_rows, 2 * size)  # [x ; h]
        read[:-1, ..., :size] = x
        read[0, ..., size:] = h
        cells[0] = c
        recurrent = _EachStep(gates[..., size:])
        projected = None if projection is None else _EachStep(projection)
        for t in range(n_tokens):
            z = recurrent.added(read[t, ..., size:], acts[t])
            i, j, f, o = z.chunk(4, 2)
            i.sigmoid_()
            j.tanh_()
            z[..., 2 * n_cells :].sigmoid_()
            cell = torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, j)
            if cell_clip is not None:
                cell.clamp_(-cell_clip, cell_clip)
            m = torch.tanh(cell, out=squashed[t]) * o
            if projected is not None:
                m = projected.of(m)
                if proj_clip is not None:
                    m.clamp_(-proj_clip, proj_clip)
            read[t + 1, ..., size:] = m
        ctx.save_for_backward(read, acts, cells, squashed, gates, projection)
        ctx.clips = cell_clip, proj_clip
        outputs, cells_after = read[1:, ..., size:].clone(), cells[1:]
        ctx.mark_non_differentiable(cells_after)
        return outputs, cells_after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        read, acts, cells, squashed, gates, projection = ctx.saved_tensors
        cell_clip, proj_clip = ctx.clips
        n_tokens, size = len(d_outputs), d_outputs.shape[3]
        clipped_cells = None if cell_clip is None else cells.abs() >= cell_clip
        clipped_outputs = None
        if projection is not None and proj_clip is not None:
            clipped_outputs = read[..., size:].abs() >= proj_clip
        d_projected, d_z = torch.empty_like(d_outputs), torch.empty_like(acts)
        d_h, d_cell = torch.zeros_like(d_outputs[0]), torch.zeros_like(cells[0])
        back = gates.transpose(1, 2)  # (direction, 2 * projection, 4 * cell)
        recurrent = _EachStep(back[:, size:])
        unprojected = None if projection is None else _EachStep(projection.transpose(1, 2))
        for t in range(n_tokens - 1, -1, -1):
            i, j, f, o = acts[t].chunk(4, 2)
            d_i, d_j, d_f, d_o = d_z[t].chunk(4, 2)
            d_m = torch.add(d_outputs[t], d_h, out=d_projected[t])
            if clipped_outputs is not None:
                d_m.masked_fill_(clipped_outputs[t + 1], 0)
            if unprojected is not None:
                d_m = unprojected.of(d_m)
            _sigmoid_backward(d_m * squashed[t], o, grad_input=d_o)
            d_cell += torch.ops.aten.tanh_backward(d_m * o, squashed[t])
            if clipped_cells is not None:
                d_cell.masked_fill_(clipped_cells[t + 1], 0)
            _sigmoid_backward(d_cell * j, i, grad_input=d_i)
            _tanh_backward(d_cell * i, j, grad_input=d_j)
            _sigmoid_backward(d_cell * cells[t], f, grad_input=d_f)
            d_cell *= f
            d_h = recurrent.of(d_z[t])
        d_x = _at_all_steps(d_z, back[:, :size], None)
        d_gates = _over_all_steps(d_z, read[:-1])
        d_bias = d_z.sum(0).sum(1)  # both at once would take twenty times as long
        d_projection = None
        if projection is not None:
            d_projection = _over_all_steps(d_projected, acts[..., -cells.shape[3] :] * squashed)
        return d_x, None, None, d_gates, d_bias, d_projection, None, None


_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class _EachStep:
    """Products with the same weights at each step of a window.

    Where oneDNN has them the weights are packed once, which torch's own product does each time.

    Args:
        weights: (direction, n_out, n_in).
    """

    def __init__(self, weights: Tensor) -> None:
        self._weights = weights.transpose(1, 2)
        self._packed = [PackedWeight(weight) for weight in weights] if packs(weights) else None

    def of(self, x: Tensor) -> Tensor:
        """x @ weight.T: (direction, row, n_in) -> (direction, row, n_out)."""
        if self._packed is None:
            return torch.bmm(x, self._weights)
        return torch.stack([w.of(rows) for w, rows in zip(self._packed, x, strict=True)])

    def added(self, x: Tensor, base: Tensor) -> Tensor:
        """`base` with x @ weight.T added in place, (direction, row, n_out)."""
        if self._packed is None:
            return torch.baddbmm(base, x, self._weights, out=base)
        for d, weight in enumerate(self._packed):
            base[d] = weight.plus(x[d], base[d])
        return base


def _at_all_steps(x: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T of all tokens at once: (token, direction, row, n_in) -> (…, n_out)."""
    n_tokens, n_directions, n_rows, _ = x.shape
    made = x.new_empty(n_tokens, n_directions, n_rows, weights.shape[1])
    for d, weight in enumerate(weights):
        of_all = nn.functional.linear(
            x[:, d].flatten(0, 1), weight, None if bias is None else bias[d]
        )
        made[:, d] = of_all.view(n_tokens, n_rows, -1)
    return made


def _over_all_steps(left: Tensor, right: Tensor) -> Tensor:
    """Sum over tokens and rows of the outer products, (direction, left's size, right's size)."""
    pairs = [left[:, d].flatten(0, 1).t() @ right[:, d].flatten(0, 1) for d in range(left.shape[1])]
    return torch.stack(pairs)
