"""The softmax layer and the warm state in files of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from make_weights import write_arrays

from elmo_cli.errors import WeightFileError
from elmo_cli.model.options import Options
from elmo_cli.model.softmax import NextToken
from elmo_cli.model.state import State
from elmo_cli.weightfile.read import read_softmax, read_state
from elmo_cli.weightfile.write import write_softmax, write_state

OPTIONS = Options(filters=((1, 4),), projection=3, cell=5, n_layers=2)
H, C = np.zeros((2, 2, 1, 3), "f4"), np.zeros((2, 2, 1, 5), "f4")
W, B = np.zeros((4, 3), "f4"), np.zeros(4, "f4")


def test_a_softmax_comes_back(tmp_path: Path, seed: int) -> None:
    softmax = NextToken(11, 3)
    torch.nn.init.normal_(softmax.bias)
    write_softmax(softmax, tmp_path / "softmax.hdf5")
    again = read_softmax(tmp_path / "softmax.hdf5", n_types=11, projection=3)
    assert torch.equal(again.weight, softmax.weight)
    assert torch.equal(again.bias, softmax.bias)
    with h5py.File(tmp_path / "softmax.hdf5") as file:
        assert file["softmax/W"].shape == (11, 3)
        assert file["softmax/b"].dtype == np.float32


def test_a_softmax_inside_a_weight_file(tmp_path: Path) -> None:
    arrays = {"char_embed": np.zeros((261, 2)), "softmax/W": W, "softmax/b": [0.5] * 4}
    path = write_arrays(tmp_path / "weights.hdf5", arrays)
    assert read_softmax(path, n_types=4, projection=3).bias.tolist() == [0.5] * 4


def test_a_state_comes_back(tmp_path: Path, seed: int) -> None:
    state = State(torch.randn(H.shape), torch.randn(C.shape))
    write_state(state, tmp_path / "state.hdf5")
    again = read_state(tmp_path / "state.hdf5", OPTIONS)
    assert torch.equal(again.h, state.h)
    assert torch.equal(again.c, state.c)


def softmax_of(path: Path) -> object:
    return read_softmax(path, n_types=4, projection=3)


def state_of(path: Path) -> object:
    return read_state(path, OPTIONS)


@pytest.mark.parametrize(
    ("read", "arrays", "said"),
    [
        (softmax_of, {"other": [1.0]}, "no softmax/W and softmax/b in it"),
        (softmax_of, {"softmax/W": W}, "no softmax/W and softmax/b in it"),
        (
            softmax_of,
            {"softmax/W": np.zeros((5, 3)), "softmax/b": np.zeros(5)},
            "softmax/W has shape (5, 3) and softmax/b (5,), vocabulary and options ask for (4, 3)",
        ),
        (
            softmax_of,
            {"softmax/W": W, "softmax/b": np.zeros(3)},
            "softmax/W has shape (4, 3) and softmax/b (3,), vocabulary and options ask for (4, 3)",
        ),
        (softmax_of, {"softmax/W": W * np.nan, "softmax/b": B}, "softmax/W has values that are"),
        (softmax_of, {"softmax/W": W, "softmax/b": B + 1e7}, "softmax/b has a value of 1e+07"),
        (softmax_of, {"softmax/W": W, "softmax/b": np.zeros(4, "S2")}, "softmax/b holds |S2, not"),
        (state_of, {"h": H}, "c is missing, options.json asks for (2, 2, 1, 5)"),
        (state_of, {"h": H, "c": H}, "c is (2, 2, 1, 3), options.json asks for (2, 2, 1, 5)"),
        (state_of, {"h": H[:1], "c": C}, "h is (1, 2, 1, 3), options.json asks for (2, 2, 1, 3)"),
        (state_of, {"h": H * np.nan, "c": C}, "h has values that are NaN or infinite"),
    ],
)
def test_another_model_is_refused(
    read: Callable[[Path], object], arrays: dict[str, Any], said: str, tmp_path: Path
) -> None:
    path = write_arrays(tmp_path / "in.hdf5", arrays)
    with pytest.raises(WeightFileError) as caught:
        read(path)
    assert caught.value.message.startswith(f"{path}: {said}")
    assert caught.value.hint
