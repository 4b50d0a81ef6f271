"""BilmComputation: the layers of a batch, by the fast engine or, in training, with autograd."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from elmo_cli.arrays import Int64Array
from elmo_cli.engine.engines import Engine, make_engine
from elmo_cli.engine.runtime import without_autocast
from elmo_cli.interop.allennlp_ids import IdStrings
from elmo_cli.interop.allennlp_weights import bilm_of, bilm_tensors
from elmo_cli.model.bilm import BiLM, State
from elmo_cli.model.options import Options
from elmo_cli.text.batching import Batch

Types = list[str] | Tensor
"""Strings of `IdStrings`, or vectors (type, projection_dim)."""


class BilmComputation:
    """Computes with the weights of each call.

    Weights that require gradients may change at any time, so `model.bilm` computes with them, also
    where gradients are disabled. With frozen weights of float32 the fast engine does. It has copies
    of them, so it is made again after a change; a change through `.data`, which PyTorch does not
    count, is not noticed. Copies and pickles of this object have no engine; they make their own.

    Args:
        options: those of `allennlp_options`.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._id_strings = IdStrings(options.max_characters)
        self._engine: Engine | None = None
        self._versions: list[tuple[int, int, torch.device]] = []
        self._weights: list[Tensor] = []  # of the engine; keeps their addresses in use
        self._template: _LayersOfTypes | None = None

    def __reduce__(self) -> tuple[type[BilmComputation], tuple[Options]]:
        return BilmComputation, (self._options,)

    def layers(
        self,
        weights: Mapping[str, Tensor],
        types: Types,
        rows: Sequence[Int64Array],
        start: State | None,
        *,
        n_columns: int,
    ) -> tuple[Tensor, State | None]:
        """Compute all layers of a batch.

        Args:
            weights: the parameters by AllenNLP's names.
            types: which `rows` number.
            rows: for each row the numbers of its types, with its sentence boundaries.
            start: the state before each row; None for zeros.
            n_columns: the length to which rows are padded.
        Returns:
            (layer, batch, n_columns, dim), with zeros at padding; and the final state of each row,
            None without a start.
        """
        lengths = np.array([len(row) for row in rows], np.int64)
        device = next(iter(weights.values())).device
        is_read = torch.arange(n_columns) < torch.from_numpy(lengths).unsqueeze(1)
        is_read = is_read.to(device)  # (batch, n_columns)
        used = list(weights.values())
        if isinstance(types, Tensor):
            used.append(types)
        if _is_fast(used):
            return self._fast_layers(weights, types, rows, start, is_read)
        return self._autograd_layers(weights, types, rows, start, is_read)

    def type_vectors(self, weights: Mapping[str, Tensor], types: list[str]) -> Tensor:
        """Compute context-free vectors, (type, projection_dim), without gradients."""
        is_frozen = _is_fast(list(weights.values()))
        engine = self._engine_for(weights) if is_frozen else self._new_engine(weights)
        with without_autocast(next(iter(weights.values())).device):
            return engine.embed_types(types).clone()

    def _fast_layers(
        self,
        weights: Mapping[str, Tensor],
        types: Types,
        rows: Sequence[Int64Array],
        start: State | None,
        is_read: Tensor,
    ) -> tuple[Tensor, State | None]:
        engine = self._engine_for(weights)
        batch = Batch(rows=tuple(rows), source_rows=np.arange(len(rows)))
        with without_autocast(is_read.device):
            vectors = types if isinstance(types, Tensor) else engine.embed_types(types)
            layers, final = engine.forward(
                batch, vectors, start, shared_start=start is None, keep_boundaries=True
            )
        # A tensor of its own: what an engine returns cannot take part in autograd.
        shape = (len(layers), *is_read.shape, layers.shape[2])
        padded = torch.zeros(shape, device=layers.device, dtype=layers.dtype)
        padded[:, is_read] = layers
        return padded, final

    def _autograd_layers(
        self,
        weights: Mapping[str, Tensor],
        types: Types,
        rows: Sequence[Int64Array],
        start: State | None,
        is_read: Tensor,
    ) -> tuple[Tensor, State | None]:
        if self._template is None:
            self._template = _LayersOfTypes(bilm_of(weights, self._options).to("meta"))
        if isinstance(types, list):
            types = torch.from_numpy(self._id_strings.tokens(types)).to(is_read.device)
        numbers = torch.zeros(is_read.shape, dtype=torch.int64, device=is_read.device)
        numbers[is_read] = torch.from_numpy(np.concatenate(rows)).to(is_read.device)
        n_steps = max(len(row) for row in rows)
        parameters = {}
        for name, tensor in bilm_tensors(weights, self._options).items():
            parameters[f"bilm.{name}"] = tensor
        layers, final = functional_call(
            self._template, parameters, (types, numbers[:, :n_steps], is_read.sum(1), start)
        )
        n_missing = is_read.shape[1] - n_steps
        padded = nn.functional.pad(layers, (0, 0, 0, n_missing))  # (layer, batch, n_columns, dim)
        padded = padded.masked_fill(~is_read.unsqueeze(2), 0)
        return padded, None if start is None else final

    def _engine_for(self, weights: Mapping[str, Tensor]) -> Engine:
        """The fast engine of these weights, which is kept."""
        versions = []
        for weight in weights.values():
            version = 0 if weight.is_inference() else weight._version
            versions.append((weight.data_ptr(), version, weight.device))
        if self._engine is None or versions != self._versions:
            self._engine = self._new_engine(weights)
            self._versions = versions
            self._weights = [weight.detach() for weight in weights.values()]
        return self._engine

    def _new_engine(self, weights: Mapping[str, Tensor]) -> Engine:
        bilm = bilm_of(weights, self._options)
        engine = make_engine("fast", bilm, next(iter(weights.values())).device)
        bilm.to("meta")  # frees its weights: the engine has its own
        return engine


class _LayersOfTypes(nn.Module):
    """A biLM that reads types by their numbers; its parameters are replaced in each call."""

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm = bilm

    def forward(
        self, types: Tensor, numbers: Tensor, lengths: Tensor, start: State | None
    ) -> tuple[Tensor, State]:
        """Layers (layer, batch, token, dim) and the final state.

        Args:
            types: ids (type, id) int64, or vectors (type, projection_dim).
            numbers: (batch, token).
            lengths: (batch,).
        """
        vectors = types if types.is_floating_point() else self.bilm.char_cnn(types)
        layers, final = self.bilm.forward_from_vectors(vectors[numbers], lengths, start)
        return layers, final


def _is_fast(tensors: Sequence[Tensor]) -> bool:
    """Whether the fast engine can compute with them: they are float32 and frozen."""
    is_trained = any(tensor.requires_grad for tensor in tensors)
    is_float32 = all(tensor.dtype == torch.float32 for tensor in tensors)
    return is_float32 and not is_trained
