"""Weight files that are corrupt, foreign, or of other sizes than their options state."""

from __future__ import annotations

import copy
import random
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from make_weights import MODELS, weight_arrays, write_arrays

from elmo_cli.errors import WeightFileError
from elmo_cli.model.options import Options
from elmo_cli.weightfile.describe import holds_bilm, kind_of_weights, weight_problems
from elmo_cli.weightfile.open_weights import check_data_sets
from elmo_cli.weightfile.read import read_bilm, read_softmax, read_state

TINY = weight_arrays(MODELS["tiny"], "tiny")
LSTM = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"
FIRST_LSTM = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
BIAS = "CNN_proj/b_proj"
ReadWeights = Callable[[Path], object]
WeightsChange = Callable[[h5py.File], object]


def tiny_of(path: Path) -> object:
    return read_bilm(Options.from_dict(MODELS["tiny"]), path)


def refused(path: Path, read: ReadWeights = tiny_of) -> str:
    with pytest.raises(WeightFileError) as caught:
        read(path)
    assert caught.value.where == str(path)
    assert caught.value.hint
    return caught.value.problem


def tiny_with(tmp_path: Path, change: WeightsChange) -> Path:
    path = write_arrays(tmp_path / "weights.hdf5", TINY)
    with h5py.File(path, "a") as file:
        change(file)
    return path


def replaced(name: str, value: object) -> WeightsChange:
    """Put other values in the place of an array."""

    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = value

    return change


def removed(name: str) -> WeightsChange:
    def change(file: h5py.File) -> None:
        del file[name]

    return change


def changed_value(name: str, number: float) -> WeightsChange:
    """Change the last value of an array."""

    def change(file: h5py.File) -> None:
        file[name][tuple(size - 1 for size in file[name].shape)] = number

    return change


def a_corrupt_chunk(file: h5py.File) -> None:
    del file[BIAS]
    file.create_dataset(BIAS, data=TINY[BIAS], chunks=(8,), fletcher32=True)
    file.flush()
    with open(file.filename, "r+b") as raw:
        raw.seek(file[BIAS].id.get_chunk_info(0).byte_offset)
        raw.write(b"....")


def values_that_were_never_written(file: h5py.File) -> None:
    del file[BIAS]
    file.create_dataset(BIAS, shape=(8,), dtype="f4")


def a_group_in_place_of_an_array(file: h5py.File) -> None:
    del file[f"{LSTM}/B"]
    file.create_group(f"{LSTM}/B")


# A change of the file, and how the problem begins.
INVALID_VALUES: list[tuple[WeightsChange, str]] = [
    (changed_value("char_embed", np.nan), "char_embed has a value of nan"),
    (changed_value("CNN/b_cnn_2", np.inf), "CNN/b_cnn_2 has a value of inf"),
    (changed_value(f"{LSTM}/B", 2e6), f"{LSTM}/B has a value of 2e+06"),
    (changed_value(f"{LSTM}/B", -3e38), f"{LSTM}/B has a value of 3e+38"),
    (replaced(BIAS, np.zeros(8, "i4")), f"{BIAS} holds int32, not float"),
    (replaced(BIAS, np.zeros(8, "c8")), f"{BIAS} holds complex64, not float"),
    (replaced(BIAS, np.zeros(8, "S3")), f"{BIAS} holds |S3, not float"),
    (replaced(BIAS, np.full(8, 1e300)), f"{BIAS} has a value of inf"),  # beyond float32
    (a_corrupt_chunk, "/CNN_proj/b_proj can't be read"),
    (values_that_were_never_written, f"'{BIAS}' was not written in full"),
]


@pytest.mark.parametrize(("change", "problem"), INVALID_VALUES)
def test_invalid_values_are_refused(change: WeightsChange, problem: str, tmp_path: Path) -> None:
    """Zeros or NaN would be computed with; `elmo inspect` has the same check."""
    path = tiny_with(tmp_path, change)
    message = refused(path)
    assert message.startswith(problem)
    with h5py.File(path) as file:
        assert list(weight_problems(file)) == [message]


@pytest.mark.parametrize("name", TINY)
def test_an_array_of_another_shape_is_refused(name: str, tmp_path: Path) -> None:
    shape = TINY[name].shape
    path = tiny_with(tmp_path, replaced(name, np.zeros((7, *shape), "f4")))
    assert refused(path) == f"{name} is of shape {(7, *shape)}, expected shape {shape}"


@pytest.mark.parametrize("name", [name for name in TINY if name != "char_embed"])
def test_a_missing_array_is_refused(name: str, tmp_path: Path) -> None:
    assert refused(tiny_with(tmp_path, removed(name))).startswith(f"{name} is missing")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (removed("char_embed"), "no char_embed in it"),
        (removed("CNN_proj"), "CNN_proj/W_proj is missing"),
        (a_group_in_place_of_an_array, f"{LSTM}/B is missing"),
        (replaced("RNN_0", np.zeros(3, "f4")), f"{FIRST_LSTM}/W_0 is missing"),  # was a group
        (
            replaced("char_embed", np.zeros((263, 4), "f4")),
            "char_embed is of shape (263, 4), expected shape (261, 4)",
        ),
        (replaced("CNN", h5py.ExternalLink("/dev/zero", "x")), "'CNN/W_cnn_"),
    ],
)
def test_another_structure_is_refused(change: WeightsChange, problem: str, tmp_path: Path) -> None:
    """Another file or another model would be computed with."""
    assert refused(tiny_with(tmp_path, change)).startswith(problem)


@pytest.mark.parametrize(
    ("part", "change", "problem"),
    [
        ("char_cnn", {"n_highway": 0}, "holds CNN_high_0/W_carry, options.json says n_highway 0"),
        ("char_cnn", {"filters": [[1, 4]]}, "holds CNN/W_cnn_1, options.json says 1 filter"),
        ("char_cnn", {"n_highway": 2}, "CNN_high_1/W_carry is missing"),
        ("char_cnn", {"embedding": {"dim": 5}}, "char_embed is of shape (261, 4), expected shape"),
        ("lstm", {"n_layers": 3}, "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0 is missing"),
        # Sizes that no machine has are refused before memory is taken.
        ("lstm", {"dim": 10**7, "projection_dim": 10**7, "n_layers": 1000}, ""),
        ("char_cnn", {"filters": [[1, 10**7], [2, 8], [3, 16], [4, 32]]}, ""),
    ],
)
def test_options_of_another_model(
    part: str, change: dict[str, Any], problem: str, tiny: Path
) -> None:
    """A model would be computed with layers left out that its file has."""
    options = copy.deepcopy(MODELS["tiny"])
    options[part].update(change)
    path = tiny / "weights.hdf5"
    message = refused(path, partial(read_bilm, Options.from_dict(options)))
    assert problem in message


def test_fewer_lstm_layers_than_in_the_file_are_read(tiny: Path) -> None:
    """Leaving the top layer out is a published practice."""
    options = copy.deepcopy(MODELS["tiny"])
    options["lstm"]["n_layers"] = 1
    assert read_bilm(Options.from_dict(options), tiny / "weights.hdf5").options.n_layers == 1


def test_truncated_files_and_wrong_bytes(tiny: Path, tmp_path: Path) -> None:
    """Neither a traceback nor a model of zeros; h5py has many kinds of error for them."""
    content = (tiny / "weights.hdf5").read_bytes()
    path = tmp_path / "weights.hdf5"
    for fraction in (0, 0.001, 0.5, 0.99):
        path.write_bytes(content[: int(len(content) * fraction)])
        assert refused(path) in ("not an HDF5 file", "truncated")
    numbers = random.Random(1)
    n_refused = 0
    for _ in range(20):
        corrupt = bytearray(content)
        for _ in range(3):
            corrupt[numbers.randrange(2000)] = numbers.randrange(256)
        path.write_bytes(corrupt)
        try:
            tiny_of(path)
        except WeightFileError:
            n_refused += 1
    assert n_refused > 5


OPTIONS = Options(filters=((1, 4),), projection_dim=3, lstm_dim=5, n_layers=2)
H = np.zeros((2, 2, 1, 3), "f4")
C = np.zeros((2, 2, 1, 5), "f4")
W = np.zeros((4, 3), "f4")
B = np.zeros(4, "f4")
softmax_of = partial(read_softmax, n_types=4, projection=3)
state_of = partial(read_state, options=OPTIONS)


@pytest.mark.parametrize(
    ("read", "arrays", "problem"),
    [
        (softmax_of, {"other": [1.0]}, "softmax/W is missing"),
        (softmax_of, {"softmax/W": W}, "softmax/b is missing"),
        (softmax_of, {"softmax/W": np.zeros((5, 3)), "softmax/b": B}, "softmax/W is of shape (5, "),
        (softmax_of, {"softmax/W": W, "softmax/b": B[:3]}, "softmax/b is of shape (3,), expected"),
        (softmax_of, {"softmax/W": W * np.nan, "softmax/b": B}, "softmax/W has a value of nan"),
        (state_of, {"h": H}, "c is missing, expected shape (2, 2, 1, 5)"),
        (state_of, {"h": H, "c": H}, "c is of shape (2, 2, 1, 3), expected shape (2, 2, 1, 5)"),
        (state_of, {"h": H[:1], "c": C}, "h is of shape (1, 2, 1, 3)"),
        (state_of, {"h": H * np.nan, "c": C}, "h has a value of nan"),
    ],
)
def test_parts_of_another_model(
    read: ReadWeights, arrays: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    assert refused(write_arrays(tmp_path / "in.hdf5", arrays), read).startswith(problem)


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        ([f"{FIRST_LSTM}/W_0"], "biLM"),
        (["char_embed", "CNN/W_cnn_0"], "biLM"),
        (["softmax/W", "softmax/b"], "softmax"),
        (["softmax/W"], ""),
        (["char_embed"], ""),
        (["0"], ""),
    ],
)
def test_kinds(names: list[str], kind: str, tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "in.hdf5", {name: [1.0] for name in names})
    with h5py.File(path) as file:
        assert kind_of_weights(file) == kind
    assert holds_bilm(path) == ("char_embed" in names)


def test_a_file_whose_groups_cannot_be_listed_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["x"] = h5py.ExternalLink("/dev/zero", "/y")
    (tmp_path / "b.hdf5").write_bytes(b"no HDF5")
    check_data_sets([None, tmp_path / "b.hdf5"])  # its reader reports what is wrong
    with pytest.raises(WeightFileError, match="external link"):
        check_data_sets([tmp_path / "a.hdf5"])


def test_arrays_that_are_too_large_together_are_refused(tmp_path: Path) -> None:
    """A file of 100 KB can hold gigabytes of zeros, of which each array is within the limit."""
    n_rows = 1 << 24  # 64 MiB
    zeros = zlib.compress(bytes(4 * n_rows))
    path = tmp_path / "a.hdf5"
    with h5py.File(path, "w") as file:
        for number in range(6):
            dataset = file.create_dataset(
                str(number), (n_rows,), "f4", chunks=(n_rows,), compression="gzip"
            )
            dataset.id.write_direct_chunk((0,), zeros)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(WeightFileError, match="its arrays have over"):
        check_data_sets([path])
