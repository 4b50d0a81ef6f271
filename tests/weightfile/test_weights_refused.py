"""Weight files that are damaged, foreign, or of other sizes than their options say."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from make_weights import MODELS, SHAPES, weight_arrays, write_arrays

from elmo_cli.errors import ElmoError, WeightFileError
from elmo_cli.model.options import Options
from elmo_cli.weightfile.read import read_bilm

CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"


def tiny_arrays() -> dict[str, Any]:
    return weight_arrays(MODELS["tiny"], "tiny")


def refused(path: Path, options: dict[str, Any] | None = None) -> ElmoError:
    with pytest.raises(WeightFileError) as caught:
        read_bilm(Options.from_dict(options or MODELS["tiny"]), path)
    assert caught.value.message.startswith(f"{path}: ")
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def said_of(tmp_path: Path, change: Callable[[h5py.File], None]) -> str:
    """What is said of the weights of tiny after a change."""
    path = write_arrays(tmp_path / "weights.hdf5", tiny_arrays())
    with h5py.File(path, "a") as file:
        change(file)
    return refused(path).message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("name", tiny_arrays())
def test_missing_array_is_named(name: str, tmp_path: Path) -> None:
    """Without it a part of the model would keep whatever was in memory."""

    def take_out(file: h5py.File) -> None:
        del file[name]

    said = said_of(tmp_path, take_out)
    if name == "char_embed":
        assert said.startswith("no char_embed in it, so these are not biLM weights (found CNN, ")
    else:
        assert said == f"{name} is missing" or name.endswith("Cell0/LSTMCell/W_P_0")
        assert name.split("/")[0] in said


@pytest.mark.parametrize("name", tiny_arrays())
def test_other_shape_is_named_with_both(name: str, tmp_path: Path) -> None:
    """Without it weights of another model would be a traceback from within torch."""
    shape = tiny_arrays()[name].shape

    def enlarge(file: h5py.File) -> None:
        del file[name]
        file[name] = np.zeros((*shape[:-1], shape[-1] + 1), "f4")

    said = said_of(tmp_path, enlarge)
    larger = (*shape[:-1], shape[-1] + 1)
    assert said == f"{name} has shape {larger}, options.json asks for {shape}"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["char_embed", "CNN/b_cnn_2", f"{CELL}/W_0", f"{CELL}/W_P_0"])
def test_numbers_that_are_none_are_refused(name: str, value: float, tmp_path: Path) -> None:
    """Without it a model that diverged would give NaN for every sentence."""

    def spoil(file: h5py.File) -> None:
        item = file[name]
        place = tuple(size - 1 for size in item.shape)
        item[place] = value

    assert said_of(tmp_path, spoil) == f"{name} holds NaN or infinite numbers"


def test_double_that_float32_can_not_hold_is_refused(tmp_path: Path) -> None:
    """Without it the infinite number would be made here, after the check."""

    def enlarge(file: h5py.File) -> None:
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = np.full(8, 1e300)

    assert said_of(tmp_path, enlarge) == "CNN_proj/b_proj holds NaN or infinite numbers"


@pytest.mark.parametrize(
    ("kind", "named"), [("i4", "int32"), ("u1", "uint8"), ("c8", "complex64"), ("S3", "|S3")]
)
def test_other_types_are_refused(kind: str, named: str, tmp_path: Path) -> None:
    """Without it weights rounded to whole numbers would pass for a model."""

    def retype(file: h5py.File) -> None:
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = np.zeros(8, kind)

    said = said_of(tmp_path, retype)
    assert said == f"CNN_proj/b_proj holds {named}, not float32 or float16"


@pytest.mark.parametrize("name", ["char_embed", "CNN/W_cnn_1", f"{CELL}/B"])
def test_group_in_the_place_of_an_array(name: str, tmp_path: Path) -> None:
    """Without it h5py's own TypeError would reach the user."""

    def turn(file: h5py.File) -> None:
        del file[name]
        file.create_group(name)

    assert said_of(tmp_path, turn) == f"{name} is a group, not an array"


@pytest.mark.parametrize("name", ["CNN", "CNN_high_0", "CNN_proj", "RNN_0", "RNN_1"])
def test_array_in_the_place_of_a_group(name: str, tmp_path: Path) -> None:
    """Without it looking further into it would be a KeyError."""

    def turn(file: h5py.File) -> None:
        del file[name]
        file[name] = np.zeros(3, "f4")

    assert " is missing" in said_of(tmp_path, turn)


def test_array_without_a_shape(tmp_path: Path) -> None:
    """Without it an empty HDF5 dataspace would be a TypeError."""

    def turn(file: h5py.File) -> None:
        del file["char_embed"]
        file["char_embed"] = h5py.Empty("f4")

    said = said_of(tmp_path, turn)
    assert said == "char_embed has shape None, options.json asks for (261, 4)"


@pytest.mark.parametrize("n_rows", [260, 263, 1])
def test_other_numbers_of_characters(n_rows: int, tmp_path: Path) -> None:
    """Without it a model over other characters would be read as one over bytes."""

    def turn(file: h5py.File) -> None:
        del file["char_embed"]
        file["char_embed"] = np.zeros((n_rows, 4), "f4")

    said = said_of(tmp_path, turn)
    assert said == f"char_embed has shape ({n_rows}, 4), options.json asks for (261, 4)"


def test_cnn_proj_can_be_left_out_only_where_nothing_is_projected(tmp_path: Path) -> None:
    """Without it 60 filters would go into LSTMs that read 8."""

    def take_out(file: h5py.File) -> None:
        del file["CNN_proj"]

    said = said_of(tmp_path, take_out)
    assert said == "CNN_proj is missing, and 60 filters are not projection_dim 8"


def test_w_p_0_can_be_left_out_only_where_nothing_is_projected(tmp_path: Path) -> None:
    """Without it a cell of 16 would be taken for an output of 8."""
    cell = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"

    def take_out(file: h5py.File) -> None:
        del file[f"{cell}/W_P_0"]

    said = said_of(tmp_path, take_out)
    assert said == f"{cell}/W_P_0 is missing, and dim 16 is not projection_dim 8"


def test_optional_matrix_in_one_layer_only(tmp_path: Path) -> None:
    """Without it the file would decide for all layers by its first one alone."""
    arrays = weight_arrays(SHAPES["no W_P_0"], "any")
    arrays["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"] = np.zeros((6, 6), "f4")
    path = write_arrays(tmp_path / "weights.hdf5", arrays)
    said = refused(path, SHAPES["no W_P_0"]).message
    assert said.endswith("RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0 is missing")


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        ("char_cnn", {"n_highway": 0}, "holds CNN_high_0, options.json says n_highway 0"),
        ("char_cnn", {"filters": [[1, 4]]}, "holds CNN/W_cnn_1, options.json says 1 filters"),
        ("char_cnn", {"n_highway": 2}, "CNN_high_1/W_carry is missing"),
        ("lstm", {"n_layers": 3}, "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0 is missing"),
        ("char_cnn", {"embedding": {"dim": 5}}, "char_embed has shape (261, 4), options.json asks"),
    ],
)
def test_options_of_another_model(part: str, change: dict[str, Any], said: str, tiny: Path) -> None:
    """Without it a model would be computed with layers left out that its file has."""
    options = copy.deepcopy(MODELS["tiny"])
    options[part].update(change)
    assert said in refused(tiny / "weights.hdf5", options).message


def test_fewer_lstm_layers_than_the_file_are_taken(tiny: Path) -> None:
    """Without it leaving the top layer out, a published practice, would be refused."""
    options = copy.deepcopy(MODELS["tiny"])
    options["lstm"]["n_layers"] = 1
    bilm = read_bilm(Options.from_dict(options), tiny / "weights.hdf5")
    assert bilm.options.n_layers == 1


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("lstm", {"dim": 10**7}),
        ("lstm", {"projection_dim": 10**7}),
        ("lstm", {"n_layers": 1000}),
        ("char_cnn", {"n_highway": 1000}),
        ("char_cnn", {"embedding": {"dim": 10**7}}),
        ("char_cnn", {"filters": [[1, 10**7], [2, 8], [3, 16], [4, 32]]}),
    ],
)
def test_sizes_that_no_machine_has_are_refused_at_once(
    part: str, change: dict[str, Any], tiny: Path
) -> None:
    """Without it an options.json that asks for terabytes would take the machine's memory first."""
    options = copy.deepcopy(MODELS["tiny"])
    options[part].update(change)
    began = time.perf_counter()
    refused(tiny / "weights.hdf5", options)
    assert time.perf_counter() - began < 5


def test_sizes_that_only_file_and_options_together_have(tmp_path: Path) -> None:
    """Without it a file of a kilobyte that claims a terabyte would be believed."""
    options = copy.deepcopy(MODELS["tiny"])
    options["lstm"]["dim"] = 10**7
    path = write_arrays(tmp_path / "weights.hdf5", tiny_arrays())
    with h5py.File(path, "a") as file:
        home = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
        for name, shape in (("W_0", (16, 4 * 10**7)), ("B", (4 * 10**7,)), ("W_P_0", (10**7, 8))):
            del file[f"{home}/{name}"]
            file.create_dataset(f"{home}/{name}", shape, "f4", chunks=True)  # nothing is stored
    assert "Cell1/LSTMCell/W_0 has shape (16, 64)" in refused(path, options).message


@pytest.mark.parametrize(
    "content", [b"", b"PK\x03\x04", b"\x89HDF\r\n\x1a\n", b"# a text\n" * 100, b"\x80\x02}q\x00."]
)
def test_foreign_file(content: bytes, tmp_path: Path) -> None:
    """Without it a zip, a pickle or a text in the place of the weights would be a traceback."""
    path = tmp_path / "weights.hdf5"
    path.write_bytes(content)
    assert "not a readable HDF5 file" in refused(path).message


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.99])
def test_file_that_was_cut_off(share: float, tiny: Path, tmp_path: Path) -> None:
    """Without it a download that broke would be a traceback, or a model of zeros."""
    whole = (tiny / "weights.hdf5").read_bytes()
    path = tmp_path / "weights.hdf5"
    path.write_bytes(whole[: int(len(whole) * share)])
    error = refused(path)
    assert "not a readable HDF5 file" in error.message
    assert "cut off" in error.hint


def test_hdf5_of_something_else(tmp_path: Path) -> None:
    """Without it an embeddings file given as the model would be a KeyError."""
    path = write_arrays(tmp_path / "weights.hdf5", {str(n): np.zeros((3, 2, 4)) for n in range(9)})
    assert "not biLM weights (found 0, 1, 2, 3, …)" in refused(path).message
    path = write_arrays(tmp_path / "empty.hdf5", {})
    assert "not biLM weights (found nothing)" in refused(path).message


def test_no_such_file_and_a_folder(tmp_path: Path) -> None:
    """Without it a wrong path would be h5py's own OSError."""
    assert "no such weight file" in refused(tmp_path / "none.hdf5").message
    assert "a folder, not a weight file" in refused(tmp_path).message


def test_names_and_sizes_that_are_damaged(tiny: Path, tmp_path: Path) -> None:
    """Without it a file with a few wrong bytes would be h5py's KeyError or RuntimeError."""
    whole, numbers = (tiny / "weights.hdf5").read_bytes(), random.Random(1)
    path, n_refused = tmp_path / "weights.hdf5", 0
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[numbers.randrange(2000)] = numbers.randrange(256)
        path.write_bytes(damaged)
        try:
            read_bilm(Options.from_dict(MODELS["tiny"]), path)
        except WeightFileError:
            n_refused += 1
    assert n_refused > 20


def test_array_whose_bytes_are_damaged(tmp_path: Path) -> None:
    """Without it a damaged chunk would be an OSError from within h5py."""
    arrays = tiny_arrays()
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array, compression="gzip", fletcher32=True)
        offset = file["CNN_proj/W_proj"].id.get_chunk_info(0).byte_offset
    damaged = bytearray(path.read_bytes())
    damaged[offset + 20] ^= 0xFF
    path.write_bytes(damaged)
    assert "CNN_proj/W_proj can't be read" in refused(path).message
