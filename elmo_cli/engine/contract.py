"""Engine: what computes layers, and what every way of computing them must promise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch


class Engine(Protocol):
    """Computes the layers of batches. State goes in and comes out; nothing is kept that could let
    a vector depend on what was computed before.
    """

    options: Options

    def token_vectors(self, types: Sequence[str]) -> Tensor:
        """Vectors of types without context, (type, projection), on the engine's device."""

    def run(
        self, batch: Batch, vectors: Tensor, state: State | None, *, highest: int | None = None
    ) -> tuple[Tensor, State]:
        """The layers of a batch.

        Args:
            batch: rows whose numbers index `vectors`.
            vectors: (type, projection), from `token_vectors`.
            state: one row for each row of the batch; zeros when None.
            highest: the highest layer that is wanted, 0 for token vectors alone; None for all.
        Returns:
            Layers (token, layer, dim) up to the highest, row after row in the order of the batch
            and without the borders; and the state that each row left, that of layers beyond the
            highest being anything.
        """
