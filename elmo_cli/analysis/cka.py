"""Linear CKA: how similar two sets of vectors of the same tokens are, whatever their dimensions.

Source: Kornblith et al. 2019, "Similarity of Neural Network Representations Revisited", 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np

from elmo_cli.analysis.explained_variance import ROUNDING
from elmo_cli.arrays import Float64Array, FloatArray


class CenteredProducts:
    """Sums over tokens from which the linear CKA of all pairs of layers is computed.

    Vectors are added in chunks, so that memory grows with the dimensions and not with the tokens.
    """

    def __init__(self, dims: Sequence[int]) -> None:
        """
        Args:
            dims: the dimension of each layer.
        """
        self._n_tokens = 0
        self._sums: list[Float64Array] = [np.zeros(dim) for dim in dims]
        self._products: dict[tuple[int, int], Float64Array] = {}
        for first, second in combinations_with_replacement(range(len(dims)), 2):
            self._products[first, second] = np.zeros((dims[first], dims[second]))

    def add(self, layers: Sequence[FloatArray]) -> None:
        """Add the vectors of some tokens, (token, dim) for each layer."""
        floats = [layer.astype(np.float64) for layer in layers]
        self._n_tokens += len(floats[0])
        for total, vectors in zip(self._sums, floats, strict=True):
            total += vectors.sum(axis=0)
        for (first, second), product in self._products.items():
            product += floats[first].T @ floats[second]

    def cka(self) -> list[list[float | None]]:
        """Return the CKA of each layer with each; None for a layer without variance."""
        n_layers = len(self._sums)
        norms = [self._own_norm(layer) for layer in range(n_layers)]
        matrix: list[list[float | None]] = [[None] * n_layers for _ in range(n_layers)]
        for first, second in self._products:
            norm_product = norms[first] * norms[second]
            if norm_product > 0:
                centered = self._centered(first, second)
                value = float(np.einsum("ab,ab->", centered, centered)) / norm_product
                matrix[first][second] = value
                matrix[second][first] = value
        return matrix

    def _own_norm(self, layer: int) -> float:
        """Return the norm of the centered products of a layer with itself; 0 without variance."""
        centered = self._centered(layer, layer)
        total = float(np.trace(self._products[layer, layer]))
        has_variance = float(np.trace(centered)) > ROUNDING * total
        return float(np.linalg.norm(centered)) if has_variance else 0.0

    def _centered(self, first: int, second: int) -> Float64Array:
        """Return the products of the features of two layers minus their means, (dim, dim)."""
        of_means = np.outer(self._sums[first], self._sums[second]) / max(1, self._n_tokens)
        centered: Float64Array = self._products[first, second] - of_means
        return centered


def linear_cka(first: FloatArray, second: FloatArray) -> float | None:
    """Return the linear CKA of two sets of vectors of the same tokens.

    With centered features X and Y, it is |Y^T X|^2 / (|X^T X| |Y^T Y|) in Frobenius norms: 1 if one
    is a rotated and scaled copy of the other.

    Args:
        first, second: (token, dim); the dimensions may differ.
    Returns:
        None if all vectors of a set are equal.
    Raises:
        ValueError: the numbers of tokens differ.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} vectors are not of the same tokens")
    products = CenteredProducts([first.shape[1], second.shape[1]])
    products.add([first, second])
    return products.cka()[0][1]
