"""State: where the LSTMs stand, of every layer and direction."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_cli.model.options import Options


@dataclass(frozen=True)
class State:
    """h and c of every layer and direction, for each row of a batch.

    Attributes:
        h: (layer, direction, batch, projection); direction 0 is forward, 1 backward.
        c: (layer, direction, batch, cell).
    """

    h: Tensor
    c: Tensor

    @classmethod
    def zeros(
        cls,
        options: Options,
        batch: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> State:
        """The state before anything was read."""
        h = torch.zeros(options.n_layers, 2, batch, options.projection, device=device, dtype=dtype)
        c = torch.zeros(options.n_layers, 2, batch, options.cell, device=device, dtype=dtype)
        return cls(h, c)

    @property
    def n_rows(self) -> int:
        """Rows of the batch."""
        return self.h.shape[2]

    def rows(self, index: Tensor | slice) -> State:
        """The state of some rows, in the order of `index`."""
        return State(self.h[:, :, index], self.c[:, :, index])

    def repeat(self, batch: int) -> State:
        """One row's state for each row of a batch."""
        return State(
            self.h.expand(-1, -1, batch, -1).contiguous(),
            self.c.expand(-1, -1, batch, -1).contiguous(),
        )

    def replace(self, index: Tensor | slice, other: State) -> State:
        """A state whose rows `index` are those of `other`."""
        h, c = self.h.clone(), self.c.clone()
        h[:, :, index], c[:, :, index] = other.h, other.c
        return State(h, c)

    def grown(self, batch: int) -> State:
        """At least `batch` rows; the new ones are zero."""
        more = batch - self.n_rows
        if more <= 0:
            return self
        h = torch.cat([self.h, self.h.new_zeros(*self.h.shape[:2], more, self.h.shape[3])], 2)
        c = torch.cat([self.c, self.c.new_zeros(*self.c.shape[:2], more, self.c.shape[3])], 2)
        return State(h, c)

    def to(self, device: torch.device | str) -> State:
        """The same state on another device."""
        return State(self.h.to(device), self.c.to(device))
