"""ShortCNN: the character CNN without the padding that its maximum can't see twice."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from elmo_cli.engine.products import product
from elmo_cli.model.char_cnn import CharCNN
from elmo_cli.model.highway import Highway

_BUCKETS = (8, 11, 14, 18, 26)  # characters with the borders of the word


class ShortCNN:
    """What `CharCNN` computes, for types of like length.

    A type of n characters has the same windows from its end on: nothing but padding. One of them is
    enough for the maximum, so a type of 10 characters has 11 windows in place of 44 to 50. Filters
    are products of windows laid side by side, which the processor computes at full rate; on types
    as short as these torch's convolution reaches a third of it.

    Args:
        char_cnn: the specification.
        precision: of the highways' products, see `products`; filters and projection are float32.
    Attributes:
        buckets: the numbers of characters that types are padded to, from few to many. The last one
            is `max_characters`, where every window of the specification is there.
    """

    def __init__(self, char_cnn: CharCNN, precision: str = "float32") -> None:
        options = char_cnn.options
        self._full, self._embedding = options.max_characters, char_cnn.embedding.weight
        self._activation = torch.relu if options.activation == "relu" else torch.tanh
        self._widest = max(width for width, _ in options.filters)
        fitting = (n for n in _BUCKETS if n + self._widest < self._full)
        self.buckets = (*fitting, self._full)
        self._filters = [
            (
                width,
                conv.weight.permute(2, 1, 0).flatten(0, 1).contiguous(),
                conv.get_parameter("bias"),
            )
            for (width, _), conv in zip(
                options.filters, cast("list[nn.Conv1d]", list(char_cnn.filters)), strict=True
            )
        ]  # each (width * char_dim, count), (count,)
        # What relu lets through no highway makes negative.
        is_positive = options.activation == "relu"
        self._highways = [
            _Highway(cast(Highway, highway), precision, is_positive=is_positive)
            for highway in char_cnn.highways
        ]
        self._projection = None
        if options.cnn_projection:
            weight = char_cnn.projection.get_parameter("weight")
            bias = char_cnn.projection.get_parameter("bias")
            self._projection = product([weight], [bias], "float32")

    def bucket(self, n_characters: int) -> int:
        """The bucket of a type with so many characters, borders of the word counted."""
        return next(n for n in self.buckets if n_characters <= n)

    def maxima(self, ids: Tensor, bucket: int) -> Tensor:
        """The filters' maxima over all places of types of one bucket.

        Args:
            ids: (type, max_characters) int64, padding from place `bucket` on.
        Returns:
            (type, filter).
        """
        places = min(bucket + self._widest, self._full)
        x = nn.functional.embedding(ids[:, :places], self._embedding)  # (type, place, char_dim)
        n_types, _, char_dim = x.shape
        maxima = []
        for width, weight, bias in self._filters:
            n_windows = (places if bucket == self._full else bucket + width) - width + 1
            windows = x.as_strided(
                (n_types, n_windows, width * char_dim), (x.stride(0), char_dim, 1)
            ).reshape(-1, width * char_dim)  # (type * window, width * char_dim)
            products = (windows @ weight).view(n_types, n_windows, -1)
            maxima.append(products.amax(1) + bias)  # (type, count)
        return torch.cat(maxima, 1)

    def vectors(self, maxima: Tensor) -> Tensor:
        """Vectors of types of any length: (type, filter) -> (type, projection)."""
        x = self._activation(maxima)  # (type, filter)
        for highway in self._highways:
            x = highway.run(x)  # (type, filter)
        if self._projection is None:
            return x
        return self._projection.of(x)[0]


class _Highway:
    """What `Highway` computes, with the precision of its products."""

    def __init__(self, highway: Highway, precision: str, *, is_positive: bool) -> None:
        gates = (highway.carry, highway.transform)
        self._product = product(
            [gate.weight for gate in gates],
            [gate.bias for gate in gates],
            precision,
            is_positive=is_positive,
        )

    def run(self, x: Tensor) -> Tensor:
        """(type, filter) -> (type, filter)."""
        gate, transformed = self._product.of(x)  # each (type, filter)
        return torch.lerp(x, transformed.relu_(), gate.sigmoid_())
