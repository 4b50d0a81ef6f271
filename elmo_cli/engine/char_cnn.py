"""The character CNN, once per type (distinct token) instead of per token, and its cache."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo_cli.arrays import Int64Array
from elmo_cli.engine.gemm import Gemm, make_gemm
from elmo_cli.engine.runtime import DeviceTuning, run_parallel
from elmo_cli.model.bilm import CharCNN, Highway
from elmo_cli.text.characters import TokenIds

_CAPACITY = 65_536  # cached types; the rest of a vocabulary is rare by Zipf's law
_BUCKETS = (8, 11, 14, 18, 26)  # characters, including begin and end of word


@dataclass(frozen=True)
class _Filter:
    """The filters of one width as a matrix, to be multiplied from the right."""

    width: int  # in characters
    weight: Tensor  # (width * char_dim, count)
    bias: Tensor  # (count,)

    @classmethod
    def of(cls, conv: nn.Conv1d) -> _Filter:
        return cls(
            width=conv.kernel_size[0],
            weight=conv.weight.detach().permute(2, 1, 0).flatten(0, 1).contiguous(),
            bias=conv.get_parameter("bias").detach().clone(),
        )


class FastCharCNN:
    """The function of `CharCNN`, for types of similar length.

    After its end a type has the same windows again and again: nothing but padding. One of them is
    enough for the maximum, so a type of 10 characters has 11 windows instead of 44 to 50. Filters
    are products of the windows' concatenated characters, which run at the CPU's full rate; on types
    as short as these torch's convolution reaches a third of it. The highways' products have the
    `precision`, see `gemm`; filters and projection are float32.

    Attributes:
        buckets: the numbers of characters that types are padded to, ascending. The last one is
            `max_characters`, with every window of the specification.
    """

    def __init__(self, char_cnn: CharCNN, precision: str = "float32") -> None:
        options = char_cnn.options
        self.max_characters = options.max_characters
        self.projection_dim = options.projection_dim
        self._max_width = max(width for width, _ in options.filters)
        fitting = [n for n in _BUCKETS if n + self._max_width < self.max_characters]
        self.buckets = (*fitting, self.max_characters)

        self._embedding = char_cnn.embedding.weight.detach().clone()  # (character, char_dim)
        self._words: Tensor | None = None  # (word, word_dim)
        if char_cnn.words is not None:
            self._words = char_cnn.words.weight.detach().clone()
        self._word_dim = options.word_dim
        convolutions = cast("list[nn.Conv1d]", list(char_cnn.filters))
        self._filters = [_Filter.of(conv) for conv in convolutions]
        self._activation = torch.relu if options.activation == "relu" else torch.tanh
        self._highways: list[Gemm] = []
        for highway in cast("list[Highway]", list(char_cnn.highways)):
            gemm = make_gemm(
                [highway.carry.weight, highway.transform.weight],
                [highway.carry.bias, highway.transform.bias],
                precision,
                nonnegative_input=options.activation == "relu",
            )
            self._highways.append(gemm)
        self._projection: Gemm | None = None
        if options.has_cnn_projection:
            weight = char_cnn.projection.get_parameter("weight")
            bias = char_cnn.projection.get_parameter("bias")
            self._projection = make_gemm([weight], [bias], "float32")

    def features(self, ids: Tensor, bucket: int) -> Tensor:
        """Word embeddings, if there are any, and maxima of filters.

        Args:
            ids: those of types of one bucket, (type, id).
            bucket: the position at which the padding of these types starts.

        Returns:
            (type, word_dim + filter)
        """
        n_characters = min(bucket + self._max_width, self.max_characters)
        x = nn.functional.embedding(ids[:, :n_characters], self._embedding)
        n_types, _, char_dim = x.shape  # (type, char, char_dim)
        features = []
        if self._words is not None:
            features.append(nn.functional.embedding(ids[:, -1], self._words))  # (type, word_dim)
        for conv in self._filters:
            n_windows = min(bucket + 1, self.max_characters - conv.width + 1)
            window_size = conv.width * char_dim
            # Windows overlap in memory: the next one begins one character later.
            overlapping = x.as_strided(
                (n_types, n_windows, window_size), (x.stride(0), char_dim, 1)
            )
            windows = overlapping.reshape(-1, window_size)  # (type * window, width * char_dim)
            products = (windows @ conv.weight).view(n_types, n_windows, -1)  # (type, window, count)
            features.append(products.amax(1) + conv.bias)  # (type, count)
        return torch.cat(features, 1)

    def from_features(self, features: Tensor) -> Tensor:
        """Vectors of types of any length: (type, word_dim + filter) -> (type, projection_dim)."""
        x = self._activation(features[:, self._word_dim :])  # (type, filter)
        for highway in self._highways:
            gate, transformed = highway.split(highway.linear(x))  # each (type, filter)
            x = torch.lerp(x, transformed.relu_(), gate.sigmoid_())  # (type, filter)
        if self._word_dim:
            x = torch.cat([features[:, : self._word_dim], x], 1)  # (type, word_dim + filter)
        if self._projection is None:
            return x
        (vectors,) = self._projection.linear(x)
        return vectors  # (type, projection_dim)


class TypeCache:
    """Vectors of the types seen so far, kept from block to block in bounded memory.

    A vector must not depend on when its type was seen. So every product has the same number of
    rows, a type's length alone decides its bucket, and vectors are kept only if a row's result does
    not depend on its position in a product, which is tested first. On a machine where it does, each
    block computes its own types again.

    Threads may share a cache; one at a time adds types.
    """

    def __init__(self, char_cnn: FastCharCNN, token_ids: TokenIds, device: torch.device) -> None:
        self._char_cnn = char_cnn
        self._device = device
        self._n_rows = DeviceTuning.of(device).types_per_product
        self._token_ids = token_ids
        # (row, projection_dim); grows by doubling up to the capacity, with room for more types
        no_rows = (0, char_cnn.projection_dim)
        self._vectors = torch.empty(no_rows, device=device, dtype=torch.float32)
        self._rows: dict[str, int] = {}  # the row of each type
        self._is_recent = np.zeros(0, np.bool_)  # used since types were last evicted, (row,)
        self._keeps: bool | None = None  # None before the test
        self._lock = threading.Lock()

    def vectors(self, types: Sequence[str]) -> Tensor:
        """Vectors of types, (type, projection_dim)."""
        with self._lock:
            if self._keeps is None:
                (self._keeps,) = run_parallel([self._rows_are_independent], self._device)
            if not self._keeps:
                self._keep_only([])
            elif len(self._rows) + len(types) > _CAPACITY:
                self._evict(set(types))
            self._add(list(dict.fromkeys(t for t in types if t not in self._rows)))
            rows = self._rows_of(types)
            self._is_recent[rows] = True
            return self._vectors_at(rows)

    def _evict(self, wanted: set[str]) -> None:
        """Keep the types used recently; if these are too many, those of them that are wanted."""
        recent = [t for t, row in self._rows.items() if self._is_recent[row]]
        if len(recent) > _CAPACITY // 2:
            recent = [t for t in recent if t in wanted]
        self._keep_only(recent)

    def _keep_only(self, types: list[str]) -> None:
        self._vectors = self._vectors_at(self._rows_of(types))
        self._rows = {t: row for row, t in enumerate(types)}
        self._is_recent = np.zeros(len(types), np.bool_)

    def _rows_of(self, types: Sequence[str]) -> Int64Array:
        """The rows of types that are in the cache, (type,)."""
        return np.array([self._rows[t] for t in types], np.int64)

    def _vectors_at(self, rows: Int64Array) -> Tensor:
        """The vectors in some rows, (row, projection_dim)."""
        return self._vectors.index_select(0, torch.from_numpy(rows).to(self._device))

    def _add(self, types: list[str]) -> None:
        """Compute the vectors of new types; in groups of similar length, each in one product."""
        if not types:
            return
        ids = self._token_ids.tokens(types)  # (type, id)
        is_character = ids[:, : self._char_cnn.max_characters] != self._token_ids.padding
        # A dictionary may give a character the id of padding, so only padding at the end counts.
        n_padding = np.argmax(is_character[:, ::-1], 1)  # (type,)
        n_characters = self._char_cnn.max_characters - n_padding
        buckets = np.searchsorted(self._char_cnn.buckets, n_characters)  # (type,)
        order = np.argsort(buckets, kind="stable")  # types from short to long
        first_row = len(self._rows)
        self._make_room(first_row + len(types))

        def compute(start: int) -> None:
            group = order[start : start + self._n_rows]  # numbers of types
            row = first_row + start
            self._vectors[row : row + len(group)] = self._compute(ids[group], buckets[group])

        starts = range(0, len(types), self._n_rows)
        run_parallel([partial(compute, start) for start in starts], self._device)
        for position, number in enumerate(order.tolist()):
            self._rows[types[number]] = first_row + position

    def _make_room(self, n_rows: int) -> None:
        n_allocated = len(self._vectors)
        if n_rows > n_allocated:
            doubled = min(2 * n_allocated, _CAPACITY)
            n_more = max(n_rows, doubled) - n_allocated
            self._vectors = nn.functional.pad(self._vectors, (0, 0, 0, n_more))
            self._is_recent = np.pad(self._is_recent, (0, n_more))

    def _compute(self, ids: np.ndarray, buckets: np.ndarray) -> Tensor:
        """Vectors of types, (type, id) -> (type, projection_dim), by ascending bucket (type,)."""
        features = []
        for bucket in np.unique(buckets):
            bucket_ids = torch.from_numpy(ids[buckets == bucket]).to(self._device)
            of_bucket = partial(self._char_cnn.features, bucket=self._char_cnn.buckets[bucket])
            features.append(self._in_full_product(of_bucket, bucket_ids))
        return self._in_full_product(self._char_cnn.from_features, torch.cat(features))

    def _rows_are_independent(self) -> bool:
        """Whether a type has the same vector, bit for bit, in any row of a product."""
        types = _different_types(self._token_ids, self._n_rows)
        ids = torch.from_numpy(self._token_ids.tokens(types)).to(self._device)
        # One cycle through all rows, which moves types by many distances: the blocks of rows that
        # a product is computed in may have any size.
        order = (5 * torch.arange(self._n_rows, device=self._device) + 1) % self._n_rows
        for bucket in self._char_cnn.buckets:
            features = self._char_cnn.features(ids, bucket)
            if not torch.equal(features[order], self._char_cnn.features(ids[order], bucket)):
                return False
        vectors = self._char_cnn.from_features(features)
        return torch.equal(vectors[order], self._char_cnn.from_features(features[order]))

    def _in_full_product(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """`function` of a few rows, computed with as many rows as every product has."""
        n_missing = self._n_rows - len(x)
        return function(nn.functional.pad(x, (0, 0, 0, n_missing)))[: len(x)]


def _different_types(token_ids: TokenIds, n_types: int) -> list[str]:
    """Types that have different ids, of characters that have ids of their own."""
    known = token_ids.known_characters
    if known is None:
        return [f"{n:x}tion" for n in range(n_types)]
    letters = sorted(character for character in known if len(character) == 1) or [" "]
    types = []
    for n in range(n_types):
        first = letters[n % len(letters)]
        # All pairs of letters occur before one is repeated.
        second = letters[(n // len(letters) + 3 * n) % len(letters)]
        types.append(first + second + first)
    return types
