"""The character CNN, once per type (distinct token) instead of per token, and its cache."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from elmo_cli.engine.gemm import make_gemm
from elmo_cli.engine.runtime import DeviceTuning, run_parallel
from elmo_cli.model.bilm import CharCNN, Highway
from elmo_cli.text.characters import PADDING, CharacterIds

_CAPACITY = 65_536  # cached types; the rest of a vocabulary is rare by Zipf's law
_BUCKETS = (8, 11, 14, 18, 26)  # characters, including begin and end of word


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
        self.max_characters, self.projection_dim = options.max_characters, options.projection_dim
        self._embedding = char_cnn.embedding.weight.detach().clone()
        self._activation = torch.relu if options.activation == "relu" else torch.tanh
        self._max_width = max(width for width, _ in options.filters)
        fitting = (n for n in _BUCKETS if n + self._max_width < self.max_characters)
        self.buckets = (*fitting, self.max_characters)
        self._filters = [
            (
                conv.kernel_size[0],
                conv.weight.detach().permute(2, 1, 0).flatten(0, 1).contiguous(),
                conv.get_parameter("bias").detach().clone(),
            )
            for conv in cast("list[nn.Conv1d]", list(char_cnn.filters))
        ]  # width, (width * char_dim, count), (count,)
        self._highways = [
            make_gemm(
                [highway.carry.weight, highway.transform.weight],
                [highway.carry.bias, highway.transform.bias],
                precision,
                nonnegative_input=options.activation == "relu",
            )
            for highway in cast("list[Highway]", list(char_cnn.highways))
        ]
        self._projection = None
        if options.has_cnn_projection:
            weight, bias = map(char_cnn.projection.get_parameter, ("weight", "bias"))
            self._projection = make_gemm([weight], [bias], "float32")

    def max_over_windows(self, ids: Tensor, bucket: int) -> Tensor:
        """The filters' maxima for types of one bucket, whose padding starts at position `bucket`:
        int64 (type, max_characters) -> (type, filter)."""
        n_characters = min(bucket + self._max_width, self.max_characters)
        x = nn.functional.embedding(ids[:, :n_characters], self._embedding)
        n_types, _, char_dim = x.shape
        maxima = []
        for width, weight, bias in self._filters:
            n_windows = min(bucket + 1, self.max_characters - width + 1)
            windows = x.as_strided(
                (n_types, n_windows, width * char_dim), (x.stride(0), char_dim, 1)
            ).reshape(-1, width * char_dim)  # (type * window, width * char_dim)
            products = (windows @ weight).view(n_types, n_windows, -1)
            maxima.append(products.amax(1) + bias)  # (type, count)
        return torch.cat(maxima, 1)

    def from_filters(self, maxima: Tensor) -> Tensor:
        """Vectors of types of any length: (type, filter) -> (type, projection_dim)."""
        x = self._activation(maxima)  # (type, filter)
        for highway in self._highways:
            gate, transformed = highway.split(highway.linear(x))  # each (type, filter)
            x = torch.lerp(x, transformed.relu_(), gate.sigmoid_())
        return x if self._projection is None else self._projection.linear(x)[0]


class TypeCache:
    """Vectors of the types seen so far, kept from block to block in bounded memory.

    A vector must not depend on when its type was seen. So every product has the same number of
    rows, a type's length alone decides its bucket, and vectors are kept only if a row's result does
    not depend on its position in a product, which is tested first. On a machine where it does, each
    block computes its own types again.

    Threads may share a cache; one at a time adds types.
    """

    def __init__(self, char_cnn: FastCharCNN, device: torch.device) -> None:
        self._char_cnn, self._device = char_cnn, device
        self._n_rows = DeviceTuning.of(device).types_per_product
        self._characters = CharacterIds(char_cnn.max_characters)
        none = (0, char_cnn.projection_dim)
        self._vectors = torch.empty(none, device=device, dtype=torch.float32)  # (row, dim)
        self._rows: dict[str, int] = {}
        self._recently_used: set[str] = set()  # since types were last evicted
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
            self._recently_used.update(types)
            self._add(list(dict.fromkeys(t for t in types if t not in self._rows)))
            rows = torch.tensor([self._rows[t] for t in types], dtype=torch.int64)
            return self._vectors.index_select(0, rows.to(self._device))

    def _evict(self, wanted: set[str]) -> None:
        """Keep the types used recently; if these are too many, those of them that are wanted."""
        recent = [t for t in self._rows if t in self._recently_used]
        if len(recent) > _CAPACITY // 2:
            recent = [t for t in recent if t in wanted]
        self._keep_only(recent)
        self._recently_used = set()

    def _keep_only(self, types: list[str]) -> None:
        rows = torch.tensor([self._rows[t] for t in types], dtype=torch.int64)
        self._vectors = self._vectors.index_select(0, rows.to(self._device))
        self._rows = {t: row for row, t in enumerate(types)}

    def _add(self, types: list[str]) -> None:
        if not types:
            return
        ids = self._characters.tokens(types)  # (type, char)
        buckets = np.searchsorted(self._char_cnn.buckets, (ids != PADDING).sum(1))  # (type,)
        order = np.argsort(buckets, kind="stable")
        n_known = len(self._rows)
        if (n_rows := n_known + len(types)) > len(self._vectors):
            n_more = max(n_rows, 2 * len(self._vectors)) - len(self._vectors)
            self._vectors = nn.functional.pad(self._vectors, (0, 0, 0, n_more))

        def compute(first: int) -> None:
            group = order[first : first + self._n_rows]
            maxima = []
            for k in np.unique(buckets[group]):
                some = torch.from_numpy(ids[group[buckets[group] == k]]).to(self._device)
                filters = partial(self._char_cnn.max_over_windows, bucket=self._char_cnn.buckets[k])
                maxima.append(self._in_full_product(filters, some))
            vectors = self._in_full_product(self._char_cnn.from_filters, torch.cat(maxima))
            self._vectors[n_known + first : n_known + first + len(group)] = vectors

        firsts = range(0, len(types), self._n_rows)
        run_parallel([partial(compute, first) for first in firsts], self._device)
        self._rows.update((types[n], n_known + k) for k, n in enumerate(order.tolist()))

    def _rows_are_independent(self) -> bool:
        """Whether a type has the same vector, bit for bit, in any row of a product."""
        tokens = [f"{n:x}tion" for n in range(self._n_rows)]
        ids = torch.from_numpy(self._characters.tokens(tokens)).to(self._device)
        # One cycle through all rows, which moves types by many distances: the blocks of rows that
        # a product is computed in may have any size.
        order = (5 * torch.arange(self._n_rows, device=self._device) + 1) % self._n_rows
        for bucket in self._char_cnn.buckets:
            maxima = self._char_cnn.max_over_windows(ids, bucket)
            if not torch.equal(maxima[order], self._char_cnn.max_over_windows(ids[order], bucket)):
                return False
        vectors = self._char_cnn.from_filters(maxima)
        return torch.equal(vectors[order], self._char_cnn.from_filters(maxima[order]))

    def _in_full_product(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """`function` of some rows, computed with as many as every product has."""
        return function(nn.functional.pad(x, (0, 0, 0, self._n_rows - len(x))))[: len(x)]
