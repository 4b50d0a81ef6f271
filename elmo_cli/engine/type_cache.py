"""TypeCache: the character CNN once a type instead of once a token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from elmo_cli.engine.side_by_side import side_by_side
from elmo_cli.text.characters import PADDING, CharacterIds

HEIGHT = 64  # rows of every product, whatever the number of types: see `_same_in_every_row`
_CAPACITY = 65_536  # types that are kept; the rest of a vocabulary is rare by Zipf's law


class Vectors(Protocol):
    """What computes vectors of types in buckets of like length; see `ShortCNN`."""

    buckets: tuple[int, ...]

    def bucket(self, n_characters: int) -> int:
        """The bucket of a type with so many characters."""

    def __call__(self, ids: Tensor, bucket: int) -> Tensor:
        """(HEIGHT, char) -> (HEIGHT, projection)."""


class TypeCache:
    """Vectors of the types met, kept from block to block in bounded memory.

    A vector must not depend on when its type was met. So each product has the same number of rows,
    the type alone decides which bucket it goes in, and vectors are kept only where a row's result
    does not depend on its place among the others; where it does (some libraries sum in another
    order at the edges of a matrix), each block computes its own types anew.

    Args:
        char_cnn: computes vectors, on `device`.
        max_characters: places of a token.
        projection: size of a vector.
        device: where vectors are computed and kept.
    """

    def __init__(
        self,
        char_cnn: Vectors,
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
        self._keeps: dict[int, bool] = {}  # by bucket
        self._passing: set[str] = set()  # types of buckets that can't be kept

    def vectors(self, types: Sequence[str]) -> Tensor:
        """Vectors of types, (type, projection)."""
        if self._passing:
            self._keep_only([t for t in self._places if t not in self._passing])
            self._passing = set()
        if len(self._places) + len(types) > _CAPACITY:
            self._make_room(types)
        self._recent.update(types)
        self._meet(list(dict.fromkeys(t for t in types if t not in self._places)))
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
        if not types:
            return
        ids = self._characters.tokens(types)  # (type, char)
        buckets: dict[int, list[int]] = {}
        for n, n_characters in enumerate((ids != PADDING).sum(1).tolist()):
            buckets.setdefault(self._char_cnn.bucket(n_characters), []).append(n)
        groups = [
            (bucket, rows[start : start + HEIGHT])
            for bucket, rows in sorted(buckets.items())
            for start in range(0, len(rows), HEIGHT)
        ]
        for bucket in buckets:
            if bucket not in self._keeps:
                self._keeps[bucket] = self._same_in_every_row(bucket)
            if not self._keeps[bucket]:
                self._passing.update(types[n] for n in buckets[bucket])
        first = len(self._places)
        self._reserve(first + len(types))
        starts = [first, *(first + n for n in accumulate(len(rows) for _, rows in groups))]

        def compute(start: int, bucket: int, rows: list[int]) -> None:
            padded = self._characters.tokens([""] * HEIGHT)  # (HEIGHT, char)
            padded[: len(rows)] = ids[rows]
            vectors = self._char_cnn(torch.from_numpy(padded).to(self._device), bucket)
            self._kept[start : start + len(rows)] = vectors[: len(rows)]

        tasks = [
            partial(compute, start, bucket, rows)
            for start, (bucket, rows) in zip(starts, groups, strict=False)
        ]
        side_by_side(tasks, self._device)
        met = (types[n] for _, rows in groups for n in rows)
        self._places.update((t, first + k) for k, t in enumerate(met))

    def _reserve(self, n_places: int) -> None:
        if n_places > self._kept.shape[0]:
            grown = self._kept.new_empty(
                max(n_places, 2 * self._kept.shape[0]), *self._kept.shape[1:]
            )
            grown[: self._kept.shape[0]] = self._kept
            self._kept = grown

    def _same_in_every_row(self, bucket: int) -> bool:
        """Whether a type of this length has the same vector, bit for bit, in any row."""
        probe = self._characters.tokens([f"{i:x}tion"[: bucket - 2] for i in range(HEIGHT)])
        ids = torch.from_numpy(probe).to(self._device)  # (HEIGHT, char)
        shift = HEIGHT // 2 - 1

        def straight() -> Tensor:
            return self._char_cnn(ids, bucket)

        def turned() -> Tensor:
            return self._char_cnn(ids.roll(shift, 0), bucket)

        one, other = side_by_side([straight, turned], self._device)
        return torch.equal(one.roll(shift, 0), other)
