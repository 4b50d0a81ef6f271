"""Output: which layers go out, in which type, a vector a token or a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_cli.embed.output import Output
from elmo_cli.errors import UsageError

REFUSED = [
    {"name": "bottom"},
    {"name": "3"},
    {"name": "mix:1,2"},
    {"name": "all", "dtype": "float64"},
    {"name": "all", "pool": "sum"},
    {"name": "all", "pool": ""},
]


@pytest.mark.parametrize("given", REFUSED)
def test_refused(given: dict[str, str]) -> None:
    """Without it a wrong choice would be a traceback, or some other layers."""
    with pytest.raises(UsageError) as caught:
        Output.parse(**given, n_layers=3)
    parameter, value = list(given.items())[-1]
    parameter = "layers" if parameter == "name" else parameter
    assert f"`{parameter}={value}`: " in caught.value.message
    assert caught.value.hint


@pytest.fixture
def layers(seed: int) -> Tensor:
    """(layer 3, token 5, dim 4)."""
    return torch.randn(3, 5, 4)


def stored(name: str, layers: Tensor, **settings: object) -> np.ndarray:
    output = Output.parse(name, n_layers=len(layers), **settings)
    return output.sentence(output.of(layers))


def close(found: np.ndarray, expected: Tensor) -> None:
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_values_of_each_choice(layers: Tensor) -> None:
    """Without it a layer could be taken for another, or the mix be weighted otherwise."""
    close(stored("all", layers), layers)
    close(stored("top", layers), layers[2])
    close(stored("average", layers), layers.mean(0))
    close(stored("1", layers), layers[1:2])
    close(stored("2,0", layers), layers[[2, 0]])
    close(stored("0, 2", layers), layers[[0, 2]])
    close(stored("0,1,2", layers), layers)
    mixed = 0.2 * layers[0] + 0.3 * layers[1] - 0.5 * layers[2]
    close(stored("mix:0.2,0.3,-0.5", layers), mixed)
    close(stored("mix:0.2,0.3,-0.5,2", layers), 2 * mixed)


def test_a_single_layer_may_lose_its_axis(layers: Tensor) -> None:
    """Without it a layout of one layer a file would get an axis that its readers do not know."""
    close(stored("1", layers, bare=True), layers[1])
    close(stored("0,1", layers, bare=True), layers[:2])


def test_two_layers_of_a_model_of_one_lstm_layer() -> None:
    """Without it "top" could be taken for layer 2 of every model."""
    layers = torch.randn(2, 4, 6)
    close(stored("top", layers), layers[1])
    with pytest.raises(UsageError, match="the model has layers 0, 1"):
        Output.parse("2", n_layers=2)


@pytest.mark.parametrize("name", ["all", "top", "average", "0,2", "mix:1,2,3"])
def test_half_precision_is_the_rounded_float32(name: str, layers: Tensor) -> None:
    """Without it the sum over layers would be taken in half precision."""
    half = stored(name, layers, dtype="float16")
    assert half.dtype == np.float16
    np.testing.assert_array_equal(half, stored(name, layers).astype(np.float16))


def test_pool(layers: Tensor) -> None:
    """Without it layers could be pooled together with tokens."""
    close(stored("all", layers, pool="mean"), layers.mean(1))
    close(stored("all", layers, pool="max"), layers.amax(1))
    close(stored("top", layers, pool="mean"), layers[2].mean(0))
    close(stored("0,2", layers, pool="max"), layers[[0, 2]].amax(1))
    half = stored("average", layers, pool="mean", dtype="float16")
    expected = layers.mean(0).mean(0).to(torch.float16)
    np.testing.assert_array_equal(half, expected)


def test_a_mix_that_is_too_large_is_no_fault_of_the_model(layers: Tensor) -> None:
    output = Output.parse("mix:1e38,1,1", n_layers=3)
    refused = output.refusal(output.of(layers * 1e3), "a.txt, line 1", "m")
    assert refused.message.startswith("a.txt, line 1: `layers=mix:1e38,1,1`: ")


@pytest.mark.parametrize(
    ("name", "pool", "shape"),
    [
        ("all", None, (3, 0, 4)),
        ("top", None, (0, 4)),
        ("0,2", None, (2, 0, 4)),
        ("all", "mean", (3, 4)),
        ("all", "max", (3, 4)),
        ("average", "mean", (4,)),
        ("mix:1,2,3", "max", (4,)),
    ],
)
def test_a_sentence_without_tokens(name: str, pool: str | None, shape: tuple[int, ...]) -> None:
    """Without it a blank line would be NaN, or an error of torch's amax."""
    array = stored(name, torch.empty(3, 0, 4), pool=pool)
    assert array.shape == shape
    assert not array.any()


@pytest.mark.parametrize(("name", "n_kept"), [("all", 3), ("top", 1), ("0,2", 2), ("mix:1,1,1", 1)])
def test_vectors_kept_for_a_token(name: str, n_kept: int) -> None:
    """Without it the size estimate would be of another file."""
    assert Output.parse(name, n_layers=3).n_kept == n_kept
