"""The fast engine: the same numbers as the plain one, with known work skipped.

Rows stand in the order of their lengths and are packed: a step of the LSTM has as many rows as are
still running, and no product ever sees padding. The products with the input are taken out of the
loop over time, many tokens at once; what is left in the loop works in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from elmo_cli.engine.products import Product, product, spaced_room
from elmo_cli.engine.short_cnn import ShortCNN
from elmo_cli.engine.side_by_side import side_by_side
from elmo_cli.engine.type_cache import TypeCache
from elmo_cli.model.bilm import BiLM, DirectionLM
from elmo_cli.model.lstm import FORGET_BIAS, ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch, Ids

_CHUNK_TOKENS = 1024  # tokens whose input products are held at a time
_TYPES_BYTES = 1 << 28  # of the first layer's input products, in a direction, if held for each type


class FastEngine:
    """Types once, input products at once, no padding.

    Args:
        bilm: the model; its weights move to the device.
        device: where to compute.
        precision: of the LSTMs' products, see `products`; all else is float32.
    """

    def __init__(self, bilm: BiLM, device: torch.device, precision: str = "float32") -> None:
        self.options = bilm.options
        self._device = device
        bilm = bilm.to(device)
        self._cache = TypeCache(
            ShortCNN(bilm.char_cnn),
            max_characters=bilm.options.max_characters,
            projection=bilm.options.projection,
            device=device,
        )
        self._directions = [
            [_Layer.of(layer, bilm.options, precision) for layer in _lstm_layers(lm)]
            for lm in (bilm.forward_lm, bilm.backward_lm)
        ]

    @torch.inference_mode()
    def token_vectors(self, types: Sequence[str]) -> Tensor:
        """See `Engine.token_vectors`."""
        return self._cache.vectors(types)

    @torch.inference_mode()
    def run(
        self, batch: Batch, vectors: Tensor, state: State | None, *, highest: int | None = None
    ) -> tuple[Tensor, State]:
        """See `Engine.run`."""
        packing = _Packing.of(batch, self._device)
        order = packing.order  # (batch,)
        n_rows, options = len(batch.rows), self.options
        if state is None:
            state = State.zeros(options, n_rows, device=self._device)
        sorted_state = state.rows(order)
        n_tokens = int(packing.inner.shape[0])
        dim, projection = options.dim, options.projection
        n_lstms = options.n_layers if highest is None else highest
        layers = vectors.new_empty(n_tokens, 1 + n_lstms, dim)  # (token, layer, dim)
        of_types = vectors.index_select(0, packing.types)  # (type, projection)
        inner = of_types.index_select(0, packing.numbers[packing.inner])  # (token, projection)
        layers[:, 0, :projection], layers[:, 0, projection:] = inner, inner
        left_h, left_c = torch.empty_like(state.h), torch.empty_like(state.c)

        def read(direction: int) -> None:
            back = packing.inner if direction == 0 else packing.inner_turned
            half = slice(0, projection) if direction == 0 else slice(projection, dim)
            numbers = packing.numbers if direction == 0 else packing.numbers[packing.turned]
            inputs = of_types
            for k, layer in enumerate(self._directions[direction][:n_lstms]):
                h = sorted_state.h[k, direction].clone()  # (batch, projection)
                c = sorted_state.c[k, direction].clone()  # (batch, cell)
                chosen = numbers if k == 0 else None
                outputs = layer.run(inputs, chosen, packing.heights, h, c)  # (packed, projection)
                left_h[k, direction, order], left_c[k, direction, order] = h, c
                if options.skip and k > 0:
                    outputs += inputs
                inputs = outputs
                layers[:, 1 + k, half] = inputs.index_select(0, back)

        side_by_side([partial(read, 0), partial(read, 1)], self._device)
        return layers, State(left_h, left_c)


@dataclass(frozen=True)
class _Packing:
    """Rows of a batch, longest first, laid one time step after the other.

    Attributes:
        order: the batch's row for each sorted row, (batch,).
        heights: rows that run at each step, from many to few.
        types: the batch's distinct types, numbers among those of the block, (type,).
        numbers: place in `types` of each packed token, in the forward direction's order, (packed,).
        turned: for each place in the reading order of the backward direction its place in that of
            the forward direction, (packed,).
        inner: packed places of the tokens without borders, in the order of the batch, (token,).
        inner_turned: the same for the backward direction's order.
    """

    order: Tensor
    heights: list[int]
    types: Tensor
    numbers: Tensor
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
        types, numbers = np.unique(packed, return_inverse=True)
        index = [order, types, numbers, turned, place[is_inner], place_turned[is_inner]]
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

    torch's tanh takes three to five times as long as its sigmoid on a CPU, and
    tanh(x) = 2 sigmoid(2 x) - 1. So the gates stand as i, f, o, j with j doubled, the cell is kept
    doubled and the projection takes twice the half of its input: all factors are powers of two, so
    none of them rounds. The forget bias is part of the bias.
    """

    input: Product  # (projection, 4 * cell), with bias
    recurrent: Product  # (projection, 4 * cell)
    projection: Product | None  # (cell, projection)
    cell: int
    cell_clip: float | None
    proj_clip: float | None

    @classmethod
    def of(cls, layer: ProjectedLSTM, options: Options, precision: str) -> _Layer:
        def regated(weight: Tensor) -> Tensor:  # (n_in, 4 * cell), from (4 * cell, n_in)
            made = spaced_room(weight, weight.shape[1], len(weight))
            i, f, o, j = made.chunk(4, 1)
            for gate, rows in zip((i, j, f, o), weight.detach().chunk(4), strict=True):
                gate.copy_(rows.T.contiguous())  # torch is slow at a copy that also turns
            j *= 2
            return made

        i, j, f, o = layer.input.bias.chunk(4)
        bias = torch.cat([i, f + FORGET_BIAS, o, 2 * j])  # (4 * cell,)
        projection = None
        if options.lstm_projection:
            doubled = 2 * layer.projection.get_parameter("weight").T
            projection = product(doubled, None, precision)
        return cls(
            product(regated(layer.input.weight), bias, precision),
            product(regated(layer.recurrent.weight), None, precision),
            projection,
            options.cell,
            options.cell_clip,
            options.proj_clip if options.lstm_projection else None,
        )

    def run(
        self, x: Tensor, numbers: Tensor | None, heights: list[int], h: Tensor, c: Tensor
    ) -> Tensor:
        """Read packed rows.

        Args:
            x: a vector for each packed token, or for each type, (packed or type, projection).
            numbers: where `x` is of types, the type of each packed token, (packed,).
            heights: rows that run at each step.
            h: (batch, projection), changed in place.
            c: (batch, cell), changed in place.
        Returns:
            The output of each packed token, (packed, projection).
        """
        outputs = x.new_empty(sum(heights), h.shape[1])  # (packed, projection)
        gates = spaced_room(x, heights[0], 4 * self.cell)  # (batch, 4 * cell)
        inner = x.new_empty(heights[0], self.cell)  # (batch, cell)
        chunks = _chunks(heights)
        if numbers is not None and len(x) * 4 * self.cell * x.element_size() > _TYPES_BYTES:
            x, numbers = x.index_select(0, numbers), None
        n_room = max(map(sum, chunks)) if numbers is None else len(x)
        room = spaced_room(x, n_room, 4 * self.cell)  # (token or type, 4 * cell)
        if numbers is not None:
            self.input.into(x, room)
        first = 0
        c.mul_(2)
        for chunk in chunks:
            if numbers is None:
                tokens = x[first : first + sum(chunk)]  # (token, projection)
                self.input.into(tokens, room[: len(tokens)])
            place = 0
            for n in chunk:
                z = gates[:n]  # (row, 4 * cell)
                if numbers is None:
                    self.recurrent.added(h[:n], room[place : place + n], z)
                else:
                    torch.index_select(room, 0, numbers[first : first + n], out=z)
                    self.recurrent.added(h[:n], z, z)
                self._step(z, h[:n], c[:n], inner[:n])
                outputs[first : first + n] = h[:n]
                first, place = first + n, place + n
        c.mul_(0.5)
        return outputs

    def _step(self, z: Tensor, h: Tensor, c: Tensor, inner: Tensor) -> None:
        """One token a row; `c` is twice the cell."""
        i, f, o, j = z.sigmoid_().chunk(4, 1)  # each (batch, cell)
        c.mul_(f).addcmul_(i, j, value=4).sub_(i, alpha=2)
        if self.cell_clip is not None:
            c.clamp_(-2 * self.cell_clip, 2 * self.cell_clip)
        torch.sigmoid(c, out=inner).sub_(0.5).mul_(o)
        if self.projection is None:
            torch.mul(inner, 2, out=h)
            return
        self.projection.into(inner, h)
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
