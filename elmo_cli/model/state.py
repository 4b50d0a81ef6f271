"""State: the LSTM state of every layer and direction, for each row of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from elmo_cli.model.options import Options


@dataclass(frozen=True)
class State:
    """h and c of every layer and direction, for each row of a batch; direction 0 is forward."""

    h: Tensor  # (layer, direction, batch, projection_dim)
    c: Tensor  # (layer, direction, batch, lstm_dim)

    @classmethod
    def zeros(
        cls,
        options: Options,
        batch: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> State:
        """The state before the first token."""

        def zeros(size: int) -> Tensor:
            return torch.zeros(options.n_layers, 2, batch, size, device=device, dtype=dtype)

        return cls(zeros(options.projection_dim), zeros(options.lstm_dim))

    def select_rows(self, index: Tensor | slice) -> State:
        """The state of some rows, in the order of `index`."""
        return State(self.h[:, :, index], self.c[:, :, index])

    def expand(self, batch: int) -> State:
        """Copies of a single row's state for each row of a batch."""
        h, c = (part.expand(-1, -1, batch, -1).contiguous() for part in (self.h, self.c))
        return State(h, c)

    def with_rows(self, index: Tensor | slice, other: State) -> State:
        """A copy whose rows `index` are those of `other`."""
        h, c = self.h.clone(), self.c.clone()
        h[:, :, index], c[:, :, index] = other.h, other.c
        return State(h, c)

    def with_rows_added(self, batch: int) -> State:
        """At least `batch` rows; the new ones are zero."""
        more = max(0, batch - self.h.shape[2])
        pad = torch.nn.functional.pad
        return State(pad(self.h, (0, 0, 0, more)), pad(self.c, (0, 0, 0, more)))

    def to(self, device: torch.device | str) -> State:
        """The same state on another device."""
        return State(self.h.to(device), self.c.to(device))

    def to_bytes(self) -> bytes:
        """float32 values of h, then of c."""
        return b"".join(part.cpu().float().numpy().tobytes() for part in (self.h, self.c))

    @classmethod
    def from_bytes(cls, content: bytes, options: Options) -> State:
        """The state of `to_bytes`, with as many rows as it has."""
        values = torch.frombuffer(bytearray(content), dtype=torch.float32)
        sizes = (options.projection_dim, options.lstm_dim)
        n_rows = len(values) // (2 * options.n_layers * sum(sizes))
        shape = (options.n_layers, 2, n_rows)
        n_h = 2 * options.n_layers * n_rows * sizes[0]
        return cls(values[:n_h].view(*shape, sizes[0]), values[n_h:].view(*shape, sizes[1]))
