"""Engine: what computes layers, what every engine promises, and the engines by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from elmo_cli.engine.fast import FastEngine
from elmo_cli.engine.gemm import make_gemm
from elmo_cli.engine.names import ENGINES, PRECISIONS, check_choice
from elmo_cli.engine.plain import PlainEngine
from elmo_cli.errors import DeviceError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch


class Engine(Protocol):
    """Computes the layers of batches. It keeps no state: a vector depends only on the arguments.

    Attributes:
        options: of its biLM.
        pads: whether each row of a batch takes the time and memory of the longest.
    """

    options: Options
    pads: bool

    def embed_types(self, types: Sequence[str]) -> Tensor:
        """Context-free vectors of types, (type, projection_dim), on the engine's device."""

    def forward(
        self,
        batch: Batch,
        type_vectors: Tensor,
        start: State | None,
        *,
        shared_start: bool = False,
        top_layer: int | None = None,
    ) -> tuple[Tensor, State | None]:
        """The layers of a batch.

        Args:
            batch: rows whose numbers index `type_vectors`.
            type_vectors: (type, projection_dim), from `embed_types`.
            start: the state before each row, zeros when None; a single row if it is shared.
            shared_start: whether all rows start from the same state and no final state is wanted;
                the fast engine then computes shared prefixes once.
            top_layer: the highest layer wanted, 0 for type vectors alone, None for all; only with
                `shared_start`.
        Returns:
            Layers (layer, token, dim), the tokens of row after row without sentence boundaries;
            and the final state of each row, None with `shared_start`.
        """


def make_engine(name: str, bilm: BiLM, device: torch.device, precision: str = "float32") -> Engine:
    """The engine of a name, with the biLM's weights on the device.

    Raises:
        UsageError: no such engine or precision.
        DeviceError: the device has no products of this precision.
    """
    check_choice("engine", name, ENGINES)
    check_choice("precision", precision, PRECISIONS)
    if name == "plain":
        if precision != "float32":
            raise UsageError(
                f"`precision={precision}`: the plain engine computes in float32", "`engine=fast`"
            )
        return PlainEngine(bilm, device)
    if precision == "int8":
        _check_int8(device)
    return FastEngine(bilm, device, precision)


def _check_int8(device: torch.device) -> None:
    if device.type != "cpu":
        raise DeviceError(
            f"`precision=int8`: only for CPUs, not for {device.type}",
            "`precision=bf16`, or `device=cpu`",
        )
    try:
        make_gemm([torch.ones(16, 16)], None, "int8").linear(torch.ones(1, 16))
    except (AttributeError, RuntimeError) as error:
        raise DeviceError(
            "`precision=int8`: this build of torch has no 8-bit products", "leave it out"
        ) from error
