"""Mean cosines of vectors: of all pairs, and with their mean.

Source: Ethayarajh 2019, "How Contextual are Contextualized Word Representations?", 3.2.
"""

from __future__ import annotations

import numpy as np

from elmo_cli.arrays import Float64Array, FloatArray


def mean_pairwise_cosine(vectors: FloatArray) -> float | None:
    """Return the mean cosine of all pairs of different vectors.

    With unit vectors u_i, it is (|sum u_i|^2 - n) / (n (n - 1)), which needs no pair.

    Args:
        vectors: (vector, dim); zero vectors, which have no cosine, are left out.
    Returns:
        None if fewer than two vectors remain.
    """
    units = _unit_vectors(vectors)
    n = len(units)
    if n < 2:
        return None
    total = units.sum(axis=0)
    return (float(total @ total) - n) / (n * (n - 1))


def mean_cosine_with_mean(vectors: FloatArray) -> float | None:
    """Return the mean cosine of vectors with their mean, which is not normalized before.

    Args:
        vectors: (vector, dim); zero vectors have no cosine, but count in the mean.
    Returns:
        None if all vectors are zero, or if their mean is.
    """
    units = _unit_vectors(vectors)
    if not len(units):
        return None
    mean = vectors.mean(axis=0, dtype=np.float64)
    norm = float(np.linalg.norm(mean))
    if norm == 0:
        return None
    return float((units @ mean).mean()) / norm


def _unit_vectors(vectors: FloatArray) -> Float64Array:
    """Return the vectors that are not zero with length 1, (vector, dim)."""
    floats = vectors.astype(np.float64)
    norms = np.linalg.norm(floats, axis=1)
    is_kept = norms > 0
    units: Float64Array = floats[is_kept] / norms[is_kept, np.newaxis]
    return units
