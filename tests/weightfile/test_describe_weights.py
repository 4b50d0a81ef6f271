"""Facts of a weight file without its options; probing untrusted files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import h5py
import pytest
from make_weights import SHAPES, weight_arrays, write_arrays

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


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"], "biLM"),
        (["char_embed", "CNN/W_cnn_0"], "biLM"),
        (["softmax/W", "softmax/b"], "softmax"),
        (["softmax/W"], ""),
        (["char_embed"], ""),
        (["0"], ""),
    ],
)
def test_kinds(names: list[str], kind: str, tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "in.hdf5", {key: [1.0] for key in names})
    with h5py.File(path) as file:
        assert kind_of_weights(file) == kind
    assert holds_bilm(path) == ("char_embed" in names)


def test_probe_refuses_a_file_whose_groups_it_can_not_list(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["x"] = h5py.ExternalLink("/dev/zero", "/y")
    (tmp_path / "b.hdf5").write_bytes(b"no HDF5")
    probe_hdf5([None, tmp_path / "b.hdf5"])  # its reader reports what is wrong
    with pytest.raises(WeightFileError, match="external link"):
        probe_hdf5([tmp_path / "a.hdf5"])
