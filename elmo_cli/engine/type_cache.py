"""TypeCache: the character CNN once a type instead of once a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from elmo_cli.text.characters import CharacterIds

HEIGHT = 256  # rows of every product, whatever the number of types: see `_same_in_every_row`
_CAPACITY = 65_536  # types that are kept; the rest of a vocabulary is rare by Zipf's law


class TypeCache:
    """Vectors of the types met, kept from block to block in bounded memory.

    A vector must not depend on when its type was met. So each product has the same number of rows,
    and vectors are kept only where a row's result does not depend on its place among them; where
    it does (some libraries sum in another order at the edges of a matrix), each block computes its
    own types anew.

    Args:
        char_cnn: ids (HEIGHT, char) -> vectors (HEIGHT, projection), on `device`.
        max_characters: places of a token.
        projection: size of a vector.
        device: where vectors are computed and kept.
    """

    def __init__(
        self,
        char_cnn: Callable[[Tensor], Tensor],
        *,
        max_characters: int,
        projection: int,
        device: torch.device,
    ) -> None:
        self._char_cnn, self._device = char_cnn, device
        self._characters = CharacterIds(max_characters)
        self._places: dict[str, int] = {}
        self._recent: set[str] = set()  # types asked for since types were last thrown away
        self._kept = torch.empty(0, projection, device=device)  # (place, projection)
        self._keeps: bool | None = None

    def vectors(self, types: Sequence[str]) -> Tensor:
        """Vectors of types, (type, projection)."""
        if self._keeps is None:
            self._keeps = self._same_in_every_row()
        if not self._keeps:
            self._keep_only([])
        elif len(self._places) + len(types) > _CAPACITY:
            self._make_room(types)
        self._recent.update(types)
        new = list(dict.fromkeys(t for t in types if t not in self._places))
        for start in range(0, len(new), HEIGHT):
            self._meet(new[start : start + HEIGHT])
        numbers = [self._places[t] for t in types]
        places = torch.tensor(numbers, dtype=torch.int64, device=self._device)  # (type,)
        return self._kept.index_select(0, places)  # (type, projection)

    def _make_room(self, types: Sequence[str]) -> None:
        """Throw away what was not asked for lately, or all but what is asked for now."""
        recent = [t for t in self._places if t in self._recent]
        if len(recent) > _CAPACITY // 2:
            now = set(types)
            recent = [t for t in recent if t in now]
        self._keep_only(recent)
        self._recent = set()

    def _keep_only(self, types: list[str]) -> None:
        places = torch.tensor([self._places[t] for t in types], dtype=torch.int64)
        self._kept = self._kept.index_select(0, places.to(self._device))  # (place, projection)
        self._places = {t: place for place, t in enumerate(types)}

    def _meet(self, types: list[str]) -> None:
        ids = self._characters.tokens(types + [""] * (HEIGHT - len(types)))  # (HEIGHT, char)
        vectors = self._char_cnn(torch.from_numpy(ids).to(self._device))  # (HEIGHT, projection)
        first = len(self._places)
        self._places.update((t, first + i) for i, t in enumerate(types))
        self._reserve(first + len(types))
        self._kept[first : first + len(types)] = vectors[: len(types)]

    def _reserve(self, n_places: int) -> None:
        if n_places > self._kept.shape[0]:
            grown = self._kept.new_empty(
                max(n_places, 2 * self._kept.shape[0]), *self._kept.shape[1:]
            )
            grown[: self._kept.shape[0]] = self._kept
            self._kept = grown

    def _same_in_every_row(self) -> bool:
        """Whether one token has the same vector, bit for bit, in any row of a product."""
        probe = self._characters.tokens([f"{i:x}tion" for i in range(HEIGHT)])  # (HEIGHT, char)
        ids = torch.from_numpy(probe).to(self._device)
        straight = self._char_cnn(ids)  # (HEIGHT, projection)
        turned = self._char_cnn(ids.roll(HEIGHT // 2 - 1, 0))  # (HEIGHT, projection)
        return torch.equal(straight.roll(HEIGHT // 2 - 1, 0), turned)
