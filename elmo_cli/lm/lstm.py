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
    parameters: list[Tensor] = [
        layer.input.weight,  # (4 * cell, projection)
        layer.recurrent.weight,  # (4 * cell, projection)
        layer.input.bias,  # (4 * cell,)
    ]
    if layer.options.has_lstm_projection:
        parameters.append(layer.projection.get_parameter("weight"))  # (projection, cell)
    return parameters


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
        n_kinds = len(parameters) // n_directions  # 3, or 4 with a projection
        input_weights = [weight.to(x.dtype) for weight in parameters[0::n_kinds]]
        recurrent_weights = [weight.to(x.dtype) for weight in parameters[1::n_kinds]]
        biases = [_with_forget_bias(bias).to(x.dtype) for bias in parameters[2::n_kinds]]
        projections: list[Tensor] = []
        if n_kinds == 4:
            projections = [weight.to(x.dtype) for weight in parameters[3::n_kinds]]
        # Input products, which the loop turns into the values of the gates, in place.
        gates = _at_all_steps(x, input_weights, biases)  # (token, direction, stream, 4 * cell)
        # Cells and outputs before each token and after the last one: (token + 1, …).
        cells = c.new_empty(n_tokens + 1, n_directions, n_rows, n_cells)
        hs = x.new_empty(n_tokens + 1, *x.shape[1:])
        squashed = x.new_empty(n_tokens, n_directions, n_rows, n_cells)  # tanh of cells
        cells[0] = c
        hs[0] = h
        recurrent = _StepProduct(recurrent_weights)
        project = _StepProduct(projections) if projections else None
        for t in range(n_tokens):
            z = recurrent.added(hs[t], gates[t])  # (direction, stream, 4 * cell)
            i, j, f, o = z.chunk(4, 2)  # each (direction, stream, cell)
            i.sigmoid_()
            j.tanh_()
            z[..., 2 * n_cells :].sigmoid_()  # f and o
            cell = torch.mul(f, cells[t], out=cells[t + 1]).addcmul_(i, j)
            if cell_clip is not None:
                cell.clamp_(-cell_clip, cell_clip)
            m = torch.tanh(cell, out=squashed[t]) * o  # (direction, stream, cell)
            if project is not None:
                m = project.of(m)  # (direction, stream, projection)
                if proj_clip is not None:
                    m.clamp_(-proj_clip, proj_clip)
            hs[t + 1] = m
        weights = [*input_weights, *recurrent_weights, *projections]
        ctx.save_for_backward(x, hs, gates, cells, squashed, *weights)
        ctx.cell_clip = cell_clip
        ctx.proj_clip = proj_clip
        ctx.dtype = parameters[0].dtype
        outputs = hs[1:].clone()
        cells_after = cells[1:]
        ctx.mark_non_differentiable(cells_after)
        return outputs, cells_after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        x, hs, gates, cells, squashed, *weights = ctx.saved_tensors
        n_tokens, n_directions = x.shape[:2]
        input_weights = weights[:n_directions]
        recurrent_weights = weights[n_directions : 2 * n_directions]
        projections = weights[2 * n_directions :]
        clipped_cells = None
        if ctx.cell_clip is not None:
            clipped_cells = _at_bounds(cells, ctx.cell_clip)
        clipped_outputs = None
        if projections and ctx.proj_clip is not None:
            clipped_outputs = _at_bounds(hs, ctx.proj_clip)
        d_projected = torch.empty_like(d_outputs)  # (token, direction, stream, projection)
        d_z = torch.empty_like(gates)  # (token, direction, stream, 4 * cell)
        d_h = torch.zeros_like(d_outputs[0])  # (direction, stream, projection)
        d_cell = torch.zeros_like(cells[0])  # (direction, stream, cell)
        recurrent = _StepProduct([weight.t() for weight in recurrent_weights])
        unproject = None
        if projections:
            unproject = _StepProduct([weight.t() for weight in projections])
        for t in range(n_tokens - 1, -1, -1):
            i, j, f, o = gates[t].chunk(4, 2)  # each (direction, stream, cell)
            d_i, d_j, d_f, d_o = d_z[t].chunk(4, 2)
            d_m = torch.add(d_outputs[t], d_h, out=d_projected[t])
            if clipped_outputs is not None:
                d_m.masked_fill_(clipped_outputs[t + 1], 0)
            if unproject is not None:
                d_m = unproject.of(d_m)  # (direction, stream, cell)
            _sigmoid_backward(d_m * squashed[t], o, grad_input=d_o)
            d_cell += torch.ops.aten.tanh_backward(d_m * o, squashed[t])
            if clipped_cells is not None:
                d_cell.masked_fill_(clipped_cells[t + 1], 0)
            _sigmoid_backward(d_cell * j, i, grad_input=d_i)
            _tanh_backward(d_cell * i, j, grad_input=d_j)
            _sigmoid_backward(d_cell * cells[t], f, grad_input=d_f)
            d_cell *= f
            d_h = recurrent.of(d_z[t])
        d_x = _at_all_steps(d_z, [weight.t() for weight in input_weights])
        # (direction, 4 * cell); a single sum over both axes takes 20 times as long.
        d_bias = d_z.sum(0).sum(1)
        unprojected = None
        if projections:
            n_cells = cells.shape[3]
            unprojected = gates[..., -n_cells:] * squashed  # (token, direction, stream, cell)
        d_parameters: list[Tensor] = []  # in the order of `parameters_of`
        for d in range(n_directions):
            d_parameters.append(_over_all_steps(d_z, x, d))
            d_parameters.append(_over_all_steps(d_z, hs[:-1], d))
            d_parameters.append(d_bias[d])
            if unprojected is not None:
                d_parameters.append(_over_all_steps(d_projected, unprojected, d))
        converted = [gradient.to(ctx.dtype) for gradient in d_parameters]
        return d_x, None, None, None, None, *converted


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
        products = [
            weight.linear(rows)  # (stream, n_out)
            for weight, rows in zip(self._packed, x, strict=True)
        ]
        return torch.stack(products)

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
    products = x.new_empty(n_tokens, n_directions, n_rows, len(weights[0]))
    for d, weight in enumerate(weights):
        rows = x[:, d].flatten(0, 1)  # (token * stream, n_in)
        bias = None if biases is None else biases[d]
        product = nn.functional.linear(rows, weight, bias)  # (token * stream, n_out)
        products[:, d] = product.view(n_tokens, n_rows, -1)
    return products


def _over_all_steps(left: Tensor, right: Tensor, d: int) -> Tensor:
    """Sum the outer products over tokens and streams of a direction, (left size, right size)."""
    left_rows = left[:, d].flatten(0, 1)  # (token * stream, left size)
    right_rows = right[:, d].flatten(0, 1)  # (token * stream, right size)
    return left_rows.t() @ right_rows
