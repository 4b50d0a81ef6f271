"""Engine: the interface of the engines that compute layers, and their creation by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from elmo_cli.engine.fast import FastEngine
from elmo_cli.engine.plain import PlainEngine
from elmo_cli.errors import DeviceError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch


class Engine(Protocol):
    """Computes the layers of batches without keeping state between calls.

    Attributes:
        options: options of its biLM.
        pads: whether each row of a batch takes the time and memory of the longest row.
    """

    options: Options
    pads: bool

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
            batch: rows of indices into `type_vectors`.
            type_vectors: (type, projection_dim), from `embed_types`.
            start: the state before each row; None for zeros; a single row if it is shared.
            shared_start: whether all rows start from the same state and no final state is needed;
                the fast engine then computes shared prefixes once.
            top_layer: highest layer to compute, 0 for type vectors alone, None for all; requires
                `shared_start`.
        Returns:
            Layers, (layer, token, dim), with the tokens of all rows concatenated, without sentence
            boundaries; and the final state of each row, or None with `shared_start`.
        """


class WeightsGuard:
    """Detects that the weights of a model have changed since its engine was created.

    An engine keeps copies of some weights and of vectors computed from them, so after a change it
    would mix old and new weights. The check takes a fraction of a millisecond. A change through
    `.data` or NumPy cannot be detected; the fast engine then uses all of the old weights.
    """

    def __init__(self, bilm: BiLM) -> None:
        self._bilm, self._versions = bilm, _versions(bilm)
        self._weights = [
            weight.detach() for weight in bilm.parameters()
        ]  # keeps their addresses in use

    def check(self) -> None:
        """Raise a UsageError if a weight was modified, replaced, converted or moved."""
        if _versions(self._bilm) != self._versions:
            raise UsageError(
                "the weights of the model have changed since this Embedder was created",
                "create a new `Embedder` for the model",
            )

    def release(self) -> None:
        """Free the memory of the weights; the fast engine has its own copy."""
        self._weights = []
        self._versions = _versions(self._bilm.to("meta"))


def _versions(bilm: BiLM) -> list[tuple[int, int]]:
    """Return address and version counter of each weight; inference tensors have no counter."""
    weights = bilm.parameters()
    return [(w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights]


def make_engine(name: str, bilm: BiLM, device: torch.device, precision: str = "float32") -> Engine:
    """Create the engine with this name, with the weights of the biLM on the device.

    Raises:
        UsageError: the weights are not float32, or the plain engine should use another precision.
        DeviceError: the device does not support this precision.
    """
    dtypes = {str(weight.dtype).removeprefix("torch.") for weight in bilm.parameters()}
    if dtypes != {"float32"}:
        what = f"the weights of the model are {', '.join(sorted(dtypes))}, not float32"
        raise UsageError(
            what, "load it again, or convert it with `.float()`; `precision=bf16` is faster"
        )
    if name == "plain":
        if precision != "float32":
            raise UsageError(
                f"`precision={precision}`: the plain engine computes in float32",
                "use `engine=fast`",
            )
        return PlainEngine(bilm, device)
    if precision == "int8" and device.type != "cpu":
        raise DeviceError(
            f"`precision=int8`: supported only on CPUs, not on {device.type}",
            "use `precision=bf16` or `device=cpu`",
        )
    try:
        return FastEngine(bilm, device, precision)
    except (AttributeError, NotImplementedError) as error:
        what = f"`precision={precision}`: this build of torch has no such matrix products"
        raise DeviceError(what, "leave it out") from error
