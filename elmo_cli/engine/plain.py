"""The plain engine: calls the model as it stands. It is the specification of every other one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch
from elmo_cli.text.characters import CharacterIds

_HEIGHT = 256  # types at a time, so that memory does not grow with their number


class PlainEngine:
    """Every type and every row through `BiLM`, padded."""

    pads = True

    def __init__(self, bilm: BiLM, device: torch.device) -> None:
        self.options = bilm.options
        self._bilm = bilm.to(device)
        self._device = device
        self._characters = CharacterIds(bilm.options.max_characters)

    @torch.inference_mode()
    def token_vectors(self, types: Sequence[str]) -> Tensor:
        """See `Engine.token_vectors`."""
        vectors = [torch.empty(0, self.options.projection, device=self._device)]
        for start in range(0, len(types), _HEIGHT):
            ids = torch.from_numpy(self._characters.tokens(types[start : start + _HEIGHT]))
            vectors.append(self._bilm.char_cnn(ids.to(self._device)))  # (type, projection)
        return torch.cat(vectors)  # (type, projection)

    @torch.inference_mode()
    def run(self, batch: Batch, vectors: Tensor, state: State) -> tuple[Tensor, State]:
        """See `Engine.run`."""
        lengths = torch.from_numpy(batch.lengths).to(self._device)  # (batch,)
        rows = [torch.from_numpy(row) for row in batch.rows]
        numbers = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(self._device)
        layers, left = self._bilm.layers_of(vectors[numbers], lengths, state)
        inner = [layers[:, r, 1 : len(row) - 1] for r, row in enumerate(rows)]
        return torch.cat(inner, 1), left  # (layer, token, dim)

    @torch.inference_mode()
    def run_alike(
        self, batch: Batch, vectors: Tensor, start: State | None, *, highest: int | None = None
    ) -> Tensor:
        """See `Engine.run_alike`."""
        if start is None:
            start = State.zeros(self.options, 1, device=self._device)
        layers, _ = self.run(batch, vectors, start.repeat(len(batch.rows)))
        return layers if highest is None else layers[: highest + 1]  # (layer, token, dim)
