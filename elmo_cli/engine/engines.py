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
from elmo_cli.engine.lstm import FastLSTM, PackedBatch, RowStates
from elmo_cli.engine.runtime import run_parallel
from elmo_cli.errors import DeviceError, UsageError
from elmo_cli.model.bilm import BiLM, DirectionLM, ProjectedLSTM, State
from elmo_cli.model.options import Options
from elmo_cli.text.batching import Batch

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
        keep_boundaries: bool = False,
    ) -> tuple[Tensor, State | None]:
        """Compute the layers of a batch.

        Args:
            type_vectors: (type, projection_dim), from `embed_types`, which the batch numbers.
            start: the state before each row; None for zeros; a single row if it is shared.
            shared_start: whether all rows start from the same state and no final state is needed;
                the fast engine then computes shared prefixes once.
            top_layer: highest layer to compute, 0 for type vectors alone, None for all; requires
                `shared_start`.
            keep_boundaries: whether the sentence boundaries of each row have vectors, too.
        Returns:
            Layers, (layer, token, dim), with the tokens of all rows concatenated, without sentence
            boundaries unless these are kept; and the final state of each row, or None with
            `shared_start`.
        """


class PlainEngine:
    """Calls the model as it is, with padded rows; the specification of the other engines."""

    pads = True
    n_slow_calls = 0

    def __init__(self, bilm: BiLM, device: torch.device) -> None:
        self.options = bilm.options
        self._bilm = bilm.to(device)
        self._device = device

    @torch.inference_mode()
    def embed_types(self, types: Sequence[str]) -> Tensor:
        """See `Engine.embed_types`."""
        ids = torch.from_numpy(self._bilm.token_ids.tokens(types)).to(self._device)
        chunks = torch.split(ids, _TYPES_PER_CALL)  # each (type, id)
        return torch.cat([self._bilm.char_cnn(chunk) for chunk in chunks])  # (type, projection_dim)

    @torch.inference_mode()
    def forward(
        self,
        batch: Batch,
        type_vectors: Tensor,
        start: State | None,
        *,
        shared_start: bool = False,
        top_layer: int | None = None,
        keep_boundaries: bool = False,
    ) -> tuple[Tensor, State | None]:
        """See `Engine.forward`."""
        if shared_start and start is not None:
            start = start.expand(len(batch.rows))
        lengths = torch.from_numpy(batch.lengths).to(self._device)  # (batch,)
        rows = [torch.from_numpy(row) for row in batch.rows]
        numbers = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self._device)
        token_vectors = type_vectors[numbers]  # (batch, token, projection_dim)
        padded, final = self._bilm.forward_from_vectors(token_vectors, lengths, start)
        n_left_out = 0 if keep_boundaries else 1  # at each end of a row
        # Without padding, each (layer, token, dim).
        kept = [padded[:, r, n_left_out : len(row) - n_left_out] for r, row in enumerate(rows)]
        layers = torch.cat(kept, 1)
        if top_layer is not None:
            layers = layers[: top_layer + 1]
        return layers, None if shared_start else final


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
        self._cache = TypeCache(FastCharCNN(bilm.char_cnn, precision), bilm.token_ids, device)
        recorder = GraphRecorder(device) if device.type == "cuda" else None
        self.n_slow_calls = 0 if recorder is None else 2
        self._lstms = [  # of each direction
            _fast_lstms(bilm.forward_lm, precision, recorder),
            _fast_lstms(bilm.backward_lm, precision, recorder),
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
        keep_boundaries: bool = False,
    ) -> tuple[Tensor, State | None]:
        """See `Engine.forward`."""
        order = np.argsort(-batch.lengths, kind="stable")  # the batch's row for each sorted row
        rows = torch.from_numpy(order).to(self._device)  # (batch,)
        n_rows = len(order)
        if start is None:
            start = State.zeros(self.options, 1 if shared_start else n_rows, device=self._device)
        final: State | None = None  # of the sorted rows
        if not shared_start:
            start = start.select_rows(rows)
            final = State(torch.empty_like(start.h), torch.empty_like(start.c))
        n_lstms = self.options.n_layers if top_layer is None else top_layer
        n_tokens = int(batch.lengths.sum())
        if not keep_boundaries:
            n_tokens -= 2 * n_rows
        projection_dim = self.options.projection_dim
        # (layer, token, direction, projection_dim)
        layers = type_vectors.new_empty(1 + n_lstms, n_tokens, 2, projection_dim)

        def read(direction: int) -> None:
            packed = PackedBatch.of(
                batch,
                order,
                self._device,
                backward=direction == 1,
                shared_start=shared_start,
                keep_boundaries=keep_boundaries,
            )
            self._read(direction, packed, type_vectors, start, layers[:, :, direction], final)

        run_parallel([partial(read, 0), partial(read, 1)], self._device)
        final_of_batch = None if final is None else final.with_rows(rows, final)
        return layers.flatten(2), final_of_batch  # (layer, token, dim)

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
        types, numbers = torch.unique(packed.types, return_inverse=True)  # (type,), (position,)
        packed = replace(packed, types=numbers)
        inputs = type_vectors.index_select(0, types)  # (type, projection_dim)
        tokens = packed.token_positions  # (token,)
        layers[0] = inputs.index_select(0, numbers[tokens])
        for k, lstm in enumerate(self._lstms[direction][: len(layers) - 1]):
            before = RowStates(start.h[k, direction], start.c[k, direction])
            after = None
            if final is not None:
                after = RowStates(final.h[k, direction], final.c[k, direction])
            outputs = lstm.forward(inputs, packed, before, after)  # (position, projection_dim)
            if self.options.residual and k > 0:
                outputs += inputs
            inputs = outputs
            layers[1 + k] = inputs.index_select(0, tokens)


def _fast_lstms(lm: DirectionLM, precision: str, recorder: GraphRecorder | None) -> list[FastLSTM]:
    """Create the layers of one direction; with a recorder, their steps become CUDA graphs."""
    lstms = []
    for k, layer in enumerate(cast("list[ProjectedLSTM]", list(lm.layers))):
        states = None if recorder is None else GraphRowStates(layer, recorder)
        lstms.append(FastLSTM(layer, precision, reads_types=k == 0, states=states))
    return lstms


def make_engine(name: str, bilm: BiLM, device: torch.device, precision: str = "float32") -> Engine:
    """Create the engine with this name on a device; the plain engine computes only in float32.

    Raises:
        UsageError: the weights are not float32.
        DeviceError: the device does not support this precision.
    """
    dtypes = {str(weight.dtype).removeprefix("torch.") for weight in bilm.parameters()}
    if dtypes != {"float32"}:
        problem = f"the weights of the model are {', '.join(sorted(dtypes))}, not float32"
        hint = "load it again, or convert it with `.float()`; `precision=bf16` is faster"
        raise UsageError(problem, hint)
    if name == "plain":
        return PlainEngine(bilm, device)
    if precision == "int8" and device.type != "cpu":
        problem = f"supported only on CPUs, not on {device.type}"
        hint = "use `precision=bf16` or `device=cpu`"
        raise DeviceError(problem, hint, where="`precision=int8`")
    try:
        return FastEngine(bilm, device, precision)
    except (AttributeError, NotImplementedError) as error:
        problem = "this build of torch has no such matrix products"
        where = f"`precision={precision}`"
        raise DeviceError(problem, "leave it out", where=where) from error


class WeightsGuard:
    """Detects that the weights of a model have changed since its engine was created.

    An engine keeps copies of some weights and of vectors computed from them, so after a change it
    would mix old and new weights. The check takes a fraction of a millisecond. A change through
    `.data` or NumPy cannot be detected; the fast engine then uses all of the old weights.
    """

    def __init__(self, bilm: BiLM) -> None:
        self._bilm = bilm
        self._versions = _versions(bilm)
        # Keeps their addresses in use.
        self._weights = [weight.detach() for weight in bilm.parameters()]

    def check(self) -> None:
        """Raise a UsageError if a weight was modified, replaced, converted or moved."""
        if _versions(self._bilm) != self._versions:
            problem = "the weights of the model have changed since this Embedder was created"
            raise UsageError(problem, "create a new `Embedder` for the model")

    def release(self) -> None:
        """Free the memory of the weights; the fast engine has its own copy."""
        self._weights = []
        self._versions = _versions(self._bilm.to("meta"))


def _versions(bilm: BiLM) -> list[tuple[int, int]]:
    """Return address and version counter of each weight; inference tensors have no counter."""
    versions = []
    for weight in bilm.parameters():
        version = 0 if weight.is_inference() else weight._version
        versions.append((weight.data_ptr(), version))
    return versions
