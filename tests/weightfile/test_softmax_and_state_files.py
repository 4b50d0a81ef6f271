"""The softmax file and the file of the warm state."""

from __future__ import annotations

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
from elmo_cli.weightfile.softmax_file import read_softmax, write_softmax
from elmo_cli.weightfile.state_file import read_state, write_state

OPTIONS = Options(filters=((1, 4),), projection=3, cell=5, n_layers=2)


@pytest.fixture
def state(seed: int) -> State:
    zeros = State.zeros(OPTIONS, 1)
    return State(torch.randn_like(zeros.h), torch.randn_like(zeros.c))


def test_softmax_round_trip(tmp_path: Path, seed: int) -> None:
    """Without it a language model would be measured with another softmax than it learned."""
    head = NextToken(11, 3)
    torch.nn.init.normal_(head.bias)
    write_softmax(head, tmp_path / "softmax.hdf5")
    again = read_softmax(tmp_path / "softmax.hdf5", n_types=11, projection=3)
    assert torch.equal(again.weight, head.weight)
    assert torch.equal(again.bias, head.bias)
    with h5py.File(tmp_path / "softmax.hdf5") as file:
        assert file["softmax/W"].shape == (11, 3)
        assert file["softmax/b"].dtype == np.float32


def test_softmax_inside_a_weight_file(tmp_path: Path) -> None:
    """Without it the group `softmax` of a weight file would need a file of its own."""
    arrays = {
        "char_embed": np.zeros((261, 2)),
        "softmax/W": np.ones((4, 3)),
        "softmax/b": [0.5] * 4,
    }
    path = write_arrays(tmp_path / "weights.hdf5", arrays)
    assert read_softmax(path, n_types=4, projection=3).bias.tolist() == [0.5] * 4


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"other": [1.0]}, "no softmax/W and softmax/b in it"),
        ({"softmax/W": np.zeros((4, 3))}, "no softmax/W and softmax/b in it"),
        (
            {"softmax/W": np.zeros((5, 3)), "softmax/b": np.zeros(5)},
            "softmax/W has shape (5, 3) and softmax/b (5,), vocabulary and options ask for (4, 3)",
        ),
        (
            {"softmax/W": np.zeros((4, 3)), "softmax/b": np.zeros(3)},
            "softmax/W has shape (4, 3) and softmax/b (3,), vocabulary and options ask for (4, 3)",
        ),
        (
            {"softmax/W": np.full((4, 3), np.nan), "softmax/b": np.zeros(4)},
            "softmax/W holds NaN or infinite numbers",
        ),
        (
            {"softmax/W": np.zeros((4, 3)), "softmax/b": np.zeros(4, "S2")},
            "softmax/b holds |S2, not float32 or float16",
        ),
    ],
)
def test_softmax_refused(arrays: dict[str, Any], said: str, tmp_path: Path) -> None:
    """Without it a softmax of another vocabulary would be measured against this one."""
    path = write_arrays(tmp_path / "softmax.hdf5", arrays)
    with pytest.raises(WeightFileError) as caught:
        read_softmax(path, n_types=4, projection=3)
    assert caught.value.message.startswith(f"{path}: {said}")
    assert caught.value.hint


def test_state_round_trip(state: State, tmp_path: Path) -> None:
    """Without it the warm state would not be the one that was stored."""
    write_state(state, tmp_path / "state.hdf5")
    again = read_state(tmp_path / "state.hdf5", OPTIONS)
    assert torch.equal(again.h, state.h)
    assert torch.equal(again.c, state.c)


def test_state_of_another_model(state: State, tmp_path: Path) -> None:
    """Without it a state of other sizes would fail in the middle of the first batch."""
    write_state(state, tmp_path / "state.hdf5")
    larger = Options(filters=((1, 4),), projection=3, cell=6, n_layers=2)
    with pytest.raises(WeightFileError) as caught:
        read_state(tmp_path / "state.hdf5", larger)
    assert "c is (2, 2, 1, 5), options.json asks for (2, 2, 1, 6)" in caught.value.message


def test_state_that_is_none(state: State, tmp_path: Path) -> None:
    """Without it weights in the place of a state, or NaN, would reach every sentence."""
    path = write_arrays(tmp_path / "state.hdf5", {"h": np.zeros((2, 2, 1, 3))})
    with pytest.raises(WeightFileError, match="c is missing, options"):
        read_state(path, OPTIONS)
    write_state(State(state.h * np.nan, state.c), path)
    with pytest.raises(WeightFileError, match="h holds NaN or infinite numbers"):
        read_state(path, OPTIONS)
