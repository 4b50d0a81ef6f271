"""ElmoMix: equation (1) of the paper."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from elmo_cli.errors import UsageError
from elmo_cli.model.mix import ElmoMix
from elmo_cli.store.layers import LayerSelection

pytestmark = pytest.mark.usefixtures("seed")


def set_weights(mix: ElmoMix, weights: list[float], gamma: float) -> None:
    with torch.no_grad():
        mix.weights.copy_(torch.tensor(weights))
        mix.gamma.fill_(gamma)


def test_equation_1() -> None:
    """gamma * sum of softmax(w)_j h_j."""
    layers = torch.randn(3, 5, 4)
    mix = ElmoMix(3)
    set_weights(mix, [0.2, -1.0, 0.7], 1.5)
    shares = np.exp([0.2, -1.0, 0.7]) / np.exp([0.2, -1.0, 0.7]).sum()
    expected = 1.5 * sum(s * h for s, h in zip(shares, layers.numpy(), strict=True))
    np.testing.assert_allclose(mix(layers).detach(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_layers_of_a_float16_file(layer_norm: bool) -> None:
    """They are mixed in the dtype of the weights, in which sums do not overflow."""
    layers = (100 * torch.randn(3, 5, 4)).half()
    mix = ElmoMix(3, layer_norm=layer_norm)
    mixed = mix(layers)
    assert mixed.dtype == torch.float32
    np.testing.assert_array_equal(mixed.detach(), mix(layers.float()).detach())


def test_it_begins_as_the_average() -> None:
    """Before training all layers have the same weight."""
    layers = torch.randn(3, 5, 4)
    np.testing.assert_allclose(ElmoMix(3)(layers).detach(), layers.mean(0), rtol=0, atol=1e-6)


@pytest.mark.parametrize("layer_norm", [False, True])
def test_a_batch_is_its_sentences(layer_norm: bool) -> None:
    """(layer, token, dim) and (layer, batch, token, dim) give the same vectors."""
    layers = torch.randn(3, 5, 4)
    mix = ElmoMix(3, layer_norm=layer_norm)
    set_weights(mix, [0.3, 0.1, -0.4], 0.8)
    assert mix(layers).shape == (5, 4)
    batch = mix(layers.unsqueeze(1))
    assert batch.shape == (1, 5, 4)
    np.testing.assert_allclose(batch[0].detach(), mix(layers).detach(), rtol=0, atol=1e-6)


def test_gradients_reach_weights_and_gamma() -> None:
    """A task can learn the mix."""
    mix = ElmoMix(3)
    mix(torch.randn(3, 5, 4)).square().sum().backward()
    assert mix.weights.grad is not None
    assert mix.weights.grad.abs().max() > 0
    assert mix.gamma.grad is not None
    assert mix.gamma.grad != 0


def test_layer_norm_with_a_mask_is_the_masked_formula() -> None:
    """As in bilm-tf: mean and variance of the real tokens."""
    layers = 3 * torch.randn(2, 2, 4, 5) + 1
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])
    mix = ElmoMix(2, layer_norm=True)
    set_weights(mix, [0.5, -0.5], 2.0)
    kept = mask.numpy()[None, :, :, None]
    count = kept.sum() * 5
    x = layers.numpy().astype(np.float64)
    mean = (x * kept).sum((1, 2, 3), keepdims=True) / count
    variance = (((x - mean) * kept) ** 2).sum((1, 2, 3), keepdims=True) / count
    shares = np.exp([0.5, -0.5]) / np.exp([0.5, -0.5]).sum()
    normalised = (x - mean) / np.sqrt(variance + 1e-12)
    expected = 2 * np.tensordot(shares, normalised, 1)
    np.testing.assert_allclose(mix(layers, mask).detach(), expected, rtol=0, atol=1e-5)


def test_padding_moves_nothing_under_a_mask() -> None:
    """The mix of a sentence does not depend on the padding of its batch."""
    layers = torch.randn(3, 4, 5)
    padded = torch.cat([layers, 100 * torch.randn(3, 2, 5)], 1)
    mix = ElmoMix(3, layer_norm=True)
    mask = torch.tensor([True] * 4 + [False] * 2)
    np.testing.assert_allclose(mix(padded, mask)[:4].detach(), mix(layers).detach(), atol=1e-5)


def test_penalty_is_lambda_times_the_squared_norm() -> None:
    """Section 3.2 of the paper."""
    mix = ElmoMix(3, l2=0.1)
    set_weights(mix, [1.0, -2.0, 0.5], 1.0)
    penalty = mix.penalty()
    assert penalty.item() == pytest.approx(0.1 * 5.25)
    penalty.backward()
    assert mix.weights.grad is not None
    np.testing.assert_allclose(mix.weights.grad, [0.2, -0.4, 0.1], atol=1e-6)
    assert ElmoMix(3).penalty().item() == 0


def test_dropout_only_in_training() -> None:
    """`eval` turns it off."""
    layers, mix = torch.ones(3, 200, 10), ElmoMix(3, dropout=0.5)
    dropped = mix(layers)
    assert 0.4 < (dropped == 0).float().mean() < 0.6
    assert dropped.max().item() == pytest.approx(2.0)
    mix.eval()
    np.testing.assert_allclose(mix(layers).detach(), torch.ones(200, 10), atol=1e-6)


def test_one_layer_is_scaled_by_gamma_alone() -> None:
    """A file with one layer can be used with a mix."""
    mix = ElmoMix(1)
    set_weights(mix, [7.0], 0.5)
    layers = torch.randn(1, 3, 4)
    np.testing.assert_allclose(mix(layers).detach(), 0.5 * layers[0], atol=1e-7)


def test_layer_norm_without_tokens() -> None:
    """Sentences without tokens give no NaN, neither in values nor in gradients."""
    mix = ElmoMix(3, layer_norm=True)
    mixed = mix(torch.zeros(3, 2, 4, 6), torch.zeros(2, 4))
    mixed.sum().backward()
    assert mixed.isfinite().all()
    for parameter in mix.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    assert mix(torch.zeros(3, 0, 6)).shape == (0, 6)


def test_lists_and_arrays() -> None:
    """A list of layers is what AllenNLP's ScalarMix takes; a file gives arrays."""
    layers = torch.randn(3, 2, 4, 6)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    mix = ElmoMix(3, layer_norm=True)
    expected = mix(layers, mask.bool()).detach()
    for given in (layers.numpy(), list(layers), [layer.numpy() for layer in layers]):
        np.testing.assert_array_equal(mix(given, mask.numpy()).detach(), expected)
    np.testing.assert_array_equal(mix(layers, mask.float()).detach(), expected)
    batch_first = ElmoMix(3, layer_norm=True, batch_first=True)
    np.testing.assert_array_equal(batch_first(layers.transpose(0, 1), mask).detach(), expected)
    np.testing.assert_array_equal(batch_first(list(layers), mask).detach(), expected)
    assert batch_first(layers[:, 0]).shape == (4, 6)


def test_the_dtype_is_that_of_the_weights() -> None:
    """Autocast does not mix in half precision, and a mix in float64 computes in it."""
    layers, mix = torch.randn(3, 4, 6), ElmoMix(3)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mix(layers), ElmoMix(3)(layers))
    assert mix.double()(layers).dtype == torch.float64


def test_spec_gives_the_same_mix() -> None:
    layers, mix = torch.randn(3, 5, 4), ElmoMix(3)
    set_weights(mix, [0.2, -1.0, 0.7], 1.5)
    selection = LayerSelection.parse(mix.spec(), (0, 1, 2), 3)
    np.testing.assert_allclose(selection.apply(layers), mix(layers).detach(), rtol=0, atol=1e-6)
    with pytest.raises(UsageError, match="layer_norm"):
        ElmoMix(3, layer_norm=True).spec()


@pytest.mark.parametrize("n_layers", [0, -1, "3", 2.0, True, None])
def test_numbers_of_layers_that_are_none(n_layers: Any) -> None:
    with pytest.raises(UsageError, match="`n_layers` is"):
        ElmoMix(n_layers)


LAYERS = torch.randn(3, 2, 4, 6)


@pytest.mark.parametrize(
    ("layers", "mask", "what"),
    [
        (torch.randn(5, 3, 4), None, "axis 0 (layer) of shape (5, 3, 4) has size 5"),
        (LAYERS.transpose(0, 1), None, "axis 0 (layer)"),
        (list(LAYERS)[:2], None, "axis 0 (layer)"),
        (LAYERS[:, 0, 0], None, "2 axes"),
        (LAYERS[None], None, "5 axes"),
        (LAYERS.long(), None, "dtype int64"),
        (LAYERS > 0, None, "dtype bool"),
        (LAYERS + 0j, None, "dtype complex64"),
        (np.array([["a"]]), None, "no tensor"),
        ([LAYERS[0], LAYERS[1, :1]], None, "no tensor"),
        (LAYERS, torch.ones(2, 3), "a mask of shape (2, 3) for tokens of shape (2, 4)"),
        (LAYERS, torch.full((2, 4), 0.5), "other than 0 and 1"),
        (LAYERS, torch.full((2, 4), 2), "other than 0 and 1"),
        (LAYERS, torch.full((2, 4), float("nan")), "other than 0 and 1"),
        (LAYERS, "mask", "no tensor"),
    ],
)
def test_wrong_layers_and_masks(layers: Any, mask: Any, what: str) -> None:
    with pytest.raises(UsageError, match=re.escape(what)):
        ElmoMix(3)(layers, mask)
