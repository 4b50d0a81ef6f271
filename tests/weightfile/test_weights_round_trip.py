"""Weights go to a file and come back, and a file goes to a biLM and back, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from make_weights import MODELS, SHAPES, weight_arrays, write_arrays, write_model

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.model.softmax import NextToken
from elmo_cli.model.state import State
from elmo_cli.weightfile.read import read_bilm, read_softmax, read_state
from elmo_cli.weightfile.table import CONV_FILTER, IDENTITY, TRANSPOSE, Transform, rows
from elmo_cli.weightfile.write import write_bilm, write_softmax, write_state


def content(path: Path) -> dict[str, Any]:
    """The arrays of a weight file, in the order of their names."""
    found: dict[str, Any] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert sorted(found) == sorted(expected)
    for name, array in expected.items():
        assert found[name].dtype == array.dtype, name
        np.testing.assert_array_equal(found[name], array, err_msg=name)


@pytest.mark.parametrize("shape", SHAPES)
def test_file_to_bilm_to_file(shape: str, tmp_path: Path) -> None:
    folder = write_model(tmp_path, SHAPES[shape], shape)
    bilm = read_bilm(folder / "options.json", folder / "weights.hdf5")
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), weight_arrays(SHAPES[shape], shape))


@pytest.mark.parametrize("source", ["allennlp", "bilm_tf"])
def test_files_of_the_originals_come_back_whole(source: str, golden: Path, tmp_path: Path) -> None:
    weights = golden / source / "lm_weights.hdf5"
    bilm = read_bilm(golden / source / "options.json", weights)
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), content(weights))


@pytest.mark.parametrize("shape", SHAPES)
def test_bilm_to_file_to_bilm(shape: str, tmp_path: Path, seed: int) -> None:
    trained = BiLM(Options.from_dict(SHAPES[shape]))
    write_bilm(trained, tmp_path / "weights.hdf5")
    again = read_bilm(trained.options, tmp_path / "weights.hdf5")
    assert again.options == trained.options
    ours, theirs = trained.state_dict(), again.state_dict()
    assert list(ours) == list(theirs)
    for name, parameter in ours.items():
        np.testing.assert_array_equal(theirs[name], parameter, err_msg=name)


def test_what_was_read_is_ready_for_inference(tiny_bilm: BiLM) -> None:
    assert not tiny_bilm.training
    assert not any(parameter.requires_grad for parameter in tiny_bilm.parameters())


def test_half_precision_file(tiny_bilm: BiLM, tmp_path: Path) -> None:
    write_bilm(tiny_bilm, tmp_path / "half.hdf5", dtype="float16")
    halves = content(tmp_path / "half.hdf5")
    assert {array.dtype for array in halves.values()} == {np.dtype("float16")}
    again = read_bilm(tiny_bilm.options, tmp_path / "half.hdf5")
    for name, array in tiny_bilm.state_dict().items():
        found = again.state_dict()[name]
        assert found.dtype == array.dtype
        np.testing.assert_allclose(found, array, rtol=2**-11, atol=2**-25, err_msg=name)
    write_bilm(again, tmp_path / "again.hdf5", dtype="float16")
    assert_same(content(tmp_path / "again.hdf5"), halves)


def test_double_precision_file_is_rounded_once(tmp_path: Path) -> None:
    doubles = {k: v.astype("f8") for k, v in weight_arrays(MODELS["tiny"], "tiny").items()}
    bilm = read_bilm(Options.from_dict(MODELS["tiny"]), write_arrays(tmp_path / "w.hdf5", doubles))
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), weight_arrays(MODELS["tiny"], "tiny"))


@pytest.mark.parametrize("n_characters", [261, 262])
@pytest.mark.parametrize("n_rows", [261, 262])
def test_261_and_262_rows_are_one_model(n_characters: int, n_rows: int, tmp_path: Path) -> None:
    arrays_ = weight_arrays(MODELS["tiny"], "tiny")
    if n_rows == 262:
        padding = np.full((1, 4), 99, "f4")  # "no token here": nothing may read it
        arrays_["char_embed"] = np.concatenate([padding, arrays_["char_embed"]])
    said = json.loads(json.dumps(MODELS["tiny"]))
    said["char_cnn"]["n_characters"] = n_characters
    (tmp_path / "options.json").write_text(json.dumps(said), encoding="utf-8")
    bilm = read_bilm(tmp_path / "options.json", write_arrays(tmp_path / "w.hdf5", arrays_))
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), weight_arrays(MODELS["tiny"], "tiny"))


def test_matrices_beyond_need_are_kept(tmp_path: Path) -> None:
    said = SHAPES["neither"]
    more = weight_arrays(said, "any")
    numbers = np.random.default_rng(0)
    more["CNN_proj/W_proj"] = numbers.normal(size=(8, 8)).astype("f4")
    more["CNN_proj/b_proj"] = numbers.normal(size=8).astype("f4")
    for way in range(2):
        for layer in range(2):
            group = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            more[f"{group}/W_P_0"] = numbers.normal(size=(8, 8)).astype("f4")
    bilm = read_bilm(Options.from_dict(said), write_arrays(tmp_path / "w.hdf5", more))
    assert bilm.options.cnn_projection
    assert bilm.options.lstm_projection
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), more)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_table_names_every_parameter_once(shape: str) -> None:
    options = Options.from_dict(SHAPES[shape])
    named = [name for row in rows(options) for name in row.parameters]
    assert sorted(named) == sorted(BiLM(options).state_dict())
    paths = [row.path for row in rows(options)]
    assert paths == list(weight_arrays(SHAPES[shape], shape))


def test_a_softmax_comes_back(tmp_path: Path, seed: int) -> None:
    softmax = NextToken(11, 3)
    torch.nn.init.normal_(softmax.bias)
    write_softmax(softmax, tmp_path / "softmax.hdf5")
    again = read_softmax(tmp_path / "softmax.hdf5", n_types=11, projection=3)
    assert torch.equal(again.weight, softmax.weight)
    assert torch.equal(again.bias, softmax.bias)
    assert sorted(content(tmp_path / "softmax.hdf5")) == ["softmax/W", "softmax/b"]


def test_a_state_comes_back(tmp_path: Path, seed: int) -> None:
    options = Options(filters=((1, 4),), projection=3, cell=5, n_layers=2)
    state = State(torch.randn(2, 2, 1, 3), torch.randn(2, 2, 1, 5))
    write_state(state, tmp_path / "state.hdf5")
    again = read_state(tmp_path / "state.hdf5", options)
    assert torch.equal(again.h, state.h)
    assert torch.equal(again.c, state.c)


@pytest.mark.parametrize(("transform", "rank"), [(IDENTITY, 1), (TRANSPOSE, 2), (CONV_FILTER, 3)])
@given(drawn=st.data())
def test_each_transform_has_its_inverse(transform: Transform, rank: int, drawn: Any) -> None:
    bits = drawn.draw(arrays(np.uint32, drawn.draw(st.tuples(*[st.integers(1, 5)] * rank))))
    in_file = transform.to_file(bits.view(np.float32))  # any bits, NaN among them
    back = np.ascontiguousarray(transform.to_parameter(in_file))
    np.testing.assert_array_equal(back.view(np.uint32), bits)
    assert transform.to_file(back).shape == in_file.shape
