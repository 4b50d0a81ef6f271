"""Mean cosines, explained variance and CKA of arrays, compared with their formulas."""

from __future__ import annotations

import geometry_oracle as oracle
import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD

from elmo_cli.analysis.cka import CenteredProducts, linear_cka
from elmo_cli.analysis.explained_variance import ExplainedVariance, explained_variance
from elmo_cli.analysis.mean_cosines import mean_cosine_with_mean, mean_pairwise_cosine

SHAPES = [(2, 5), (5, 30), (30, 30), (60, 9)]  # fewer vectors than dimensions, and more
EQUAL = np.tile(np.float32([0.1, 0.2, 0.7, -3.3]), (7, 1))


def drawn(shape: tuple[int, int], mean: float = 0.7) -> np.ndarray:
    """Vectors with a mean, and with dimensions of different variances."""
    rng = np.random.default_rng(list(shape))
    scales = np.linspace(0.2, 2, shape[1])
    return (rng.standard_normal(shape) * scales + mean).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
def test_mean_cosines_are_those_of_all_pairs(shape):
    vectors = drawn(shape)
    exact = vectors.astype(np.float64)
    assert mean_pairwise_cosine(vectors) == pytest.approx(oracle.pairwise(exact), abs=1e-9)
    assert mean_cosine_with_mean(vectors) == pytest.approx(oracle.with_mean(exact), abs=1e-9)


def test_zero_vectors_have_no_cosine():
    vectors = drawn((6, 5))
    with_zeros = np.insert(vectors, [0, 3], 0, axis=0)
    assert mean_pairwise_cosine(with_zeros) == pytest.approx(mean_pairwise_cosine(vectors))
    assert mean_cosine_with_mean(with_zeros) == pytest.approx(mean_cosine_with_mean(vectors))


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_vectors_have_no_value(n):
    vectors = np.insert(drawn((n, 5)), 0, 0, axis=0)
    assert mean_pairwise_cosine(vectors) is None
    assert explained_variance(vectors[1:]) == ExplainedVariance(None, None, None)


def test_no_cosine_with_a_mean_of_zero():
    vectors = drawn((3, 5))
    assert mean_cosine_with_mean(np.concatenate([vectors, -vectors])) is None
    assert mean_cosine_with_mean(np.zeros((3, 5))) is None


@pytest.mark.parametrize("mean", [0, 0.7, 40])
@pytest.mark.parametrize("shape", SHAPES)
def test_explained_variance_has_three_definitions(shape, mean):
    vectors = drawn(shape, mean)
    exact = vectors.astype(np.float64)
    found = explained_variance(vectors)
    assert found.uncentered == pytest.approx(oracle.uncentered(exact), abs=1e-9)
    assert found.pca == pytest.approx(oracle.pca(exact), abs=1e-9)
    assert found.truncated_svd == pytest.approx(oracle.truncated_svd(exact), abs=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_explained_variance_is_that_of_scikit_learn(shape):
    vectors = drawn(shape).astype(np.float64)
    found = explained_variance(vectors)
    of_pca = PCA(1).fit(vectors).explained_variance_ratio_[0]
    of_svd = TruncatedSVD(1, algorithm="arpack").fit(vectors).explained_variance_ratio_[0]
    assert found.pca == pytest.approx(of_pca, abs=1e-6)
    assert found.truncated_svd == pytest.approx(of_svd, abs=1e-6)


def test_equal_vectors_have_no_variance_to_explain():
    """Even though their mean, and so their difference from it, is rounded."""
    noise = 1 + 1e-7 * np.random.default_rng(0).standard_normal(EQUAL.shape)
    for vectors in (EQUAL, (EQUAL * noise).astype(np.float32)):
        found = explained_variance(vectors)
        assert found.uncentered == pytest.approx(1)
        assert found.pca is None
        assert found.truncated_svd is None
    assert explained_variance(np.zeros((3, 4))) == ExplainedVariance(None, None, None)


@pytest.mark.parametrize("mean", [0, 0.7, 40])
@pytest.mark.parametrize(("n", "dims"), [(40, (6, 9)), (8, (20, 11))])
def test_cka_is_that_of_the_kernels(n, dims, mean):
    first = drawn((n, dims[0]), mean)
    second = drawn((n, dims[1]), mean)
    second[:, :5] += 2 * first[:, :5]
    expected = oracle.cka(first.astype(np.float64), second.astype(np.float64))
    assert linear_cka(first, second) == pytest.approx(expected, abs=1e-9)


def test_cka_ignores_rotation_scale_and_shift():
    vectors = drawn((30, 6)).astype(np.float64)
    rotation, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 6)))
    assert linear_cka(vectors, 3 * vectors @ rotation + 5) == pytest.approx(1)


def test_cka_of_chunks_is_that_of_all_tokens():
    layers = [drawn((50, dim)) for dim in (4, 7, 5)]
    products = CenteredProducts([4, 7, 5])
    for begin in (0, 17, 34):
        products.add([layer[begin : begin + 17] for layer in layers])
    found = products.cka()
    for row, first in enumerate(layers):
        for column, second in enumerate(layers):
            assert found[row][column] == pytest.approx(linear_cka(first, second), abs=1e-9)


def test_a_layer_without_variance_has_no_cka():
    other = drawn((7, 3))
    assert linear_cka(EQUAL, other) is None
    assert linear_cka(other, EQUAL) is None
    assert linear_cka(other, other) == pytest.approx(1)


def test_cka_needs_the_same_tokens():
    with pytest.raises(ValueError, match="7 and 6 vectors"):
        linear_cka(drawn((7, 3)), drawn((6, 3)))
