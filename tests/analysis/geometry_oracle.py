"""The measures of `elmo geometry` from their formulas, pair by pair and by SVD, in NumPy alone."""

from __future__ import annotations

import numpy as np


def cosine(first: np.ndarray, second: np.ndarray) -> float:
    return float(first @ second / (np.linalg.norm(first) * np.linalg.norm(second)))


def pairwise(vectors: np.ndarray) -> float:
    """The mean cosine of all pairs i < j."""
    norms = np.sqrt((vectors**2).sum(axis=1))
    cosines = vectors @ vectors.T / np.outer(norms, norms)
    return float(cosines[np.triu_indices(len(vectors), 1)].mean())


def with_mean(vectors: np.ndarray) -> float:
    """The mean cosine of the vectors of a sentence with their mean."""
    mean = np.mean(vectors, axis=0)
    return float(np.mean([cosine(mean, vector) for vector in vectors]))


def uncentered(vectors: np.ndarray) -> float:
    """Ethayarajh 2019, 3.3: the first of the squared singular values, divided by their sum."""
    squares = np.linalg.svd(vectors, compute_uv=False) ** 2
    return float(squares[0] / squares.sum())


def pca(vectors: np.ndarray) -> float:
    return uncentered(vectors - vectors.mean(axis=0))


def truncated_svd(vectors: np.ndarray) -> float:
    """As scikit-learn does: the variance of the projections over the sum of all variances."""
    _, _, directions = np.linalg.svd(vectors)
    projections = vectors @ directions[0]
    return float(np.var(projections) / np.var(vectors, axis=0).sum())


def cka(first: np.ndarray, second: np.ndarray) -> float:
    """Kornblith et al. 2019, 3: HSIC of the linear kernels of the tokens, normalized."""
    n = len(first)
    centering = np.eye(n) - 1 / n
    kernels = [centering @ features @ features.T @ centering for features in (first, second)]
    hsic = np.trace(kernels[0] @ kernels[1])
    own = [np.trace(kernel @ kernel) for kernel in kernels]
    return float(hsic / np.sqrt(own[0] * own[1]))
