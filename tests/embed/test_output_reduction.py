"""OutputReduction: which layers, in which dtype, one vector per token or per sentence."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from elmo_cli.embed.output_reduction import OutputReduction
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import OutputError, UsageError

MIX = "mix:0.2,0.3,-0.5"
# Selection, other settings, expected values of layers (layer, token, dim).
VALUES: list[tuple[str, dict[str, object], Callable[[Tensor], Tensor]]] = [
    ("all", {}, lambda x: x),
    ("top", {}, lambda x: x[2]),
    ("2,0", {}, lambda x: x[[2, 0]]),
    (MIX, {}, lambda x: 0.2 * x[0] + 0.3 * x[1] - 0.5 * x[2]),
    ("1", {"drop_layer_axis": True}, lambda x: x[1]),
    ("all", {"pool": "mean"}, lambda x: x.mean(1)),
    ("all", {"pool": "max"}, lambda x: x.amax(1)),
    ("top", {"pool": "mean"}, lambda x: x[2].mean(0)),
    ("0,2", {"pool": "max"}, lambda x: x[[0, 2]].amax(1)),
    ("average", {"dtype": "int8"}, lambda x: x.mean(0)),
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
    found = reduced(name, layers, **settings)
    assert (found.dtype, found.shape) == (np.float32, expected(layers).shape)
    np.testing.assert_allclose(found, expected(layers), rtol=0, atol=1e-6)
    if "dtype" not in settings:
        half = reduced(name, layers, dtype="float16", **settings)
        np.testing.assert_array_equal(half, found.astype(np.float16))
    empty = reduced(name, layers[:, :0], **settings)
    wanted = found.shape if "pool" in settings else (*found.shape[:-2], 0, 4)
    assert (empty.shape, empty.any()) == (wanted, False)


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
        *(("float16", value, fits) for value, fits in ((65504.0, True), (65600.0, False))),
        *(("float32", value, False) for value in (float("inf"), -float("inf"), float("nan"))),
        ("float32", -3e38, True),
        ("float16", -65600.0, False),
    ],
)
def test_values_that_do_not_fit(dtype: str, value: float, fits: bool) -> None:
    output, values = reduction("all", dtype=dtype), torch.zeros(3, 2, 2)
    assert output.fits(values[:, :0])
    values[1, 1, 1] = value
    assert output.fits(values) is fits
    error = output.error(values, "a.txt, line 1", "m")
    assert isinstance(error, OutputError)
    assert error.message.startswith("a.txt, line 1: ")
