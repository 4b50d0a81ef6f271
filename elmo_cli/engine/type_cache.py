"""TypeCache: the character CNN once a type instead of once a token."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any, Protocol

import torch
from torch import Tensor

from elmo_cli.engine.side_by_side import side_by_side
from elmo_cli.text.batching import Ids
from elmo_cli.text.characters import PADDING, CharacterIds

HEIGHT = 64  # rows of every product, whatever the number of types: see `_can_keep`
_CAPACITY = 65_536  # types that are kept; the rest of a vocabulary is rare by Zipf's law


class Vectors(Protocol):
    """What computes vectors of types in buckets of like length; see `ShortCNN`."""

    buckets: tuple[int, ...]

    def bucket(self, n_characters: int) -> int:
        """The bucket of a type with so many characters."""

    def maxima(self, ids: Tensor, bucket: int) -> Tensor:
        """(HEIGHT, char) -> (HEIGHT, filter), for types of one bucket."""

    def vectors(self, maxima: Tensor) -> Tensor:
        """(HEIGHT, filter) -> (HEIGHT, projection), for types of any."""


class TypeCache:
    """Vectors of the types met, kept from block to block in bounded memory.

    A vector must not depend on when its type was met. So each product has the same number of rows,
    the type alone decides which bucket it goes in, and vectors are kept only where a row's result
    does not depend on its place among the others; where it does (some libraries sum in another
    order at the edges of a matrix), each block computes its own types anew.

    One thread at a time meets new types; others that use the same cache wait.

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
        self._same_vectors: bool | None = None  # in every row; None before it was tried
        self._passing: set[str] = set()  # types of buckets that can't be kept
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    def vectors(self, types: Sequence[str]) -> Tensor:
        """Vectors of types, (type, projection)."""
        with self._lock:
            return self._vectors_of(types)

    def _vectors_of(self, types: Sequence[str]) -> Tensor:
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
        for bucket in buckets:
            if bucket not in self._keeps:
                self._keeps[bucket] = self._can_keep(bucket)
            if not self._keeps[bucket]:
                self._passing.update(types[n] for n in buckets[bucket])
        rows = [(bucket, n) for bucket, numbers in sorted(buckets.items()) for n in numbers]
        # What can't be kept shares no product with what can: its rows would depend on how much of
        # that was met before.
        kept = [row for row in rows if self._keeps[row[0]]]
        passing = [row for row in rows if not self._keeps[row[0]]]
        groups = [
            part[k : k + HEIGHT] for part in (kept, passing) for k in range(0, len(part), HEIGHT)
        ]
        first = len(self._places)
        starts = [first, *(first + n for n in accumulate(len(group) for group in groups))]
        self._reserve(starts[-1])

        def compute(group: list[tuple[int, int]], start: int) -> None:
            maxima = [
                self._maxima(ids[[n for _, n in some]], bucket)
                for bucket, some in groupby(group, itemgetter(0))
            ]
            self._kept[start : start + len(group)] = self._vectors(torch.cat(maxima))

        tasks = [partial(compute, *of) for of in zip(groups, starts[:-1], strict=True)]
        side_by_side(tasks, self._device)
        self._places.update((types[n], first + k) for k, (_, n) in enumerate([*kept, *passing]))

    def _maxima(self, ids: Ids, bucket: int) -> Tensor:
        """Of at most HEIGHT types of one bucket: (type, char) -> (type, filter)."""
        padded = self._characters.tokens([""] * HEIGHT)  # (HEIGHT, char)
        padded[: len(ids)] = ids
        return self._char_cnn.maxima(torch.from_numpy(padded).to(self._device), bucket)[: len(ids)]

    def _vectors(self, maxima: Tensor) -> Tensor:
        """Of at most HEIGHT types: (type, filter) -> (type, projection)."""
        padded = maxima.new_zeros(HEIGHT, maxima.shape[1])  # (HEIGHT, filter)
        padded[: len(maxima)] = maxima
        return self._char_cnn.vectors(padded)[: len(maxima)]

    def _reserve(self, n_places: int) -> None:
        if n_places > self._kept.shape[0]:
            grown = self._kept.new_empty(
                max(n_places, 2 * self._kept.shape[0]), *self._kept.shape[1:]
            )
            grown[: self._kept.shape[0]] = self._kept
            self._kept = grown

    def _can_keep(self, bucket: int) -> bool:
        """Whether a type of this length has the same vector, bit for bit, in any row."""
        ids = self._characters.tokens([f"{i:x}tion"[: bucket - 2] for i in range(HEIGHT)])
        probe = torch.from_numpy(ids).to(self._device)  # (HEIGHT, char)
        maxima = self._same_in_every_row(partial(self._char_cnn.maxima, bucket=bucket), probe)
        if maxima is None:
            return False
        if self._same_vectors is None:
            vectors = self._same_in_every_row(self._char_cnn.vectors, maxima)
            self._same_vectors = vectors is not None
        return self._same_vectors

    def _same_in_every_row(
        self, compute: Callable[[Tensor], Tensor], rows: Tensor
    ) -> Tensor | None:
        """What comes of rows, if each of them comes to the same bits in another place."""
        shift = HEIGHT // 2 - 1
        tasks = [partial(compute, rows), partial(compute, rows.roll(shift, 0))]
        straight, turned = side_by_side(tasks, self._device)
        return straight if torch.equal(straight.roll(shift, 0), turned) else None
