"""The fast engine: the same numbers as the plain one, with known work skipped.

Rows stand in the order of their lengths and are packed: a step of the LSTM has as many rows as are
still running, and no product ever sees padding. The products with the input are taken out of the
loop over time, many tokens at once; what is left in the loop works in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo_cli.engine.type_cache import TypeCache
from elmo_cli.model.bilm import BiLM, DirectionLM
from elmo_cli.model.lstm import FORGET_BIAS, ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch, Ids

_CHUNK_TOKENS = 2048  # tokens whose input products are held at a time


class FastEngine:
    """Types once, input products at once, no padding."""

    def __init__(self, bilm: BiLM, device: torch.device) -> None:
        self.options = bilm.options
        self._device = device
        bilm = bilm.to(device)
        self._cache = TypeCache(
            bilm.char_cnn,
            max_characters=bilm.options.max_characters,
            projection=bilm.options.projection,
            device=device,
        )
        self._directions = [
            [_Layer.of(layer, bilm.options) for layer in _lstm_layers(lm)]
            for lm in (bilm.forward_lm, bilm.backward_lm)
        ]

    @torch.inference_mode()
    def token_vectors(self, types: Sequence[str]) -> Tensor:
        """See `Engine.token_vectors`."""
        return self._cache.vectors(types)

    @torch.inference_mode()
    def run(self, batch: Batch, vectors: Tensor, state: State | None) -> tuple[Tensor, State]:
        """See `Engine.run`."""
        packing = _Packing.of(batch, self._device)
        order = packing.order  # (batch,)
        n_rows, options = len(batch.rows), self.options
        if state is None:
            state = State.zeros(options, n_rows, device=self._device)
        sorted_state = state.rows(order)
        n_tokens = int(packing.inner.shape[0])
        dim, projection = options.dim, options.projection
        layers = vectors.new_empty(n_tokens, 1 + options.n_layers, dim)  # (token, layer, dim)
        x = vectors.index_select(0, packing.types)  # (packed, projection), forward order
        inner = x.index_select(0, packing.inner)  # (token, projection)
        layers[:, 0, :projection], layers[:, 0, projection:] = inner, inner
        left_h, left_c = torch.empty_like(state.h), torch.empty_like(state.c)
        for direction, stack in enumerate(self._directions):
            inputs = x if direction == 0 else x.index_select(0, packing.turned)
            back = packing.inner if direction == 0 else packing.inner_turned
            half = slice(0, projection) if direction == 0 else slice(projection, dim)
            for k, layer in enumerate(stack):
                h = sorted_state.h[k, direction].clone()  # (batch, projection)
                c = sorted_state.c[k, direction].clone()  # (batch, cell)
                outputs = layer.run(inputs, packing.heights, h, c)  # (packed, projection)
                left_h[k, direction, order], left_c[k, direction, order] = h, c
                if options.skip and k > 0:
                    outputs += inputs
                inputs = outputs
                layers[:, 1 + k, half] = inputs.index_select(0, back)
        return layers, State(left_h, left_c)


@dataclass(frozen=True)
class _Packing:
    """Rows of a batch, longest first, laid one time step after the other.

    Attributes:
        order: the batch's row for each sorted row, (batch,).
        heights: rows that run at each step, from many to few.
        types: type number of each packed token, (packed,).
        turned: for each place in the reading order of the backward direction its place in that of
            the forward direction, (packed,).
        inner: packed places of the tokens without borders, in the order of the batch, (token,).
        inner_turned: the same for the backward direction's order.
    """

    order: Tensor
    heights: list[int]
    types: Tensor
    turned: Tensor
    inner: Tensor
    inner_turned: Tensor

    @classmethod
    def of(cls, batch: Batch, device: torch.device) -> _Packing:
        lengths = batch.lengths
        order = np.argsort(-lengths, kind="stable")
        ordered = lengths[order]  # from long to short
        steps = np.arange(ordered[0])
        heights = np.searchsorted(-ordered, -steps, side="left")  # rows with length > step
        starts = np.concatenate([[0], np.cumsum(heights)])  # first packed place of a step
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        row, step = _spread(lengths), _counted(lengths)  # (packed,), batch order
        last = lengths[row] - 1
        place = starts[step] + rank[row]  # packed place, forward order
        place_turned = starts[last - step] + rank[row]
        packed = np.empty(len(place), np.int64)
        packed[place] = np.concatenate(batch.rows)
        turned = np.empty(len(place), np.int64)
        turned[place_turned] = place
        is_inner = (step > 0) & (step < last)
        index = [order, packed, turned, place[is_inner], place_turned[is_inner]]
        order_t, *rest = (torch.from_numpy(np.ascontiguousarray(a)).to(device) for a in index)
        return cls(order_t, heights.tolist(), *rest)


def _spread(lengths: Ids) -> Ids:
    """Number of the row of each token, row after row."""
    return np.repeat(np.arange(len(lengths)), lengths)


def _counted(lengths: Ids) -> Ids:
    """Place within its row of each token, row after row."""
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.arange(int(lengths.sum())) - first


@dataclass(frozen=True)
class _Layer:
    """One LSTM layer in one direction, its weights laid for products from the right.

    The gates stand as i, f, o, j, so that one call takes the sigmoid of three of them; the forget
    bias is part of the bias.
    """

    input: Tensor  # (projection, 4 * cell)
    bias: Tensor  # (4 * cell,)
    recurrent: Tensor  # (projection, 4 * cell)
    projection: Tensor | None  # (cell, projection)
    cell: int
    cell_clip: float | None
    proj_clip: float | None

    @classmethod
    def of(cls, layer: ProjectedLSTM, options: Options) -> _Layer:
        def regated(weight: Tensor) -> Tensor:  # (4 * cell, …), from i, j, f, o
            i, j, f, o = weight.chunk(4)
            return torch.cat([i, f, o, j])

        bias = layer.input.bias.clone()  # (4 * cell,)
        bias[2 * options.cell : 3 * options.cell] += FORGET_BIAS
        projection = None
        if options.lstm_projection:
            projection = layer.projection.get_parameter("weight").T.contiguous()
        return cls(
            regated(layer.input.weight).T.contiguous(),
            regated(bias),
            regated(layer.recurrent.weight).T.contiguous(),
            projection,
            options.cell,
            options.cell_clip,
            options.proj_clip if options.lstm_projection else None,
        )

    def run(self, x: Tensor, heights: list[int], h: Tensor, c: Tensor) -> Tensor:
        """Read packed rows; h (batch, projection) and c (batch, cell) are changed in place.

        Returns:
            The output of each packed token, (packed, projection).
        """
        outputs = x.new_empty(x.shape[0], h.shape[1])  # (packed, projection)
        gates = x.new_empty(heights[0], 4 * self.cell)  # (batch, 4 * cell)
        inner = x.new_empty(heights[0], self.cell)  # (batch, cell)
        first = 0
        for chunk in _chunks(heights):
            n_chunk = sum(chunk)
            from_input = torch.addmm(self.bias, x[first : first + n_chunk], self.input)
            place = 0
            for n in chunk:
                z = torch.addmm(from_input[place : place + n], h[:n], self.recurrent, out=gates[:n])
                self._step(z, h[:n], c[:n], inner[:n])
                outputs[first + place : first + place + n] = h[:n]
                place += n
            first += n_chunk
        return outputs

    def _step(self, z: Tensor, h: Tensor, c: Tensor, inner: Tensor) -> None:
        cell = self.cell
        z[:, : 3 * cell].sigmoid_()
        j = z[:, 3 * cell :].tanh_()
        i, f, o = z[:, :cell], z[:, cell : 2 * cell], z[:, 2 * cell : 3 * cell]
        c.mul_(f).addcmul_(i, j)
        if self.cell_clip is not None:
            c.clamp_(-self.cell_clip, self.cell_clip)
        torch.tanh(c, out=inner)
        if self.projection is None:
            torch.mul(inner, o, out=h)
            return
        torch.mm(inner.mul_(o), self.projection, out=h)
        if self.proj_clip is not None:
            h.clamp_(-self.proj_clip, self.proj_clip)


def _chunks(heights: list[int]) -> list[list[int]]:
    """Steps grouped so that a group holds about `_CHUNK_TOKENS` tokens."""
    chunks: list[list[int]] = [[]]
    held = 0
    for height in heights:
        if held and held + height > _CHUNK_TOKENS:
            chunks.append([])
            held = 0
        chunks[-1].append(height)
        held += height
    return chunks


def _lstm_layers(lm: DirectionLM) -> list[ProjectedLSTM]:
    return [layer for layer in lm.layers if isinstance(layer, ProjectedLSTM)]
