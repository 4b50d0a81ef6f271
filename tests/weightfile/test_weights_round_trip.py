"""Weights go to a file and come back, and a file goes to a biLM and back, bit for bit."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from disks import disk_of
from make_weights import MODELS, SHAPES, weight_arrays, write_arrays

from elmo_cli.errors import OutputError
from elmo_cli.hdf5 import dataset_names
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.model.options import Options
from elmo_cli.weightfile.describe import describe_weights, weight_problems
from elmo_cli.weightfile.read import read_bilm, read_softmax, read_state
from elmo_cli.weightfile.table import rows
from elmo_cli.weightfile.write import write_bilm, write_softmax, write_state

TINY = weight_arrays(MODELS["tiny"], "tiny")


def content(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        return {name: file[name][...] for name in dataset_names(file)}


def assert_round_trip(
    folder: Path, options: dict[str, Any], source: dict[str, Any], expected: dict[str, Any]
) -> None:
    """Read a weight file of arrays and write it again."""
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    bilm = read_bilm(folder / "options.json", write_arrays(folder / "weights.hdf5", source))
    assert not bilm.training
    assert not any(parameter.requires_grad for parameter in bilm.parameters())
    write_bilm(bilm, folder / "again.hdf5")
    written = content(folder / "again.hdf5")
    assert sorted(written) == sorted(expected)
    for name, array in expected.items():
        assert written[name].dtype == array.dtype, name
        np.testing.assert_array_equal(written[name], array, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES)
def test_file_to_bilm_to_file(shape: str, tmp_path: Path) -> None:
    expected = weight_arrays(SHAPES[shape], shape)
    assert_round_trip(tmp_path, SHAPES[shape], expected, expected)
    path = tmp_path / "weights.hdf5"
    with h5py.File(path) as file:
        facts = describe_weights(path, file)
        assert list(weight_problems(file)) == []
    assert facts["weights"] == "biLM"
    assert facts["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (facts["bytes"], facts["dtypes"]) == (path.stat().st_size, ["float32"])
    assert facts["parameters"] == sum(array.size for array in expected.values())
    assert facts["shapes"] == {name: list(array.shape) for name, array in sorted(expected.items())}


@pytest.mark.parametrize("source", ["allennlp", "bilm_tf"])
def test_files_of_the_originals_come_back_whole(source: str, golden: Path, tmp_path: Path) -> None:
    options = json.loads((golden / source / "options.json").read_bytes())
    expected = content(golden / source / "lm_weights.hdf5")
    assert_round_trip(tmp_path, options, expected, expected)


@pytest.mark.parametrize(("n_characters", "n_rows"), [(261, 262), (262, 261), (262, 262)])
def test_261_and_262_rows_are_one_model(n_characters: int, n_rows: int, tmp_path: Path) -> None:
    """Otherwise all characters would be shifted by one."""
    padding = np.full((n_rows - 261, 4), 99, "f4")  # "no token here": nothing may read it
    source = TINY | {"char_embed": np.concatenate([padding, TINY["char_embed"]])}
    options = copy.deepcopy(MODELS["tiny"])
    options["char_cnn"]["n_characters"] = n_characters
    assert_round_trip(tmp_path, options, source, TINY)


def test_double_precision_is_rounded_once(tmp_path: Path) -> None:
    doubles = {name: array.astype("f8") for name, array in TINY.items()}
    assert_round_trip(tmp_path, MODELS["tiny"], doubles, TINY)


def test_matrices_beyond_need_are_kept(tmp_path: Path) -> None:
    """AllenNLP's files always have CNN_proj and W_P_0."""
    options = SHAPES["neither"]
    numbers = np.random.default_rng(0)
    expected = weight_arrays(options, "any")
    expected["CNN_proj/W_proj"] = numbers.normal(size=(8, 8)).astype("f4")
    expected["CNN_proj/b_proj"] = numbers.normal(size=8).astype("f4")
    for direction in range(2):
        for layer in range(2):
            name = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/W_P_0"
            expected[name] = numbers.normal(size=(8, 8)).astype("f4")
    assert_round_trip(tmp_path, options, expected, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", SHAPES)
def test_bilm_to_file_to_bilm(shape: str, dtype: str, tmp_path: Path, seed: int) -> None:
    trained = BiLM(Options.from_dict(SHAPES[shape]))
    write_bilm(trained, tmp_path / "weights.hdf5", dtype=dtype)
    assert {str(array.dtype) for array in content(tmp_path / "weights.hdf5").values()} == {dtype}
    again = read_bilm(trained.options, tmp_path / "weights.hdf5")
    assert again.options == trained.options
    written = trained.state_dict()
    read = again.state_dict()
    assert list(written) == list(read)
    for name, parameter in written.items():
        assert read[name].dtype == torch.float32
        stored = parameter.half().float() if dtype == "float16" else parameter
        np.testing.assert_array_equal(read[name], stored, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_table_names_every_parameter_once(shape: str) -> None:
    options = Options.from_dict(SHAPES[shape])
    names = [name for row in rows(options) for name in row.parameters]
    assert sorted(names) == sorted(BiLM(options).state_dict())
    assert [row.path for row in rows(options)] == list(weight_arrays(SHAPES[shape], shape))


def test_a_softmax_and_a_state_come_back(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "out.hdf5"
    softmax = NextTokenSoftmax(11, 3)
    torch.nn.init.normal_(softmax.bias)
    write_softmax(softmax, path)
    again = read_softmax(path, n_types=11, projection=3)
    assert torch.equal(again.weight, softmax.weight)
    assert torch.equal(again.bias, softmax.bias)
    assert sorted(content(path)) == ["softmax/W", "softmax/b"]
    state = State(torch.randn(2, 2, 1, 3), torch.randn(2, 2, 1, 5))
    write_state(state, path)
    options = Options(filters=((1, 4),), projection_dim=3, lstm_dim=5, n_layers=2)
    stored = read_state(path, options)
    assert torch.equal(stored.h, state.h)
    assert torch.equal(stored.c, state.c)


def write_large_softmax(bilm: BiLM, path: Path) -> None:
    write_softmax(NextTokenSoftmax(1000, 8), path)


def write_zero_state(bilm: BiLM, path: Path) -> None:
    write_state(State.zeros(bilm.options, 1), path)


@pytest.mark.parametrize("write", [write_bilm, write_large_softmax, write_zero_state])
def test_full_disk(write: Callable[[BiLM, Path], None], tiny_bilm: BiLM, tmp_path: Path) -> None:
    """HDF5 would crash where it closes a file on a full disk."""
    path = tmp_path / "out.hdf5"
    path.write_bytes(b"old")
    with disk_of(1500), pytest.raises(OutputError, match="File too large"):
        write(tiny_bilm, path)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == b"old"


def test_values_beyond_float16_are_refused(tmp_path: Path) -> None:
    """They would become infinite, and our own reader would refuse the file."""
    softmax = NextTokenSoftmax(3, 4)
    with torch.no_grad():
        softmax.bias[2] = -1e5
    with pytest.raises(OutputError, match="softmax/b has a value beyond float16"):
        write_softmax(softmax, tmp_path / "out.hdf5", dtype="float16")
    assert list(tmp_path.iterdir()) == []


def test_same_weights_make_the_same_bytes(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """The sha256 of a model must not change each time it is written."""
    (tmp_path / "b.hdf5").write_bytes(b"old")
    for name in ("a.hdf5", "b.hdf5"):
        write_bilm(tiny_bilm, tmp_path / name)
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()
