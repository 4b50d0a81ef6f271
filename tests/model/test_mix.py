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


def mix_of(weights: list[float], gamma: float, **settings: Any) -> ElmoMix:
    mix = ElmoMix(len(weights), **settings)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor(weights))
        mix.gamma.fill_(gamma)
    return mix


def close(actual: torch.Tensor, expected: Any, atol: float = 1e-6) -> None:
    np.testing.assert_allclose(actual.detach(), expected, rtol=0, atol=atol)


@pytest.mark.parametrize("weights", [[0.2, -1.0, 0.7], [7.0]])
def test_equation_1(weights: list[float]) -> None:
    """gamma * sum of softmax(w)_j h_j; `spec` gives the same for `--layers`."""
    layers = torch.randn(len(weights), 5, 4)
    mix = mix_of(weights, 1.5)
    softmax = np.exp(weights) / np.exp(weights).sum()
    close(mix(layers), 1.5 * np.tensordot(softmax, layers.numpy(), 1))
    if len(weights) == 3:
        selection = LayerSelection.parse(mix.spec(), (0, 1, 2), 3)
        close(mix(layers), selection.apply(layers))
    with pytest.raises(UsageError, match="layer_norm"):
        mix_of(weights, 1.5, layer_norm=True).spec()


def test_a_task_learns_the_mix_from_the_average() -> None:
    layers = torch.randn(3, 5, 4)
    mix = ElmoMix(3)
    mixed = mix(layers)
    close(mixed, layers.mean(0))
    mixed.square().sum().backward()
    for parameter in (mix.weights, mix.gamma):
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 0


@pytest.mark.parametrize("layer_norm", [False, True])
def test_layers_of_any_dtype_are_mixed_in_that_of_the_weights(layer_norm: bool) -> None:
    """Sums of float16 overflow; autocast does not mix in half precision."""
    layers = (100 * torch.randn(3, 5, 4)).half()
    mix = ElmoMix(3, layer_norm=layer_norm)
    expected = mix(layers.float())
    assert torch.equal(mix(layers), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(mix(layers), expected)
    assert mix.double()(layers).dtype == torch.float64


def test_layer_norm_with_a_mask_is_the_masked_formula() -> None:
    """As in bilm-tf: mean and variance of the real tokens; padding changes nothing."""
    layers = 3 * torch.randn(2, 2, 4, 5) + 1
    mask = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])
    mix = mix_of([0.5, -0.5], 2.0, layer_norm=True)
    kept = mask.numpy()[None, :, :, None]
    count = kept.sum() * 5
    x = layers.numpy().astype(np.float64)
    mean = (x * kept).sum((1, 2, 3), keepdims=True) / count
    variance = (((x - mean) * kept) ** 2).sum((1, 2, 3), keepdims=True) / count
    softmax = np.exp([0.5, -0.5]) / np.exp([0.5, -0.5]).sum()
    normalized = (x - mean) / np.sqrt(variance + 1e-12)
    close(mix(layers, mask), 2 * np.tensordot(softmax, normalized, 1), 1e-5)
    close(mix(layers[:, 0], mask[0])[:3], mix(layers[:, 0, :3]).detach(), 1e-5)


def test_layer_norm_without_tokens() -> None:
    """Sentences without tokens give no NaN, neither in values nor in gradients."""
    mix = ElmoMix(3, layer_norm=True)
    mixed = mix(torch.zeros(3, 2, 4, 6), torch.zeros(2, 4))
    mixed.sum().backward()
    assert mixed.shape == (2, 4, 6)
    assert mixed.isfinite().all()
    for parameter in mix.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
    assert mix(torch.zeros(3, 0, 6)).shape == (0, 6)


def test_penalty_is_lambda_times_the_squared_norm() -> None:
    """Section 3.2 of the paper."""
    mix = mix_of([1.0, -2.0, 0.5], 1.0, l2=0.1)
    penalty = mix.penalty()
    assert penalty.item() == pytest.approx(0.1 * 5.25)
    penalty.backward()
    assert mix.weights.grad is not None
    close(mix.weights.grad, [0.2, -0.4, 0.1])
    assert ElmoMix(3).penalty().item() == 0


def test_dropout_only_in_training() -> None:
    layers = torch.ones(3, 200, 10)
    mix = ElmoMix(3, dropout=0.5)
    dropped = mix(layers)
    assert 0.4 < (dropped == 0).float().mean() < 0.6
    assert dropped.max().item() == pytest.approx(2.0)
    mix.eval()
    close(mix(layers), torch.ones(200, 10))


def test_shapes_lists_and_arrays() -> None:
    """A list of layers is what AllenNLP's ScalarMix takes; a file gives arrays."""
    layers = torch.randn(3, 2, 4, 6)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]])
    mix = ElmoMix(3, layer_norm=True)
    batch_first = ElmoMix(3, layer_norm=True, batch_first=True)
    expected = mix(layers, mask.bool())
    for same_layers in (layers.numpy(), list(layers), [layer.numpy() for layer in layers]):
        assert torch.equal(mix(same_layers, mask.numpy()), expected)
    assert torch.equal(mix(layers, mask.float()), expected)
    assert torch.equal(batch_first(layers.transpose(0, 1), mask), expected)
    assert torch.equal(batch_first(list(layers), mask), expected)
    (alone,) = mix(layers[:, :1])
    for sentence_mix in (mix, batch_first):
        assert sentence_mix(layers[:, 0]).shape == (4, 6)
        close(sentence_mix(layers[:, 0]), alone.detach())


LAYERS = torch.randn(3, 2, 4, 6)


@pytest.mark.parametrize(
    ("layers", "mask", "problem"),
    [
        (torch.randn(5, 3, 4), None, "axis 0 (layer) of shape (5, 3, 4) has size 5"),
        (LAYERS.transpose(0, 1), None, "axis 0 (layer)"),
        (list(LAYERS)[:2], None, "axis 0 (layer)"),
        (LAYERS[:, 0, 0], None, "2 axes"),
        (LAYERS[None], None, "5 axes"),
        (LAYERS.long(), None, "dtype int64"),
        (LAYERS + 0j, None, "dtype complex64"),
        (LAYERS, torch.ones(2, 3), "a mask of shape (2, 3) for tokens of shape (2, 4)"),
        (LAYERS, torch.full((2, 4), 0.5), "other than 0 and 1"),
        (LAYERS, torch.full((2, 4), float("nan")), "other than 0 and 1"),
    ],
)
def test_wrong_layers_and_masks(layers: Any, mask: Any, problem: str) -> None:
    with pytest.raises(UsageError, match=re.escape(problem)):
        ElmoMix(3)(layers, mask)


@pytest.mark.parametrize(
    ("layers", "mask"),
    [
        (np.array([["a"]]), None),
        ([LAYERS[0], LAYERS[1, :1]], None),
        (LAYERS, "mask"),
    ],
    ids=["strings", "layers of other shapes", "a string as mask"],
)
def test_torch_refuses_what_is_no_tensor(layers: Any, mask: Any) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        ElmoMix(3)(layers, mask)


@pytest.mark.parametrize("n_layers", ["3", -1, 0, True, 3.0, None])
def test_a_number_of_layers_that_is_none(n_layers: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f"`n_layers={n_layers!r}`: not a positive")):
        ElmoMix(n_layers)
