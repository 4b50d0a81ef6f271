"""Unit vectors, their principal components, and their clusters, for plots in two dimensions."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_MOST_COMPONENTS, _MOST_CLUSTERS = 50, 6  # one cluster per color
_RESTARTS, _MAX_ITERATIONS = 10, 50
_TINY = np.finfo(float).tiny


def unit_vectors(vectors: npt.NDArray[np.floating]) -> Array:
    """Return vectors divided by their lengths, (..., dim) float64; a zero vector stays zero."""
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    return np.asarray(wide / np.maximum(lengths, _TINY), np.float64)


def principal_components(vectors: Array) -> tuple[Array, Array]:
    """Return the first principal components, (vector, 2 to 50), and their fractions of variance.

    The largest coefficient of each direction is positive, so that the same vectors give the same
    plot.
    """
    centered = np.pad(vectors - vectors.mean(0), ((0, 1), (0, 0)))  # at least two components
    values, sides = np.linalg.eigh(centered @ centered.T)
    values, sides = values[::-1][:_MOST_COMPONENTS].clip(0), sides[:, ::-1][:, :_MOST_COMPONENTS]
    directions = centered.T @ sides
    signs = np.sign(np.take_along_axis(directions, abs(directions).argmax(0)[None], 0))
    return (sides * np.sqrt(values) * signs)[:-1], values / max((centered**2).sum(), _TINY)


def cluster(points: Array, n_clusters: int | None = None) -> list[int]:
    """Return the cluster (k-means) of each point, (point, dim), by number; 0 is the largest.

    Args:
        n_clusters: number of clusters, at most that of distinct points; by default the one from 2
            to 6 with the highest simplified silhouette (Hruschka et al. 2004).
    """
    different = np.unique(points, axis=0)
    sizes = range(2, min(_MOST_CLUSTERS, len(different) - 1) + 1) or [1]
    if n_clusters is not None:
        sizes = [min(n_clusters, len(different))]
    numbers = max((_k_means(points, different, k) for k in sizes), key=silhouette).argmin(1)
    by_size = np.argsort(-np.bincount(numbers), kind="stable")
    return list(np.argsort(by_size)[numbers].tolist())


def silhouette(distances: Array) -> float:
    """Return the mean simplified silhouette, given distances from centers, (point, cluster)."""
    numbers, nearest = distances.argmin(1), np.sort(distances, 1)[:, :2]
    is_alone = np.bincount(numbers)[numbers] == 1
    ratios = nearest[:, 0] / np.maximum(nearest[:, -1], _TINY)
    return float(np.where(is_alone, 0, 1 - ratios).mean())


def _k_means(points: Array, different: Array, k: int) -> Array:
    """Return distances from the centers, (point, k), in the best of several runs."""
    rng = np.random.default_rng(0)
    starts = [different[rng.choice(len(different), k, replace=False)] for _ in range(_RESTARTS)]
    found = [_run(points, centers) for centers in starts]
    return min(found, key=lambda distances: (distances.min(1) ** 2).sum())


def _run(points: Array, centers: Array) -> Array:
    for _ in range(_MAX_ITERATIONS):
        before, members = centers, np.eye(len(centers))[_distances(points, centers).argmin(1)]
        sizes = members.sum(0)[:, None]  # an empty cluster keeps its center
        centers = np.where(sizes > 0, members.T @ points / np.maximum(sizes, 1), before)
        if np.allclose(before, centers, atol=1e-12):
            break
    return _distances(points, centers)


def _distances(points: Array, centers: Array) -> Array:
    squares = (points**2).sum(1)[:, None] - 2 * points @ centers.T + (centers**2).sum(1)
    return np.asarray(np.sqrt(squares.clip(0)), np.float64)
