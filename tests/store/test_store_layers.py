"""LayerSelection: the selection of layers that `embed` and `convert` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from elmo_cli.errors import UsageError
from elmo_cli.store.layers import LayerSelection

# (layer, token, dim)
VALUES = np.random.default_rng(0).standard_normal((3, 5, 4)).astype(np.float32)
F = np.float32

SELECTIONS: list[tuple[str, dict[str, Any], str, int, np.ndarray]] = [
    ("all", {}, "all", 3, VALUES),
    (" top ", {}, "top", 1, VALUES[2]),
    ("average", {}, "average", 1, VALUES.mean(0)),
    ("sum", {}, "sum", 1, VALUES[0] + VALUES[1] + VALUES[2]),
    ("1", {}, "1", 1, VALUES[1:2]),
    ("1", {"drop_axis": True}, "1", 1, VALUES[1]),
    ("0,1", {"drop_axis": True}, "0,1", 2, VALUES[:2]),
    (" 2, 00", {}, "2,0", 2, VALUES[[2, 0]]),
    ("mix:1,-0.5,2", {}, "mix:1,-0.5,2", 1, VALUES[0] - F(0.5) * VALUES[1] + 2 * VALUES[2]),
    ("mix:0,0,-1", {}, "mix:0,0,-1", 1, -VALUES[2]),
    ("mix: 0,1,3,0.5", {}, "mix:0,1,3,0.5", 1, F(0.5) * VALUES[1] + F(1.5) * VALUES[2]),
]


@pytest.mark.parametrize(("text", "options", "name", "n_kept", "expected"), SELECTIONS)
def test_numpy_and_torch_select_the_same_values(
    text: str, options: dict[str, Any], name: str, n_kept: int, expected: np.ndarray
) -> None:
    """A converted file would differ from one that was embedded with these layers."""
    selection = LayerSelection.parse(text, range(3), 3, **options)
    assert (selection.name, selection.n_kept) == (name, n_kept)
    values = selection.apply(VALUES)
    assert (values.dtype, values.shape) == (np.float32, expected.shape)
    np.testing.assert_allclose(values, expected, rtol=1e-6, atol=1e-6)
    by_torch = selection.apply(torch.from_numpy(VALUES)).numpy()
    if name != "average":  # NumPy divides a sum, torch may multiply it
        np.testing.assert_array_equal(by_torch, values)
    np.testing.assert_allclose(by_torch, values, rtol=1e-6, atol=1e-7)


def test_a_sum_is_a_mix_with_weights_of_1() -> None:
    """SeqVec adds the layers; an average would be a third of its vectors."""
    total = LayerSelection.parse("sum", range(3), 3)
    mix = LayerSelection.parse("mix:1,1,1", range(3), 3)
    np.testing.assert_array_equal(total.apply(VALUES), mix.apply(VALUES))


def test_numbers_are_those_of_the_model() -> None:
    """In a file of layers 0 and 2 layer 2 is the second one."""
    selection = LayerSelection.parse("2", (0, 2), None)
    np.testing.assert_array_equal(selection.apply(VALUES[[0, 2]]), VALUES[2:])
    assert LayerSelection.parse("top", range(2), 2).indices == (1,)
    assert LayerSelection.parse("11,2", range(12), 12).indices == (11, 2)
    for available, expected in (((2,), VALUES[2]), ((0, 2), VALUES[[0, 2]])):
        selection = LayerSelection.parse("all", available, None, drop_axis=True)
        values = selection.apply(VALUES[list(available)])
        np.testing.assert_array_equal(values, expected, strict=True)


REFUSED = (
    "bottom",
    "",
    "-1",
    "0,,2",
    "1.5",
    "1" * 5000,
    "3",
    "0,9",
    "1,1",
    "mix:",
    "mix:a,b,c",
    "mix:1,2",
    "mix:1,2,3,4,5",
    "mix:1,nan,3",
    "mix:1e39,0,0",  # beyond float32
    "mix:1e30,0,0,1e30",
    "mix:0,0,0",  # nothing
    "mix:1,2,3,0",
    "mix:1e-46,0,0",
)
REFUSED_OF_SOME_LAYERS = ("1", "top", "average", "sum", "mix:1,2")


def refused(text: str, available: Sequence[int], n_layers: int | None) -> None:
    with pytest.raises(UsageError) as caught:
        LayerSelection.parse(text, available, n_layers, owner="a.hdf5")
    assert caught.value.message.startswith(f"`layers={text}`: ")
    assert caught.value.hint


@pytest.mark.parametrize("text", REFUSED)
def test_layers_that_a_model_does_not_have_are_refused(text: str) -> None:
    """Other layers would be taken in place of those that were asked for."""
    refused(text, range(3), 3)


@pytest.mark.parametrize("text", REFUSED_OF_SOME_LAYERS)
def test_layers_that_a_file_of_layers_0_and_2_does_not_have_are_refused(text: str) -> None:
    """Other layers would be taken in place of those that were asked for."""
    refused(text, (0, 2), None)


@pytest.mark.parametrize(
    ("text", "available", "problem"),
    [
        ("1", (0, 2), "a.hdf5 has layers 0, 2"),
        ("1", (2,), "a.hdf5 has layer 2"),
        ("top", (0, 2), "a.hdf5 has only layers 0, 2 of its model"),
        ("mix:1,2", range(3), "2 numbers; a.hdf5 needs 3 weights, optionally gamma"),
        ("mix:1", range(3), "1 number; a.hdf5 needs 3 weights, optionally gamma"),
        ("2,1,2", range(3), "a layer is given twice"),
    ],
)
def test_what_is_wrong_is_said(text: str, available: Sequence[int], problem: str) -> None:
    n_layers = 3 if len(available) == 3 else None
    with pytest.raises(UsageError) as caught:
        LayerSelection.parse(text, available, n_layers, owner="a.hdf5")
    assert caught.value.problem == problem
