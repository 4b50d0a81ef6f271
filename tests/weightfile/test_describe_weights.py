"""Facts of a weight file without its options; probing untrusted files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from make_weights import MODELS, SHAPES, weight_arrays, write_arrays

from elmo_cli.errors import WeightFileError
from elmo_cli.weightfile.describe import (
    describe_weights,
    holds_bilm,
    kind_of_weights,
    probe_hdf5,
    weight_problems,
)


@pytest.mark.parametrize("shape", SHAPES)
def test_sizes_follow_from_shapes(shape: str, tmp_path: Path) -> None:
    arrays = weight_arrays(SHAPES[shape], shape)
    path = write_arrays(tmp_path / "weights.hdf5", arrays)
    with h5py.File(path) as file:
        facts = describe_weights(path, file)
        assert list(weight_problems(file)) == []
    assert facts["weights"] == "biLM"
    assert facts["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert facts["bytes"] == path.stat().st_size
    assert facts["dtypes"] == ["float32"]
    assert facts["parameters"] == sum(array.size for array in arrays.values())
    assert facts["shapes"] == {name: list(array.shape) for name, array in sorted(arrays.items())}
    expected, found = SHAPES[shape], facts["options"]
    for part, names in (
        ("lstm", ("dim", "projection_dim", "n_layers")),
        ("char_cnn", ("filters", "n_highway", "embedding")),
    ):
        assert {name: found[part][name] for name in names} == {
            name: expected[part][name] for name in names
        }


@pytest.mark.parametrize(
    ("arrays", "kind"),
    [
        ({"RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0": [1.0]}, "biLM"),
        ({"char_embed": [1.0], "CNN/W_cnn_0": [1.0]}, "biLM"),
        ({"softmax/W": [[1.0]], "softmax/b": [1.0]}, "softmax"),
        ({"softmax/W": [[1.0]]}, ""),
        ({"char_embed": [1.0]}, ""),
        ({"0": np.zeros((3, 2, 4))}, ""),
    ],
)
def test_kinds(arrays: dict[str, object], kind: str, tmp_path: Path) -> None:
    with h5py.File(write_arrays(tmp_path / "in.hdf5", arrays)) as file:
        assert kind_of_weights(file) == kind
        if kind == "softmax":
            assert describe_weights(tmp_path / "in.hdf5", file)["options"] == {}


def test_a_bilm_with_missing_parts_is_refused(tmp_path: Path) -> None:
    arrays = weight_arrays(MODELS["tiny"], "tiny")
    del arrays["char_embed"]
    path = write_arrays(tmp_path / "in.hdf5", arrays)
    with h5py.File(path) as file, pytest.raises(WeightFileError, match="char_embed") as caught:
        describe_weights(path, file)
    assert caught.value.hint


def test_holds_bilm(tmp_path: Path, tiny: Path) -> None:
    assert holds_bilm(tiny / "weights.hdf5")
    assert not holds_bilm(write_arrays(tmp_path / "other.hdf5", {"x": [1.0]}))
    with pytest.raises(OSError, match="No such file"):
        holds_bilm(tmp_path / "none")


def test_probe_refuses_a_file_whose_groups_it_can_not_list(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["x"] = h5py.ExternalLink("/dev/zero", "/y")
    (tmp_path / "b.hdf5").write_bytes(b"no HDF5")
    probe_hdf5([None, tmp_path / "b.hdf5"])  # its reader reports what is wrong
    with pytest.raises(WeightFileError, match="external link"):
        probe_hdf5([tmp_path / "a.hdf5"])
