"""PlainEngine: calls the model as it is. It is the specification of the other engines."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.state import State
from elmo_cli.text.batching import Batch
from elmo_cli.text.characters import CharacterIds

_TYPES_PER_CALL = 256  # so that memory does not grow with the number of types


class PlainEngine:
    """Every type and every row through `BiLM`, padded."""

    pads = True

    def __init__(self, bilm: BiLM, device: torch.device) -> None:
        self.options = bilm.options
        self._bilm = bilm.to(device)
        self._device = device
        self._characters = CharacterIds(bilm.options.max_characters)

    @torch.inference_mode()
    def embed_types(self, types: Sequence[str]) -> Tensor:
        """See `Engine.embed_types`."""
        none = (0, self.options.projection_dim)
        vectors = [torch.empty(none, device=self._device, dtype=torch.float32)]
        for first in range(0, len(types), _TYPES_PER_CALL):
            ids = torch.from_numpy(self._characters.tokens(types[first : first + _TYPES_PER_CALL]))
            vectors.append(self._bilm.char_cnn(ids.to(self._device)))  # (type, projection_dim)
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
