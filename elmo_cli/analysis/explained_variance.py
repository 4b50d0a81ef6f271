"""ExplainedVariance: how much one direction explains of some vectors, by three definitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import Float64Array, FloatArray

ROUNDING = 1e-10  # variance that is a smaller fraction of the squares of the vectors is none


@dataclass(frozen=True)
class ExplainedVariance:
    """The fraction that the first component explains, by three definitions; None if undefined.

    Attributes:
        uncentered: s_1^2 / sum s_i^2 of the singular values of the vectors as they are. This is the
            formula of Ethayarajh 2019, 3.3.
        pca: the same of the vectors minus their mean, the usual explained variance of PCA.
        truncated_svd: the variance of the projections on the first direction of `uncentered`,
            divided by the total variance. This is `explained_variance_ratio_` of scikit-learn's
            TruncatedSVD.
    """

    uncentered: float | None
    pca: float | None
    truncated_svd: float | None


def explained_variance(vectors: FloatArray) -> ExplainedVariance:
    """Measure how much the first component explains.

    The singular values come from the matrix of the products of the vectors, or from that of their
    dimensions if it is smaller.

    Args:
        vectors: (vector, dim).
    Returns:
        All are None for fewer than two vectors, or if all are zero; `pca` and `truncated_svd` are
        None also for vectors that are equal except for rounding, which have no variance.
    """
    if len(vectors) < 2:
        return ExplainedVariance(uncentered=None, pca=None, truncated_svd=None)
    floats = vectors.astype(np.float64)
    total = float(np.einsum("vd,vd->", floats, floats))
    if total == 0:
        return ExplainedVariance(uncentered=None, pca=None, truncated_svd=None)
    projections = floats @ _first_direction(floats)  # (vector,)
    uncentered = float(projections @ projections) / total

    centered = floats - floats.mean(axis=0)
    centered_total = float(np.einsum("vd,vd->", centered, centered))
    if centered_total <= ROUNDING * total:
        return ExplainedVariance(uncentered=uncentered, pca=None, truncated_svd=None)
    centered_projections = projections - projections.mean()
    largest = float(np.linalg.eigvalsh(_smaller_product(centered))[-1])
    return ExplainedVariance(
        uncentered=uncentered,
        pca=largest / centered_total,
        truncated_svd=float(centered_projections @ centered_projections) / centered_total,
    )


def _first_direction(vectors: Float64Array) -> Float64Array:
    """Return the first right singular vector, (dim,), of length 1; not all vectors are zero."""
    _, eigenvectors = np.linalg.eigh(_smaller_product(vectors))
    direction: Float64Array = eigenvectors[:, -1]
    if len(vectors) <= vectors.shape[1]:
        direction = direction @ vectors
    return direction / np.linalg.norm(direction)


def _smaller_product(vectors: Float64Array) -> Float64Array:
    """Return the products of the vectors or those of the dimensions, whichever are fewer."""
    n_vectors, dim = vectors.shape
    product: Float64Array
    product = vectors @ vectors.T if n_vectors <= dim else vectors.T @ vectors
    return product
