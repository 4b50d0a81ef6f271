"""The fast engine: the same numbers as the plain one, with known work skipped.

Rows stand in the order of their lengths and are packed: a step of the LSTM has as many rows as are
still running, and no product ever sees padding; rows that begin alike are one as long as they are,
see `packing`. The products with the input are taken out of the loop over time, many tokens at once;
what is left in the loop works in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from elmo_cli.engine.packing import Packing
from elmo_cli.engine.products import KeptRoom, Product, product, spaced_room
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
    """Types once, beginnings once, input products at once, no padding.

    Args:
        bilm: the model; its weights move to the device.
        device: where to compute.
        precision: of the highways' and LSTMs' products, see `products`; all else is float32.
    """

    def __init__(self, bilm: BiLM, device: torch.device, precision: str = "float32") -> None:
        self.options = bilm.options
        self._device = device
        bilm = bilm.to(device)
        self._cache = TypeCache(
            ShortCNN(bilm.char_cnn, precision),
            max_characters=bilm.options.max_characters,
            projection=bilm.options.projection,
            device=device,
        )
        self._directions = [
            [_Layer.of(layer, bilm.options, precision) for layer in _lstm_layers(lm)]
            for lm in (bilm.forward_lm, bilm.backward_lm)
        ]
        self._rooms = [(KeptRoom(), KeptRoom()) for _ in self._directions]

    @torch.inference_mode()
    def token_vectors(self, types: Sequence[str]) -> Tensor:
        """See `Engine.token_vectors`."""
        return self._cache.vectors(types)

    @torch.inference_mode()
    def run(self, batch: Batch, vectors: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Engine.run`."""
        order = _longest_first(batch)
        order_t = torch.from_numpy(order).to(self._device)  # (batch,)
        state = state.rows(order_t)  # a copy, which is changed in place
        packings = [
            Packing.of(batch, order, backward=backward, is_alike=False, device=self._device)
            for backward in (False, True)
        ]
        layers = self._read(packings, vectors, state, None)
        left = State(torch.empty_like(state.h), torch.empty_like(state.c))
        left.h[:, :, order_t], left.c[:, :, order_t] = state.h, state.c
        return layers, left

    @torch.inference_mode()
    def run_alike(
        self, batch: Batch, vectors: Tensor, start: State | None, *, highest: int | None = None
    ) -> Tensor:
        """See `Engine.run_alike`."""
        order = _longest_first(batch)
        if start is None:
            start = State.zeros(self.options, 1, device=self._device)
        packings = [
            Packing.of(batch, order, backward=backward, is_alike=True, device=self._device)
            for backward in (False, True)
        ]
        return self._read(packings, vectors, State(start.h.clone(), start.c.clone()), highest)

    def _read(
        self, packings: list[Packing], vectors: Tensor, state: State, highest: int | None
    ) -> Tensor:
        """Layers (layer, token, dim); `state` is changed in place where rows stay by themselves."""
        dim, projection = self.options.dim, self.options.projection
        n_lstms = self.options.n_layers if highest is None else highest
        n_tokens = len(packings[0].inner)
        layers = vectors.new_empty(1 + n_lstms, n_tokens, dim)  # (layer, token, dim)

        def read(direction: int) -> None:
            packing = packings[direction]
            half = slice(0, projection) if direction == 0 else slice(projection, dim)
            types, numbers = torch.unique(packing.numbers, return_inverse=True)
            inputs = vectors.index_select(0, types)  # (type, projection)
            layers[0, :, half] = inputs.index_select(0, numbers[packing.inner])
            chosen: Tensor | None = numbers
            for k, layer in enumerate(self._directions[direction][:n_lstms]):
                h, c = state.h[k, direction], state.c[k, direction]
                rooms = self._rooms[direction]
                outputs = layer.run(inputs, chosen, packing, h, c, rooms)  # (packed, projection)
                if self.options.skip and k > 0:
                    outputs += inputs
                inputs, chosen = outputs, None
                layers[1 + k, :, half] = inputs.index_select(0, packing.inner)

        side_by_side([partial(read, 0), partial(read, 1)], self._device)
        return layers


def _longest_first(batch: Batch) -> Ids:
    """The batch's row for each sorted row."""
    return np.argsort(-batch.lengths, kind="stable")


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
        self,
        x: Tensor,
        numbers: Tensor | None,
        packing: Packing,
        h: Tensor,
        c: Tensor,
        rooms: tuple[KeptRoom, KeptRoom],
    ) -> Tensor:
        """Read packed rows.

        Args:
            x: a vector for each place, or for each type, (packed or type, projection).
            numbers: where `x` is of types, the type of each place, (packed,).
            packing: steps, and how they go on from each other.
            h: (row, projection), changed in place as long as rows stay by themselves.
            c: (row, cell), changed in place as `h` is.
            rooms: for input products, and for the gates of a step.
        Returns:
            The output of each place, (packed, projection).
        """
        heights = packing.heights
        outputs = x.new_empty(sum(heights), h.shape[1])  # (packed, projection)
        inner = x.new_empty(max(heights), self.cell)  # (place, cell)
        chunks = _chunks(heights)
        if numbers is not None and len(x) * 4 * self.cell * x.element_size() > _TYPES_BYTES:
            x, numbers = x.index_select(0, numbers), None
        n_room = max(map(sum, chunks)) if numbers is None else len(x)
        room = rooms[0].spaced(x, n_room, 4 * self.cell)  # (place or type, 4 * cell)
        if numbers is not None:
            for some, its_room in zip(
                torch.split(x, _CHUNK_TOKENS), torch.split(room, _CHUNK_TOKENS), strict=True
            ):
                self.input.into(some, its_room)
            gates = rooms[1].spaced(x, max(heights), 4 * self.cell)  # (place, 4 * cell)
        step = first = 0
        c.mul_(2)
        for chunk in chunks:
            if numbers is None:
                places = x[first : first + sum(chunk)]  # (place, projection)
                self.input.into(places, room[: len(places)])
            start = first
            for n in chunk:
                if (parents := packing.parents[step]) is not None:
                    h, c = h.index_select(0, parents), c.index_select(0, parents)
                if numbers is None:
                    z = room[first - start : first - start + n]  # (place, 4 * cell)
                else:
                    z = gates[:n]
                    torch.index_select(room, 0, numbers[first : first + n], out=z)
                self.recurrent.added(h[:n], z, z)
                self._step(z, h[:n], c[:n], inner[:n])
                outputs[first : first + n] = h[:n]
                step, first = step + 1, first + n
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
