"""Unit vectors, their principal components, and their clusters, for plots in two dimensions."""

from __future__ import annotations

from collections import Counter

import numpy as np

from elmo_cli.arrays import Float64Array, FloatArray, Int32Array

_MAX_COMPONENTS = 50
_MAX_CLUSTERS = 6  # one per color
_RESTARTS = 10
_TINY = np.finfo(float).tiny


def unit_vectors(vectors: FloatArray) -> Float64Array:
    """Return vectors divided by their lengths, (..., dim) float64; a zero vector stays zero."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return np.asarray(wide / np.maximum(lengths, _TINY), np.float64)


def principal_components(vectors: Float64Array) -> tuple[Float64Array, Float64Array]:
    """Return the first principal components, (vector, 2 to 50), and their fractions of variance.

    There are at least two columns, the second of which may be zero. The same vectors give the same
    signs.
    """
    from sklearn.decomposition import PCA  # imported on use: it takes a second

    n_vectors, dim = vectors.shape
    n_components = max(2, min(_MAX_COMPONENTS, n_vectors, dim))
    points = np.zeros((n_vectors, n_components))
    fractions = np.zeros(n_components)
    if np.ptp(vectors, axis=0).any():  # else all vectors are equal, and nothing varies
        n_found = min(n_components, n_vectors, dim)
        pca = PCA(n_found, svd_solver="full").fit(vectors)
        points[:, :n_found] = pca.transform(vectors)
        fractions[:n_found] = pca.explained_variance_ratio_
    return points, fractions


def cluster(points: Float64Array, n_clusters: int | None = None) -> list[int]:
    """Return the cluster (k-means) of each point, (point, dim), by number.

    The largest cluster is 0; clusters of equal size are in the order of their first points.

    Meant for the few hundred points of a plot: a silhouette takes quadratic time.

    Args:
        n_clusters: number of clusters, at most that of distinct points; by default the one from 2
            to 6 with the highest silhouette.
    """
    n_distinct = len(np.unique(points, axis=0))
    if n_clusters is not None:
        labels = _k_means(points, min(n_clusters, n_distinct))
    elif n_distinct <= 2:
        labels = _k_means(points, 1)
    else:
        labels = _with_highest_silhouette(points, min(_MAX_CLUSTERS, n_distinct - 1))
    largest_first = [label for label, _ in Counter(labels.tolist()).most_common()]
    return [largest_first.index(label) for label in labels.tolist()]


def _with_highest_silhouette(points: Float64Array, max_clusters: int) -> Int32Array:
    from sklearn.metrics import silhouette_score

    candidates = [_k_means(points, n_clusters) for n_clusters in range(2, max_clusters + 1)]
    scores = [silhouette_score(points, labels) for labels in candidates]
    return candidates[int(np.argmax(scores))]


def _k_means(points: Float64Array, n_clusters: int) -> Int32Array:
    from sklearn.cluster import KMeans

    k_means = KMeans(n_clusters, n_init=_RESTARTS, random_state=0)
    labels: Int32Array = k_means.fit_predict(points)
    return labels
