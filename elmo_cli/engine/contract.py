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

    Attributes:
        options: of its biLM.
        pads: whether each row of a batch takes the time of the longest, and as much memory.
    """

    options: Options
    pads: bool

    def token_vectors(self, types: Sequence[str]) -> Tensor:
        """Vectors of types without context, (type, projection), on the engine's device."""

    def run(self, batch: Batch, vectors: Tensor, state: State) -> tuple[Tensor, State]:
        """The layers of rows that go on from states of their own, and where they stop.

        Args:
            batch: rows whose numbers index `vectors`.
            vectors: (type, projection), from `token_vectors`.
            state: one row for each row of the batch.
        Returns:
            Layers (layer, token, dim), row after row in the order of the batch and without the
            borders; and the state that each row left.
        """

    def run_alike(
        self, batch: Batch, vectors: Tensor, start: State | None, *, highest: int | None = None
    ) -> Tensor:
        """The layers of rows that all begin in the same state; where they stop is not asked for.

        Args:
            batch, vectors: as for `run`.
            start: a single row; zeros when None.
            highest: the highest layer that is wanted, 0 for token vectors alone; None for all.
        Returns:
            Layers (layer, token, dim) up to the highest, in the order of `run`.
        """
