"""Principal components, k-means and silhouettes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from elmo_cli.plot.plane import cluster, principal_components, unit_vectors


def test_unit_vectors() -> None:
    given = np.array([[3, 4], [0, 0]], np.float32)
    np.testing.assert_allclose(unit_vectors(given), [[0.6, 0.8], [0, 0]])


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (3, 1), (9, 4), (4, 9), (60, 55)])
def test_principal_components(shape: tuple[int, int]) -> None:
    given = np.random.default_rng(1).normal(size=shape)
    points, fractions = principal_components(given)
    values = np.linalg.eigvalsh(np.atleast_2d(np.cov(given.T, bias=True)))[::-1]
    n_components = max(2, min(50, *shape))
    expected = np.pad(values, (0, 10))[:n_components]
    np.testing.assert_allclose((points**2).mean(0), expected, atol=1e-12)
    np.testing.assert_allclose(fractions, expected / max(values.sum(), 1e-300), atol=1e-12)
    for direction in (given.T @ points)[:, : min(2, *shape)].T:
        assert abs(direction).max() in (direction.max(), 0)


BLOBS = [(n, np.eye(3)[axis] * 9) for n, axis in ((5, 2), (9, 0), (7, 1))]
SEPARATE = np.concatenate(
    [np.random.default_rng(n).normal(center, 0.5, (n, 3)) for n, center in BLOBS]
)


@pytest.mark.parametrize(
    ("points", "n_clusters", "expected"),
    [
        *((SEPARATE, n_clusters, [2] * 5 + [0] * 9 + [1] * 7) for n_clusters in (None, 3)),
        *(([[1.0]], None, [0]), ([[1.0], [2]], None, [0, 0])),
        *(([[2.0]] * 4, None, [0] * 4), ([[2.0]] * 4, 3, [0] * 4)),
        *(([[0.0], [0.1], [9]], None, [0, 0, 1]), ([[0.0], [0.1], [9]], 1, [0, 0, 0])),
        ([[0.0], [9], [9]], 5, [1, 0, 0]),
    ],
)
def test_clusters(points: Any, n_clusters: int | None, expected: list[int]) -> None:
    """Separate groups are found; the largest one is the first."""
    assert cluster(np.array(points), n_clusters) == expected
