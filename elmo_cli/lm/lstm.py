"""LSTM layer over a batch of token streams, with a backward pass of its own.

It is deliberately a third implementation: `model.bilm` is the reference, and `engine.lstm` is for
embedding. Here a batch is a single node of autograd: the backward pass visits each token once and
computes the gradient of each weight in one matrix product over all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo_cli.engine.gemm import PackedWeight, can_pack
from elmo_cli.model.bilm import FORGET_BIAS, ProjectedLSTM


def parameters_of(layer: ProjectedLSTM) -> list[Tensor]:
    """Return the gate weights over x and h, the bias, and the projection if there is one."""
    found: list[Tensor] = [layer.input.weight, layer.recurrent.weight, layer.input.bias]
    if layer.options.has_lstm_projection:
        found.append(layer.projection.get_parameter("weight"))
    return found


class FusedLSTM(torch.autograd.Function):
    """An LSTM layer over a batch.

    Matrix products and gates are computed in the dtype of `x`, cells in that of `c`, because
    bfloat16 cells would accumulate rounding errors.

    Args:
        x: (token, direction, stream, projection).
        h: output before the first token, (direction, stream, projection), without gradient.
        c: cell state before the first token, (direction, stream, cell), without gradient.
        cell_clip, proj_clip: bounds of the cell and of the projected output, or None.
        parameters: the `parameters_of` both directions.
    Returns:
        Outputs, (token, direction, stream, projection), and cells, (token, direction, stream,
        cell), after each token.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        cell_clip: float | None,
        proj_clip: float | None,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        n_tokens, n_directions, n_rows, _ = x.shape
        n_cells = c.shape[2]
        n_kinds = len(parameters) // n_directions
        of_x = [weight.to(x.dtype) for weight in parameters[0::n_kinds]]
        of_h = [weight.to(x.dtype) for weight in parameters[1::n_kinds]]
        biases = [_with_forget_bias(bias).to(x.dtype) for bias in parameters[2::n_kinds]]
        down = [weight.to(x.dtype) for weight in parameters[3::n_kinds]] if n_kinds > 3 else []
        acts = _at_all_steps(x, of_x, biases)  # (token, direction, stream, 4 * cell)
        cells = c.new_empty(n_tokens + 1, n_directions, n_rows, n_cells)
        squashed = x.new_empty(n_tokens, n_directions, n_rows, n_cells)
        # Outputs before each token and after the last one.
        hs = x.new_empty(n_tokens + 1, *x.shape[1:])
        cells[0], hs[0] = c, h
        recurrent, projected = _StepProduct(of_h), _StepProduct(down) if down else None
        for t in range(n_tokens):
            z = recurrent.added(hs[t], acts[t])
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
            hs[t + 1] = m
        ctx.save_for_backward(x, hs, acts, cells, squashed, *of_x, *of_h, *down)
        ctx.clips, ctx.dtype = (cell_clip, proj_clip), parameters[0].dtype
        outputs, cells_after = hs[1:].clone(), cells[1:]
        ctx.mark_non_differentiable(cells_after)
        return outputs, cells_after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, hs, acts, cells, squashed, *weights = ctx.saved_tensors
        n_tokens, n_directions = x.shape[:2]
        of_x, of_h, down = (weights[k * n_directions : (k + 1) * n_directions] for k in range(3))
        cell_clip, proj_clip = ctx.clips
        clipped_cells = None if cell_clip is None else _at_bounds(cells, cell_clip)
        clipped_outputs = _at_bounds(hs, proj_clip) if down and proj_clip is not None else None
        d_projected, d_z = torch.empty_like(d_outputs), torch.empty_like(acts)
        d_h, d_cell = torch.zeros_like(d_outputs[0]), torch.zeros_like(cells[0])
        recurrent = _StepProduct([weight.t() for weight in of_h])
        unprojected = _StepProduct([weight.t() for weight in down]) if down else None
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
        d_x = _at_all_steps(d_z, [weight.t() for weight in of_x])
        d_bias = d_z.sum(0).sum(1)  # a single sum over both axes takes 20 times as long
        opened = acts[..., -cells.shape[3] :] * squashed if down else None
        d_parameters: list[Tensor] = []
        for d in range(n_directions):
            d_parameters += [_over_all_steps(d_z, x, d), _over_all_steps(d_z, hs[:-1], d)]
            d_parameters.append(d_bias[d])
            if opened is not None:
                d_parameters.append(_over_all_steps(d_projected, opened, d))
        return d_x, None, None, None, None, *(found.to(ctx.dtype) for found in d_parameters)


_sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
_tanh_backward = torch.ops.aten.tanh_backward.grad_input


class _StepProduct:
    """Matrix products with the same weights at each token; oneDNN packs the weights only once.

    Args:
        weights: the weights of each direction, (n_out, n_in).
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self._packed = None
        if can_pack(weights[0]):
            self._packed = [PackedWeight(weight) for weight in weights]
        else:
            self._weights = torch.stack([weight.t() for weight in weights])

    def of(self, x: Tensor) -> Tensor:
        """Compute x @ weight.T: (direction, stream, n_in) -> (direction, stream, n_out)."""
        if self._packed is None:
            return torch.bmm(x, self._weights)
        return torch.stack([w.linear(rows) for w, rows in zip(self._packed, x, strict=True)])

    def added(self, x: Tensor, base: Tensor) -> Tensor:
        """Add x @ weight.T to `base` in place, (direction, stream, n_out)."""
        if self._packed is None:
            return torch.baddbmm(base, x, self._weights, out=base)
        for d, weight in enumerate(self._packed):
            base[d] = weight.add_linear(x[d], base[d])
        return base


def _with_forget_bias(bias: Tensor) -> Tensor:
    """Add the forget bias to the third quarter of (4 * cell,)."""
    i, j, f, o = bias.chunk(4)
    return torch.cat([i, j, f + FORGET_BIAS, o])


def _at_bounds(values: Tensor, clip: float) -> Tensor:
    """Mask the clipped values at a bound, through which no gradient flows."""
    return (values >= clip).logical_or_(values <= -clip)


def _at_all_steps(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None = None
) -> Tensor:
    """Compute x @ weight.T for all tokens: (token, direction, stream, n_in) -> (…, n_out)."""
    n_tokens, n_directions, n_rows, _ = x.shape
    made = x.new_empty(n_tokens, n_directions, n_rows, len(weights[0]))
    for d, weight in enumerate(weights):
        bias = None if biases is None else biases[d]
        of_all = nn.functional.linear(x[:, d].flatten(0, 1), weight, bias)
        made[:, d] = of_all.view(n_tokens, n_rows, -1)
    return made


def _over_all_steps(left: Tensor, right: Tensor, d: int) -> Tensor:
    """Sum the outer products over tokens and streams of a direction, (left size, right size)."""
    return left[:, d].flatten(0, 1).t() @ right[:, d].flatten(0, 1)
