"""OutputReduction: from all layers of a batch to the array of each sentence.

In a file, the vectors of a sentence are next to each other. In a batch, all tokens of layer 0 come
before those of layer 1. A GPU sorts them at next to no cost, so that the writer transposes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import FloatArray
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import OutputError
from elmo_cli.store.layers import LayerSelection

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "int8": torch.float32}


@dataclass(frozen=True)
class OutputReduction:
    """Which layers are kept, or their sum, in which dtype, and whether tokens are pooled."""

    layers: LayerSelection
    dtype: str
    pool: str | None

    @classmethod
    def of(cls, settings: EmbedderSettings, n_layers: int) -> OutputReduction:
        """For a model of `n_layers` layers, layer 0 included; a UsageError if it lacks layers."""
        selection = LayerSelection.parse(
            settings.layers, range(n_layers), n_layers, drop_axis=settings.drop_layer_axis
        )
        return cls(layers=selection, dtype=settings.dtype, pool=settings.pool)

    @property
    def top_layer(self) -> int | None:
        """The highest layer that is kept; None if all are needed."""
        return None if self.layers.is_sum else max(self.layers.indices)

    def select(self, layers: Tensor) -> Tensor:
        """(layer, token, dim) -> (kept layer, token, dim), or (token, dim) of a sum; float32."""
        selected: Tensor = self.layers.apply(layers)
        return selected

    def cast(self, values: Tensor) -> Tensor:
        """Values in the dtype of the arrays."""
        return values.to(_DTYPES[self.dtype])

    def to_array(self, selected: Tensor) -> FloatArray:
        """The array of one sentence.

        Args:
            selected: what `select` returned for its tokens, on the CPU.
        Returns:
            (layer, token, dim) or (token, dim); if pooled, (layer, dim) or (dim,), which are zeros
            without tokens.
        """
        n_tokens = selected.shape[-2]
        if self.pool is not None and n_tokens == 0:
            selected = selected.sum(-2)
        elif self.pool == "mean":
            selected = selected.mean(-2)
        elif self.pool == "max":
            selected = selected.amax(-2)
        array: FloatArray = self.cast(selected).numpy()
        return array

    def fits(self, values: Tensor) -> bool:
        """Whether all values are finite and within the range of the dtype."""
        if not values.numel():
            return True
        least, greatest = torch.aminmax(values)  # both are NaN if one value is
        largest = torch.finfo(_DTYPES[self.dtype]).max
        return bool((-largest <= least) & (greatest <= largest))

    def error(self, values: Tensor, where: str, model: str) -> OutputError:
        """The error for values of `where`, computed by `model`, that do not fit."""
        value = float(values.abs().amax())
        largest = torch.finfo(_DTYPES[self.dtype]).max
        return OutputError(
            f"the model {model} with `layers={self.layers.name}` computes {value:.4g}; "
            f"{self.dtype} holds at most {largest:.5g}",
            "`elmo embed --dtype float32` has a larger range, and smaller weights of a mix give "
            "smaller values; `elmo inspect WEIGHTS.hdf5` checks the weights",
            where=where,
        )


def sort_vectors(values: Tensor, sizes: Sequence[int], *, tokens_first: bool) -> Tensor:
    """Sort the vectors of a batch.

    Args:
        values: (layer, token, dim).
        sizes: numbers of tokens of the sentences.
        tokens_first: whether the layers of a token are next to each other, or the tokens of a
            layer.
    Returns:
        (vector, dim): the vectors of the first sentence, then those of the second, and so on.
    """
    n_layers, _, dim = values.shape
    if tokens_first:
        return values.transpose(0, 1).reshape(-1, dim)
    sentence_of_token = np.repeat(np.arange(len(sizes)), sizes)
    sentence_of_vector = np.tile(sentence_of_token, n_layers)
    order = torch.from_numpy(np.argsort(sentence_of_vector, kind="stable"))
    return values.reshape(-1, dim).index_select(0, order.to(values.device))


def split_vectors(
    vectors: FloatArray, sizes: Sequence[int], n_layers: int, *, tokens_first: bool
) -> list[FloatArray]:
    """Return views of sorted vectors, (vector, dim): one for each sentence, (layer, token, dim)."""
    dim = vectors.shape[-1]
    vectors_of_sentences = []
    begin = 0
    for size in sizes:
        end = begin + n_layers * size
        own_vectors = vectors[begin:end]
        if tokens_first:
            vectors_of_sentences.append(own_vectors.reshape(size, n_layers, dim).swapaxes(0, 1))
        else:
            vectors_of_sentences.append(own_vectors.reshape(n_layers, size, dim))
        begin = end
    return vectors_of_sentences
