"""Principal components, k-means and silhouettes."""

from __future__ import annotations

import numpy as np
import pytest

from elmo_cli.plot.plane import cluster, principal_components, unit_vectors


def test_unit_vectors() -> None:
    vectors = np.array([[3, 4], [0, 0]], np.float32)
    np.testing.assert_allclose(unit_vectors(vectors), [[0.6, 0.8], [0, 0]])


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (3, 1), (9, 4), (4, 9), (60, 55)])
def test_principal_components(shape: tuple[int, int]) -> None:
    """Their variances are the eigenvalues of the covariance; no more than the data has."""
    vectors = np.random.default_rng(1).normal(size=shape)
    points, fractions = principal_components(vectors)
    n_components = max(2, min(50, *shape))
    assert points.shape == (len(vectors), n_components)
    covariance = np.atleast_2d(np.cov(vectors.T, bias=True))
    variances = np.linalg.eigvalsh(covariance)[::-1]  # descending
    expected = np.pad(variances, (0, 10))[:n_components]
    np.testing.assert_allclose((points**2).mean(0), expected, atol=1e-12)
    total = max(variances.sum(), 1e-300)
    np.testing.assert_allclose(fractions, expected / total, atol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3), (3, 1), (9, 4), (4, 9), (60, 55)])
def test_signs_of_principal_components(shape: tuple[int, int]) -> None:
    """The greatest loading of each is positive; one without variance has no sign."""
    vectors = np.random.default_rng(1).normal(size=shape)
    points, fractions = principal_components(vectors)
    has_variance = fractions > 1e-12
    assert has_variance.any()
    loadings = vectors.T @ points[:, has_variance]  # (dim, component)
    np.testing.assert_array_equal(np.abs(loadings).max(0), loadings.max(0))


@pytest.mark.parametrize("n_vectors", [1, 4])
def test_equal_vectors_have_no_variance(n_vectors: int) -> None:
    points, fractions = principal_components(np.full((n_vectors, 3), 0.1))
    np.testing.assert_array_equal(points, np.zeros((n_vectors, max(2, min(3, n_vectors)))))
    np.testing.assert_array_equal(fractions, np.zeros(len(fractions)))


@pytest.mark.parametrize("n_clusters", [None, 3])
def test_separate_groups_are_clusters(n_clusters: int | None) -> None:
    """The largest one is the first."""
    sizes = (5, 9, 7)
    centers = ((0, 0, 9), (9, 0, 0), (0, 9, 0))
    groups = [
        np.random.default_rng(size).normal(center, 0.5, (size, 3))
        for size, center in zip(sizes, centers, strict=True)
    ]
    assert cluster(np.concatenate(groups), n_clusters) == [2] * 5 + [0] * 9 + [1] * 7


@pytest.mark.parametrize(
    ("points", "n_clusters", "expected"),
    [
        ([1.0], None, [0]),
        ([1.0, 2.0], None, [0, 0]),
        ([2.0, 2.0, 2.0, 2.0], None, [0, 0, 0, 0]),
        ([2.0, 2.0, 2.0, 2.0], 3, [0, 0, 0, 0]),
        ([0.0, 0.1, 9.0], None, [0, 0, 1]),
        ([0.0, 0.1, 9.0], 1, [0, 0, 0]),
        ([0.0, 9.0, 9.0], 5, [1, 0, 0]),
        ([1.0, 9.0, 5.0, 5.0, 1.0, 9.0, 7.0], 4, [0, 1, 2, 2, 0, 1, 3]),
        ([9.0, 5.0, 1.0, 1.0, 5.0, 9.0, 7.0], 4, [0, 1, 2, 2, 1, 0, 3]),
    ],
)
def test_clusters_of_few_points(
    points: list[float], n_clusters: int | None, expected: list[int]
) -> None:
    """There are at most as many clusters as distinct points; equal ones are in order."""
    assert cluster(np.array(points)[:, np.newaxis], n_clusters) == expected
