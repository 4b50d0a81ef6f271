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
from elmo_cli.model.bilm import ProjectedLSTM


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
        forget_bias: added to the bias of the forget gate.
        parameters: the `parameters_of` the forward layer, then those of the backward layer.
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
        forget_bias: float,
        *parameters: Tensor,
    ) -> tuple[Tensor, Tensor]:
        n_tokens, n_directions, n_streams, _ = x.shape
        n_cells = c.shape[2]
        n_per_direction = len(parameters) // n_directions  # 3, or 4 with a projection
        # Lists with one element per direction.
        input_weights = [weight.to(x.dtype) for weight in parameters[0::n_per_direction]]
        recurrent_weights = [weight.to(x.dtype) for weight in parameters[1::n_per_direction]]
        biases = []
        for bias in parameters[2::n_per_direction]:
            biases.append(_with_forget_bias(bias, forget_bias).to(x.dtype))
        projections: list[Tensor] = []
        if n_per_direction == 4:
            projections = [weight.to(x.dtype) for weight in parameters[3::n_per_direction]]
        # The input products, which the loop turns into the values of the gates, in place.
        gates = _linear_at_all_steps(x, input_weights, biases)
        # Cells and outputs before each token and after the last one: (token + 1, …).
        cells = c.new_empty(n_tokens + 1, n_directions, n_streams, n_cells)
        hs = x.new_empty(n_tokens + 1, *x.shape[1:])
        tanh_cells = x.new_empty(n_tokens, n_directions, n_streams, n_cells)
        cells[0] = c
        hs[0] = h
        recurrent = _StepProduct(recurrent_weights)
        projection = _StepProduct(projections) if projections else None
        for t in range(n_tokens):
            step_gates = gates[t]  # (direction, stream, 4 * cell)
            recurrent.add_product_(step_gates, hs[t])
            i, j, f, o = step_gates.chunk(4, 2)  # each (direction, stream, cell)
            f_and_o = step_gates[..., 2 * n_cells :]
            i.sigmoid_()
            j.tanh_()
            f_and_o.sigmoid_()
            cell = cells[t + 1]
            torch.mul(f, cells[t], out=cell)
            cell.addcmul_(i, j)
            if cell_clip is not None:
                cell.clamp_(-cell_clip, cell_clip)
            cell_output = torch.tanh(cell, out=tanh_cells[t]) * o  # (direction, stream, cell)
            if projection is None:
                hs[t + 1] = cell_output
            else:
                projected = projection.product(cell_output)  # (direction, stream, projection)
                if proj_clip is not None:
                    projected.clamp_(-proj_clip, proj_clip)
                hs[t + 1] = projected
        weights = [*input_weights, *recurrent_weights, *projections]
        ctx.save_for_backward(x, hs, gates, cells, tanh_cells, *weights)
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
        # Stage 1: what `forward` has saved. Of each kind, there is one weight per direction.
        x, hs, gates, cells, tanh_cells, *weights = ctx.saved_tensors
        n_tokens, n_directions = x.shape[:2]
        input_weights = weights[:n_directions]
        recurrent_weights = weights[n_directions : 2 * n_directions]
        projections = weights[2 * n_directions :]
        clipped_cells = None
        if ctx.cell_clip is not None:
            clipped_cells = _is_clipped(cells, ctx.cell_clip)
        clipped_hs = None
        if projections and ctx.proj_clip is not None:
            clipped_hs = _is_clipped(hs, ctx.proj_clip)

        # Stage 2: the gradients of all sums and outputs, from the last token to the first.
        d_sums = torch.empty_like(gates)  # of the sums inside the gates
        d_hs = torch.empty_like(d_outputs)  # (token, direction, stream, projection)
        # What the next token passes back to the output and to the cell before it.
        d_next_h = torch.zeros_like(d_outputs[0])  # (direction, stream, projection)
        d_cell = torch.zeros_like(cells[0])  # (direction, stream, cell)
        recurrent_back = _StepProduct([weight.t() for weight in recurrent_weights])
        projection_back = None
        if projections:
            projection_back = _StepProduct([weight.t() for weight in projections])
        for t in range(n_tokens - 1, -1, -1):
            i, j, f, o = gates[t].chunk(4, 2)  # each (direction, stream, cell)
            d_i, d_j, d_f, d_o = d_sums[t].chunk(4, 2)
            d_h = torch.add(d_outputs[t], d_next_h, out=d_hs[t])
            if clipped_hs is not None:
                d_h.masked_fill_(clipped_hs[t + 1], 0)
            d_cell_output = d_h  # (direction, stream, cell)
            if projection_back is not None:
                d_cell_output = projection_back.product(d_h)
            _sigmoid_backward(d_cell_output * tanh_cells[t], o, grad_input=d_o)
            d_cell += torch.ops.aten.tanh_backward(d_cell_output * o, tanh_cells[t])
            if clipped_cells is not None:
                d_cell.masked_fill_(clipped_cells[t + 1], 0)
            _sigmoid_backward(d_cell * j, i, grad_input=d_i)
            _tanh_backward(d_cell * i, j, grad_input=d_j)
            _sigmoid_backward(d_cell * cells[t], f, grad_input=d_f)
            d_cell *= f
            d_next_h = recurrent_back.product(d_sums[t])

        # Stage 3: the gradients of the input and of the weights, for all tokens at once.
        d_x = _linear_at_all_steps(d_sums, [weight.t() for weight in input_weights])
        # (direction, 4 * cell); a single sum over both axes takes 20 times as long.
        d_bias = d_sums.sum(0).sum(1)
        cell_outputs = None
        if projections:
            _, _, _, output_gates = gates.chunk(4, 3)
            cell_outputs = output_gates * tanh_cells  # (token, direction, stream, cell)
        d_parameters: list[Tensor] = []  # in the order of `parameters_of`
        for direction in range(n_directions):
            d_parameters.append(_weight_gradient(d_sums, x, direction))
            d_parameters.append(_weight_gradient(d_sums, hs[:-1], direction))
            d_parameters.append(d_bias[direction])
            if cell_outputs is not None:
                d_parameters.append(_weight_gradient(d_hs, cell_outputs, direction))
        converted = [gradient.to(ctx.dtype) for gradient in d_parameters]
        # `h` and `c` come from the previous batch and get no gradient, nor do the three numbers.
        return d_x, None, None, None, None, None, *converted


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

    def product(self, x: Tensor) -> Tensor:
        """Compute x @ weight.T: (direction, stream, n_in) -> (direction, stream, n_out)."""
        if self._packed is None:
            return torch.bmm(x, self._weights)
        products = [
            weight.linear(rows)  # (stream, n_out)
            for weight, rows in zip(self._packed, x, strict=True)
        ]
        return torch.stack(products)

    def add_product_(self, base: Tensor, x: Tensor) -> None:
        """Add x @ weight.T, (direction, stream, n_out), to `base` in place."""
        if self._packed is None:
            torch.baddbmm(base, x, self._weights, out=base)
        else:
            for direction, weight in enumerate(self._packed):
                base[direction] = weight.add_linear(x[direction], base[direction])


def _with_forget_bias(bias: Tensor, forget_bias: float) -> Tensor:
    """Add the forget bias to the third quarter of (4 * cell,)."""
    i, j, f, o = bias.chunk(4)
    return torch.cat([i, j, f + forget_bias, o])


def _is_clipped(values: Tensor, clip: float) -> Tensor:
    """Return a mask of the values at one of the bounds; no gradient flows through them."""
    return (values >= clip).logical_or_(values <= -clip)


def _linear_at_all_steps(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor] | None = None
) -> Tensor:
    """Compute x @ weight.T + bias for all tokens.

    Args:
        x: (token, direction, stream, n_in).
        weights, biases: those of each direction, (n_out, n_in) and (n_out,).
    Returns:
        (token, direction, stream, n_out).
    """
    n_tokens, n_directions, n_streams, _ = x.shape
    products = x.new_empty(n_tokens, n_directions, n_streams, len(weights[0]))
    for direction, weight in enumerate(weights):
        rows = x[:, direction].flatten(0, 1)  # (token * stream, n_in)
        bias = None if biases is None else biases[direction]
        product = nn.functional.linear(rows, weight, bias)  # (token * stream, n_out)
        products[:, direction] = product.view(n_tokens, n_streams, -1)
    return products


def _weight_gradient(d_product: Tensor, x: Tensor, direction: int) -> Tensor:
    """Compute the gradient of a weight from that of x @ weight.T, summed over all steps.

    Args:
        d_product: (token, direction, stream, n_out).
        x: (token, direction, stream, n_in).
    Returns:
        (n_out, n_in).
    """
    d_rows = d_product[:, direction].flatten(0, 1)  # (token * stream, n_out)
    rows = x[:, direction].flatten(0, 1)  # (token * stream, n_in)
    return d_rows.t() @ rows
