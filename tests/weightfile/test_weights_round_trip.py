"""Weights go to a file and come back, and a file goes to a biLM and back, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from make_weights import MODELS, SHAPES, weight_arrays, write_arrays, write_model
from oracle import Oracle

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import Options
from elmo_cli.weightfile.read import read_bilm
from elmo_cli.weightfile.table import CONV_FILTER, IDENTITY, TRANSPOSE, Transform, rows
from elmo_cli.weightfile.write import write_bilm

Paired = Callable[..., tuple[BiLM, Oracle]]


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
    """Without it some array would be left out, turned or named otherwise than bilm-tf names it."""
    folder = write_model(tmp_path, SHAPES[shape], shape)
    bilm = read_bilm(folder / "options.json", folder / "weights.hdf5")
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), weight_arrays(SHAPES[shape], shape))


@pytest.mark.parametrize("source", ["allennlp", "bilm_tf"])
def test_files_of_the_originals_come_back_whole(source: str, golden: Path, tmp_path: Path) -> None:
    """Without it only files of our own making would be read and written."""
    weights = golden / source / "lm_weights.hdf5"
    bilm = read_bilm(golden / source / "options.json", weights)
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), content(weights))


@pytest.mark.parametrize("shape", SHAPES)
def test_bilm_to_file_to_bilm(shape: str, tmp_path: Path, seed: int) -> None:
    """Without it a model that was trained would not be the model that is loaded."""
    trained = BiLM(Options.from_dict(SHAPES[shape]))
    write_bilm(trained, tmp_path / "weights.hdf5")
    again = read_bilm(trained.options, tmp_path / "weights.hdf5")
    assert again.options == trained.options
    ours, theirs = trained.state_dict(), again.state_dict()
    assert list(ours) == list(theirs)
    for name, parameter in ours.items():
        np.testing.assert_array_equal(theirs[name], parameter, err_msg=name)


def test_what_was_read_is_ready_for_inference(tiny_bilm: BiLM) -> None:
    """Without it embedding would keep gradients, or drop values out."""
    assert not tiny_bilm.training
    assert not any(parameter.requires_grad for parameter in tiny_bilm.parameters())
    assert {parameter.dtype.itemsize for parameter in tiny_bilm.parameters()} == {4}


def test_half_precision_file(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it float16 files of half the size could be written that nobody can read."""
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
    """Without it a float64 export would be refused, or read as other numbers."""
    doubles = {k: v.astype("f8") for k, v in weight_arrays(MODELS["tiny"], "tiny").items()}
    bilm = read_bilm(Options.from_dict(MODELS["tiny"]), write_arrays(tmp_path / "w.hdf5", doubles))
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), weight_arrays(MODELS["tiny"], "tiny"))


@pytest.mark.parametrize("n_characters", [261, 262])
@pytest.mark.parametrize("n_rows", [261, 262])
def test_261_and_262_rows_are_one_model(n_characters: int, n_rows: int, tmp_path: Path) -> None:
    """Without it all characters would be shifted by one, and every vector be wrong."""
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
    """Without it AllenNLP's files, which have CNN_proj and W_P_0 always, would lose them."""
    said = SHAPES["neither"]
    more = weight_arrays(said, "any")
    numbers = np.random.default_rng(0)
    more["CNN_proj/W_proj"] = numbers.normal(size=(8, 8)).astype("f4")
    more["CNN_proj/b_proj"] = numbers.normal(size=8).astype("f4")
    for way in range(2):
        for layer in range(2):
            home = f"RNN_{way}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            more[f"{home}/W_P_0"] = numbers.normal(size=(8, 8)).astype("f4")
    bilm = read_bilm(Options.from_dict(said), write_arrays(tmp_path / "w.hdf5", more))
    assert bilm.options.cnn_projection
    assert bilm.options.lstm_projection
    write_bilm(bilm, tmp_path / "again.hdf5")
    assert_same(content(tmp_path / "again.hdf5"), more)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_table_names_every_parameter_once(shape: str) -> None:
    """Without it a parameter would be saved nowhere, or two rows fight for one."""
    options = Options.from_dict(SHAPES[shape])
    named = [name for row in rows(options) for name in row.parameters]
    assert sorted(named) == sorted(BiLM(options).state_dict())
    paths = [row.path for row in rows(options)]
    assert paths == list(weight_arrays(SHAPES[shape], shape))


SIZES = st.integers(1, 5)
PARAMETERS = [
    pytest.param(IDENTITY, 1, id="IDENTITY"),
    pytest.param(TRANSPOSE, 2, id="TRANSPOSE"),
    pytest.param(CONV_FILTER, 3, id="CONV_FILTER"),
]


@pytest.mark.parametrize(("transform", "rank"), PARAMETERS)
@given(drawn=st.data())
def test_each_transform_has_its_inverse(transform: Transform, rank: int, drawn: Any) -> None:
    """Without it a model would change a little each time it is saved."""
    shape = drawn.draw(st.tuples(*[SIZES] * rank))
    bits = drawn.draw(arrays(np.uint32, shape))
    parameter = bits.view(np.float32)  # any bits, NaN among them
    there = transform.to_file(parameter)
    back = transform.to_parameter(there)
    np.testing.assert_array_equal(np.ascontiguousarray(back).view(np.uint32), bits)
    again = transform.to_file(back)
    assert again.shape == there.shape
