"""The fast engine: the same numbers as the plain one, with known work skipped.

Rows stand in the order of their lengths and are packed: a step of the LSTM has hardly more rows
than are still running; rows that begin alike are one as long as they are, see `packing`. The first
layer's products with the input are made once a type, before the loop over time; the layers above
have one product with [x ; h] a gate.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from elmo_cli.engine.gates import FirstGates, OfPlaces, UpperGates
from elmo_cli.engine.packed import height, heightened
from elmo_cli.engine.packing import Packing
from elmo_cli.engine.products import Product, product
from elmo_cli.engine.short_cnn import ShortCNN
from elmo_cli.engine.side_by_side import side_by_side
from elmo_cli.engine.type_cache import TypeCache
from elmo_cli.model.bilm import BiLM, DirectionLM
from elmo_cli.model.lstm import ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch, Ids

_HAndC = tuple[Tensor, Tensor]  # of one layer and direction, (row, projection) and (row, cell)


class FastEngine:
    """Types once, beginnings once, hardly any padding.

    Args:
        bilm: the model; its weights move to the device.
        device: where to compute.
        precision: of the highways' and LSTMs' products, see `products`.
    """

    pads = False

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
            _Direction(lm, bilm.options, precision) for lm in (bilm.forward_lm, bilm.backward_lm)
        ]

    @torch.inference_mode()
    def token_vectors(self, types: Sequence[str]) -> Tensor:
        """See `Engine.token_vectors`."""
        return self._cache.vectors(types)

    @torch.inference_mode()
    def run(self, batch: Batch, vectors: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Engine.run`."""
        order = _longest_first(batch)
        order_t = torch.from_numpy(order).to(self._device)  # (batch,)
        state = state.rows(order_t)
        packings = [
            Packing.of(batch, order, backward=backward, is_alike=False, device=self._device)
            for backward in (False, True)
        ]
        left = State(torch.empty_like(state.h), torch.empty_like(state.c))
        layers = self._read(packings, vectors, state, left=left)
        return layers, left.replace(order_t, left)

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
        return self._read(packings, vectors, start, highest=highest)

    def _read(
        self,
        packings: list[Packing],
        vectors: Tensor,
        state: State,
        *,
        highest: int | None = None,
        left: State | None = None,
    ) -> Tensor:
        """Layers (layer, token, dim). Where rows stop is written to `left`, if they stay rows."""
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
            of = self._directions[direction]
            for k, cells in enumerate(of.cells[:n_lstms]):
                gates = of.upper[k - 1].reading(inputs) if k else of.first.reading(inputs, numbers)
                begun = state.h[k, direction], state.c[k, direction]
                stopped = (left.h[k, direction], left.c[k, direction]) if left else None
                outputs = cells.run(gates, packing, begun, stopped)  # (place, projection)
                if self.options.skip and k > 0:
                    outputs += inputs
                inputs = outputs
                layers[1 + k, :, half] = inputs.index_select(0, packing.inner)

        side_by_side([partial(read, 0), partial(read, 1)], self._device)
        return layers


def _longest_first(batch: Batch) -> Ids:
    """The batch's row for each sorted row."""
    return np.argsort(-batch.lengths, kind="stable")


class _Direction:
    """The LSTM layers of one direction.

    Attributes:
        first: gates of the first layer.
        upper: gates of each layer above it.
        cells: cell and projection of each layer.
    """

    def __init__(self, lm: DirectionLM, options: Options, precision: str) -> None:
        layers = [layer for layer in lm.layers if isinstance(layer, ProjectedLSTM)]
        self.first = FirstGates(layers[0], precision)
        self.upper = [UpperGates(layer, precision) for layer in layers[1:]]
        self.cells = [_Cells(layer, options, precision) for layer in layers]


class _Cells:
    """Cell and projection of an LSTM layer in one direction.

    As in `gates` tanh is a sigmoid: the cell is kept doubled, and the projection takes twice the
    half of its input, all by powers of two.
    """

    def __init__(self, layer: ProjectedLSTM, options: Options, precision: str) -> None:
        self._cell_clip, self._proj_clip = options.cell_clip, options.proj_clip
        self._projection: Product | None = None
        if options.lstm_projection:
            weight = 2 * layer.projection.get_parameter("weight")
            self._projection = product([weight], None, precision)

    def run(
        self, gates: OfPlaces, packing: Packing, begun: _HAndC, stopped: _HAndC | None
    ) -> Tensor:
        """Read packed rows.

        Args:
            gates: of the packing's places.
            packing: steps, and how they go on from each other.
            begun: where rows begin.
            stopped: room for where they stop, if places are rows.
        Returns:
            The output of each place, (place, projection).
        """
        h, c = heightened(begun[0]), heightened(2 * begun[1])
        outputs = h.new_zeros(len(packing.numbers), h.shape[1])  # (place, projection)
        first, counts = 0, packing.counts
        for n, n_next, parents in zip(counts, [*counts[1:], 0], packing.parents, strict=True):
            if parents is not None:
                h, c = h.index_select(0, parents), c.index_select(0, parents)
            some = slice(height(n))
            h[some] = self._step(gates(slice(first, first + height(n)), h[some]), c[some])
            outputs[first : first + n] = h[:n]
            if stopped is not None:
                stopped[0][n_next:n], stopped[1][n_next:n] = h[n_next:n], c[n_next:n] / 2
            first += n
        return outputs

    def _step(self, gates: list[Tensor], c: Tensor) -> Tensor:
        """What h is after a token, (row, projection); `c` is twice the cell, changed in place."""
        i, f, o, j = gates  # each (row, cell)
        c.mul_(f).addcmul_(i, j, value=4).sub_(i, alpha=2)
        if self._cell_clip is not None:
            c.clamp_(-2 * self._cell_clip, 2 * self._cell_clip)
        half = torch.sigmoid(c, out=i).sub_(0.5).mul_(o)
        if self._projection is None:
            return half.mul_(2)
        (h,) = self._projection.of(half)
        return h if self._proj_clip is None else h.clamp_(-self._proj_clip, self._proj_clip)
