"""OutputReduction: which layers, in which dtype, one vector per token or per sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.output_reduction import OutputReduction
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import OutputError, UsageError
from elmo_cli.model.bilm import BiLM
from elmo_cli.text.sentence import Sentence

MIX = "mix:0.2,0.3,-0.5"


# What each selection must give, from layers (layer, token, dim).


def all_layers(x: Tensor) -> Tensor:
    return x


def top_layer(x: Tensor) -> Tensor:
    return x[2]


def layers_2_and_0(x: Tensor) -> Tensor:
    return x[[2, 0]]


def weighted_sum(x: Tensor) -> Tensor:
    return 0.2 * x[0] + 0.3 * x[1] - 0.5 * x[2]


def layer_1(x: Tensor) -> Tensor:
    return x[1]


def means_of_tokens(x: Tensor) -> Tensor:
    return x.mean(1)


def maxima_of_tokens(x: Tensor) -> Tensor:
    return x.amax(1)


def mean_of_tokens_of_the_top_layer(x: Tensor) -> Tensor:
    return x[2].mean(0)


def maxima_of_tokens_of_layers_0_and_2(x: Tensor) -> Tensor:
    return x[[0, 2]].amax(1)


def mean_of_layers(x: Tensor) -> Tensor:
    return x.mean(0)


# Selection, other settings, expected values.
VALUES: list[tuple[str, dict[str, object], Callable[[Tensor], Tensor]]] = [
    ("all", {}, all_layers),
    ("top", {}, top_layer),
    ("2,0", {}, layers_2_and_0),
    (MIX, {}, weighted_sum),
    ("1", {"drop_layer_axis": True}, layer_1),
    ("all", {"pool": "mean"}, means_of_tokens),
    ("all", {"pool": "max"}, maxima_of_tokens),
    ("top", {"pool": "mean"}, mean_of_tokens_of_the_top_layer),
    ("0,2", {"pool": "max"}, maxima_of_tokens_of_layers_0_and_2),
    ("average", {"dtype": "int8"}, mean_of_layers),
]


def reduced(name: str, layers: Tensor, **settings: object) -> np.ndarray:
    output = reduction(name, len(layers), **settings)
    return output.to_array(output.select(layers))


def reduction(name: str, n_layers: int = 3, **settings: object) -> OutputReduction:
    return OutputReduction.of(EmbedderSettings(layers=name, **settings), n_layers)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "settings", "expected"), VALUES)
def test_values_and_half_precision(
    name: str,
    settings: dict[str, object],
    expected: Callable[[Tensor], Tensor],
    seed: int,
) -> None:
    """float16 is the rounded float32: sums are not computed in half precision."""
    layers = torch.randn(3, 5, 4)
    array = reduced(name, layers, **settings)
    assert array.dtype == np.float32
    assert array.shape == expected(layers).shape
    np.testing.assert_allclose(array, expected(layers), rtol=0, atol=1e-6)
    if "dtype" not in settings:
        half = reduced(name, layers, dtype="float16", **settings)
        np.testing.assert_array_equal(half, array.astype(np.float16))


@pytest.mark.parametrize(("name", "settings", "expected"), VALUES)
def test_a_sentence_without_tokens(
    name: str,
    settings: dict[str, object],
    expected: Callable[[Tensor], Tensor],
    seed: int,
) -> None:
    """It has no token vectors, and a pooled vector of zeros."""
    layers = torch.randn(3, 5, 4)
    shape = expected(layers).shape
    empty = reduced(name, layers[:, :0], **settings)
    assert empty.shape == (shape if "pool" in settings else (*shape[:-2], 0, 4))
    assert not empty.any()


def test_a_model_of_one_lstm_layer() -> None:
    layers = torch.randn(2, 4, 6)
    np.testing.assert_array_equal(reduced("top", layers), layers[1])
    with pytest.raises(UsageError, match="the model has layers 0, 1"):
        reduction("2", n_layers=2)


@pytest.mark.parametrize(
    ("name", "top_layer"), [("all", 2), ("top", 2), ("1,0", 1), ("0", 0), (MIX, None)]
)
def test_the_highest_layer_that_is_needed(name: str, top_layer: int | None) -> None:
    assert reduction(name).top_layer == top_layer


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("float16", 65504.0, True),
        ("float16", 65600.0, False),
        ("float32", math.inf, False),
        ("float32", -math.inf, False),
        ("float32", math.nan, False),
        ("float32", -3e38, True),
        ("float16", -65600.0, False),
    ],
)
def test_values_that_do_not_fit(dtype: str, value: float, fits: bool) -> None:
    output = reduction("all", dtype=dtype)
    values = torch.zeros(3, 2, 2)
    assert output.fits(values[:, :0])
    values[1, 1, 1] = value
    assert output.fits(values) is fits
    error = output.error(values, "a.txt, line 1", "m")
    assert isinstance(error, OutputError)
    assert error.message.startswith("a.txt, line 1: ")


def test_a_value_that_does_not_fit_names_its_sentence(
    tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has its sentences from long to short, not in the order of the text."""
    sentences = [
        Sentence(("a",) * n_tokens, key, source="a.txt", line=key + 1)
        for key, n_tokens in enumerate((1, 3, 2))
    ]
    embedder = Embedder(tiny_bilm, device="cpu", dtype="float16")
    forward = embedder.engine.forward

    def overflowing(*args: Any, **named: Any) -> Any:
        layers, final = forward(*args, **named)
        layers = layers.clone()
        layers[:, -1] = 1e6  # of the shortest sentence, which is the last of the batch
        return layers, final

    monkeypatch.setattr(embedder.engine, "forward", overflowing)
    with pytest.raises(OutputError) as caught:
        embedder.embed_block(sentences, None)
    assert caught.value.where == "a.txt, line 1"
    vectors = embedder.engine.embed_types(["a", "b", "c"]).clone()
    vectors[1, 0] = 1e6
    monkeypatch.setattr(embedder.engine, "embed_types", lambda types: vectors)
    with pytest.raises(OutputError, match=r"^the type `b`: the model .* computes 1e\+06"):
        embedder.embed_types(["a", "b", "c"])
