"""FastEngine: the same numbers as `PlainEngine`, without redundant work.

Rows are sorted by length and packed, so that a step of the LSTM computes hardly more rows than are
still running, and shared prefixes are computed once (`packing`). The two directions run in
parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor

from elmo_cli.engine.char_cnn import FastCharCNN, TypeCache
from elmo_cli.engine.graphs import GraphRecorder, GraphRowStates
from elmo_cli.engine.lstm import FastLSTM
from elmo_cli.engine.packing import PackedBatch
from elmo_cli.engine.runtime import run_parallel
from elmo_cli.model.bilm import BiLM, ProjectedLSTM
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch


class FastEngine:
    """Each type once, each shared prefix once, almost no padding.

    Args:
        bilm: the model; its weights move to the device.
        precision: of the highways' and LSTMs' products, see `gemm`.
    """

    pads = False

    def __init__(self, bilm: BiLM, device: torch.device, precision: str = "float32") -> None:
        self.options = bilm.options
        self._device = device
        bilm = bilm.to(device)
        self._cache = TypeCache(FastCharCNN(bilm.char_cnn, precision), device)
        recorder = GraphRecorder(device) if device.type == "cuda" else None

        def fast(layer: ProjectedLSTM, k: int) -> FastLSTM:
            states = None if recorder is None else GraphRowStates(layer, recorder)
            return FastLSTM(layer, precision, reads_types=k == 0, states=states)

        self._lstms = [
            [fast(cast(ProjectedLSTM, layer), k) for k, layer in enumerate(lm.layers)]
            for lm in (bilm.forward_lm, bilm.backward_lm)
        ]

    @torch.inference_mode()
    def embed_types(self, types: Sequence[str]) -> Tensor:
        """See `Engine.embed_types`."""
        return self._cache.vectors(types)

    @torch.inference_mode()
    def forward(
        self,
        batch: Batch,
        type_vectors: Tensor,
        start: State | None,
        *,
        shared_start: bool = False,
        top_layer: int | None = None,
    ) -> tuple[Tensor, State | None]:
        """See `Engine.forward`."""
        order = np.argsort(-batch.lengths, kind="stable")  # the batch's row for each sorted row
        order_t = torch.from_numpy(order).to(self._device)  # (batch,)
        n_rows, final = len(order), None
        if start is None:
            start = State.zeros(self.options, 1 if shared_start else n_rows, device=self._device)
        if not shared_start:
            start = start.select_rows(order_t)
            final = State(torch.empty_like(start.h), torch.empty_like(start.c))
        n_lstms = self.options.n_layers if top_layer is None else top_layer
        n_tokens = int(batch.lengths.sum()) - 2 * n_rows
        halves = type_vectors.new_empty(1 + n_lstms, n_tokens, 2, self.options.projection_dim)

        def read(direction: int) -> None:
            packed = PackedBatch.of(
                batch, order, self._device, backward=direction == 1, shared_start=shared_start
            )
            self._read(direction, packed, type_vectors, start, halves[:, :, direction], final)

        run_parallel([partial(read, 0), partial(read, 1)], self._device)
        return halves.flatten(2), None if final is None else final.with_rows(order_t, final)

    def _read(
        self,
        direction: int,
        packed: PackedBatch,
        type_vectors: Tensor,
        start: State,
        layers: Tensor,
        final: State | None,
    ) -> None:
        """Write `layers`, (layer, token, projection_dim), and `final` of one direction."""
        types, numbers = torch.unique(packed.types, return_inverse=True)
        packed = replace(packed, types=numbers)
        inputs = type_vectors.index_select(0, types)  # (type, projection_dim)
        tokens = packed.token_positions
        layers[0] = inputs.index_select(0, numbers[tokens])
        for k, lstm in enumerate(self._lstms[direction][: len(layers) - 1]):
            before = (start.h[k, direction], start.c[k, direction])
            after = None if final is None else (final.h[k, direction], final.c[k, direction])
            outputs = lstm.forward(inputs, packed, before, after)  # (position, projection_dim)
            if self.options.residual and k > 0:
                outputs += inputs
            inputs = outputs
            layers[1 + k] = inputs.index_select(0, tokens)
