"""Sort the vectors of a batch on the device into the order of a file, and split them by sentence.

In a file, the vectors of a sentence are next to each other. In a batch, all tokens of layer 0 come
before those of layer 1. A GPU sorts them at next to no cost, so the writer need not transpose.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


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
    vectors: Tensor, sizes: Sequence[int], n_layers: int, *, tokens_first: bool
) -> list[Tensor]:
    """Return views of sorted vectors, (vector, dim): one for each sentence, (layer, token, dim)."""
    dim = vectors.shape[-1]
    vectors_of_sentences = []
    for own_vectors in torch.split(vectors, [n_layers * size for size in sizes]):
        if tokens_first:
            vectors_of_sentences.append(own_vectors.view(-1, n_layers, dim).transpose(0, 1))
        else:
            vectors_of_sentences.append(own_vectors.view(n_layers, -1, dim))
    return vectors_of_sentences
