"""Engine: the interface of the engines that compute layers, the two engines, and their creation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, cast

import numpy as np
import torch
from torch import Tensor

from elmo_cli.engine.char_cnn import FastCharCNN, TypeCache
from elmo_cli.engine.graphs import GraphRecorder, GraphRowStates
from elmo_cli.engine.lstm import FastLSTM, PackedBatch
from elmo_cli.engine.runtime import run_parallel
from elmo_cli.errors import DeviceError, UsageError
from elmo_cli.model.bilm import BiLM, ProjectedLSTM, State
from elmo_cli.model.options import Options
from elmo_cli.text.batching import Batch
from elmo_cli.text.characters import CharacterIds

_TYPES_PER_CALL = 256  # so that memory does not grow with the number of types


class Engine(Protocol):
    """Computes the layers of batches without keeping state between calls."""

    options: Options  # of its biLM
    pads: bool  # whether each row of a batch takes the time and memory of the longest row
    n_slow_calls: int  # number of first calls with a batch size that take longer than later ones

    def embed_types(self, types: Sequence[str]) -> Tensor:
        """Compute context-free vectors of types, (type, projection_dim), on the engine's device."""

    def forward(
        self,
        batch: Batch,
        type_vectors: Tensor,
        start: State | None,
        *,
        shared_start: bool = False,
        top_layer: int | None = None,
    ) -> tuple[Tensor, State | None]:
        """Compute the layers of a batch.

        Args:
            type_vectors: (type, projection_dim), from `embed_types`, which the batch numbers.
            start: the state before each row; None for zeros; a single row if it is shared.
            shared_start: whether all rows start from the same state and no final state is needed;
                the fast engine then computes shared prefixes once.
            top_layer: highest layer to compute, 0 for type vectors alone, None for all; requires
                `shared_start`.
        Returns:
            Layers, (layer, token, dim), with the tokens of all rows concatenated, without sentence
            boundaries; and the final state of each row, or None with `shared_start`.
        """


class PlainEngine:
    """Calls the model as it is, with padded rows; the specification of the other engines."""

    pads = True
    n_slow_calls = 0

    def __init__(self, bilm: BiLM, device: torch.device) -> None:
        self.options = bilm.options
        self._bilm = bilm.to(device)
        self._device = device
        self._characters = CharacterIds(bilm.options.max_characters)

    @torch.inference_mode()
    def embed_types(self, types: Sequence[str]) -> Tensor:
        """See `Engine.embed_types`."""
        ids = torch.from_numpy(self._characters.tokens(types)).to(self._device)
        vectors = [self._bilm.char_cnn(some) for some in torch.split(ids, _TYPES_PER_CALL)]
        return torch.cat(vectors)  # (type, projection_dim)

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
        if shared_start and start is not None:
            start = start.expand(len(batch.rows))
        lengths = torch.from_numpy(batch.lengths).to(self._device)  # (batch,)
        rows = [torch.from_numpy(row) for row in batch.rows]
        numbers = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self._device)
        layers, final = self._bilm.forward_from_vectors(type_vectors[numbers], lengths, start)
        inner = [layers[:, r, 1 : len(row) - 1] for r, row in enumerate(rows)]
        wanted = torch.cat(inner, 1)[: None if top_layer is None else top_layer + 1]
        return wanted, None if shared_start else final


class FastEngine:
    """The same numbers without redundant work.

    Each type is computed once. Rows are sorted by length and packed, so that a step of the LSTM
    computes hardly more rows than are still running, and shared prefixes are computed once
    (`PackedBatch`). The two directions run in parallel. The model's weights move to the device; the
    products of highways and LSTMs have the `precision`, see `gemm`. On a GPU, the time step of a
    layer is recorded as a CUDA graph in the second call with the same number of rows.
    """

    pads = False

    def __init__(self, bilm: BiLM, device: torch.device, precision: str = "float32") -> None:
        self.options = bilm.options
        self._device = device
        bilm = bilm.to(device)
        self._cache = TypeCache(FastCharCNN(bilm.char_cnn, precision), device)
        recorder = GraphRecorder(device) if device.type == "cuda" else None
        self.n_slow_calls = 0 if recorder is None else 2

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


def make_engine(name: str, bilm: BiLM, device: torch.device, precision: str = "float32") -> Engine:
    """Create the engine with this name on a device; the plain engine computes only in float32.

    Raises:
        UsageError: the weights are not float32.
        DeviceError: the device does not support this precision.
    """
    dtypes = {str(weight.dtype).removeprefix("torch.") for weight in bilm.parameters()}
    if dtypes != {"float32"}:
        what = f"the weights of the model are {', '.join(sorted(dtypes))}, not float32"
        hint = "load it again, or convert it with `.float()`; `precision=bf16` is faster"
        raise UsageError(what, hint)
    if name == "plain":
        return PlainEngine(bilm, device)
    if precision == "int8" and device.type != "cpu":
        what = f"`precision=int8`: supported only on CPUs, not on {device.type}"
        raise DeviceError(what, "use `precision=bf16` or `device=cpu`")
    try:
        return FastEngine(bilm, device, precision)
    except (AttributeError, NotImplementedError) as error:
        what = f"`precision={precision}`: this build of torch has no such matrix products"
        raise DeviceError(what, "leave it out") from error


class WeightsGuard:
    """Detects that the weights of a model have changed since its engine was created.

    An engine keeps copies of some weights and of vectors computed from them, so after a change it
    would mix old and new weights. The check takes a fraction of a millisecond. A change through
    `.data` or NumPy cannot be detected; the fast engine then uses all of the old weights.
    """

    def __init__(self, bilm: BiLM) -> None:
        self._bilm, self._versions = bilm, _versions(bilm)
        self._weights = [w.detach() for w in bilm.parameters()]  # keeps their addresses in use

    def check(self) -> None:
        """Raise a UsageError if a weight was modified, replaced, converted or moved."""
        if _versions(self._bilm) != self._versions:
            what = "the weights of the model have changed since this Embedder was created"
            raise UsageError(what, "create a new `Embedder` for the model")

    def release(self) -> None:
        """Free the memory of the weights; the fast engine has its own copy."""
        self._weights = []
        self._versions = _versions(self._bilm.to("meta"))


def _versions(bilm: BiLM) -> list[tuple[int, int]]:
    """Return address and version counter of each weight; inference tensors have no counter."""
    weights = bilm.parameters()
    return [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights]
