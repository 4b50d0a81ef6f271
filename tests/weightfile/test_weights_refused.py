"""Weight files that are corrupt, foreign, or of other sizes than their options state."""

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

from elmo_cli.errors import WeightFileError
from elmo_cli.model.options import Options
from elmo_cli.weightfile.describe import weight_problems
from elmo_cli.weightfile.read import read_bilm

TINY = weight_arrays(MODELS["tiny"], "tiny")
LSTM = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"
FIRST_LSTM = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
Change = Callable[[h5py.File], object]


def refused(path: Path, options: dict[str, Any] | None = None) -> str:
    """What is said of a weight file, without its name."""
    start = time.monotonic()
    with pytest.raises(WeightFileError) as caught:
        read_bilm(Options.from_dict(options or MODELS["tiny"]), path)
    assert time.monotonic() - start < 10
    assert caught.value.message.startswith(f"{path}: ")
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value.message.removeprefix(f"{path}: ")


def tiny_with(tmp_path: Path, change: Change) -> Path:
    path = write_arrays(tmp_path / "weights.hdf5", TINY)
    with h5py.File(path, "a") as file:
        change(file)
    return path


def replaced(name: str, value: object = None, **more: Any) -> Change:
    """Put other values, a data set of other properties, or a group in the place of an array."""

    def change(file: h5py.File) -> None:
        old = file.pop(name) if name in file else None
        shape = getattr(old, "shape", None)
        if value is not None:
            file[name] = value
        elif more:
            file.create_dataset(name, **{"shape": shape, "dtype": "f4"} | more)
        else:
            file.create_group(name)

    return change


def removed(name: str) -> Change:
    return lambda file: file.pop(name)


def spoiled(name: str, number: float) -> Change:
    """Change the last value of an array."""

    def change(file: h5py.File) -> None:
        dataset = file[name]
        dataset[tuple(size - 1 for size in dataset.shape)] = number

    return change


def half_written(file: h5py.File) -> None:
    values = TINY[f"{LSTM}/W_0"]
    replaced(f"{LSTM}/W_0", chunks=(8, 64), compression="gzip")(file)
    file[f"{LSTM}/W_0"][:8] = values[:8]


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((8,), "f4")
    layout[:] = h5py.VirtualSource("missing.hdf5", "x", (8,))
    del file["CNN_proj/b_proj"]
    file.create_virtual_dataset("CNN_proj/b_proj", layout)


BIAS = "CNN_proj/b_proj"
VALUES: dict[str, tuple[Change, str]] = {
    **{
        f"{name} with {number}": (spoiled(name, number), f"{name} has values that are NaN or")
        for number in (np.nan, np.inf, -np.inf)
        for name in ("char_embed", "CNN/b_cnn_2", f"{LSTM}/W_0", f"{LSTM}/W_P_0")
    },
    **{
        f"values of {kind}": (replaced(BIAS, np.zeros(8, kind)), f"{BIAS} holds {named}, not float")
        for kind, named in (("i4", "int32"), ("u1", "uint8"), ("c8", "complex64"), ("S3", "|S3"))
    },
    "a double beyond float32": (replaced(BIAS, np.full(8, 1e300)), f"{BIAS} has values that are"),
    "values of 3e38": (spoiled(f"{LSTM}/B", -3e38), f"{LSTM}/B has a value of 3e+38"),
    "never written": (replaced(BIAS, dtype="f4"), f"'{BIAS}' was never written"),
    "half written": (half_written, f"'{LSTM}/W_0' was not written in full: 1 of 2 chunks"),
    "virtual": (virtual, f"'{BIAS}' has virtual storage"),
    "external storage": (
        replaced(BIAS, shape=8, external=[("/dev/zero", 0, 32)]),
        f"'{BIAS}' has external storage",
    ),
    "lossy filter": (
        replaced("char_embed", data=TINY["char_embed"], scaleoffset=2),
        "'char_embed' is stored with filter",
    ),
}
LINKS: dict[str, tuple[Change, str]] = {
    "external link": (
        replaced(BIAS, h5py.ExternalLink("other.hdf5", "x")),
        f"'{BIAS}' is an external link",
    ),
    "external link to a group": (
        replaced("CNN", h5py.ExternalLink("/dev/zero", "x")),
        "is an external link",
    ),
    "dangling": (replaced(BIAS, h5py.SoftLink("/x")), f"'{BIAS}' is a soft link to a name"),
}
STRUCTURE: dict[str, tuple[Change, str]] = {
    **{
        f"{name} of another shape": (
            replaced(name, np.zeros((*array.shape[:-1], array.shape[-1] + 1), "f4")),
            f"{name} has shape {(*array.shape[:-1], array.shape[-1] + 1)}, options.json asks "
            f"for {array.shape}",
        )
        for name, array in TINY.items()
    },
    **{
        f"{name} missing": (removed(name), name)
        for name in TINY
        if name not in ("char_embed", f"{FIRST_LSTM}/W_P_0")
    },
    "no char_embed": (
        removed("char_embed"),
        "no char_embed in it, so these are not biLM weights (found CNN, ",
    ),
    "no W_P_0": (
        removed(f"{FIRST_LSTM}/W_P_0"),
        f"{FIRST_LSTM}/W_P_0 is missing, and dim 16 is not projection_dim 8",
    ),
    "no CNN_proj": (
        removed("CNN_proj"),
        "CNN_proj is missing, and 60 filters are not projection_dim 8",
    ),
    **{
        f"{n} characters": (
            replaced("char_embed", np.zeros((n, 4), "f4")),
            f"char_embed has shape ({n}, 4), options.json asks for (261, 4)",
        )
        for n in (260, 263)
    },
    **{
        f"group {name}": (replaced(name), f"{name} is a group, not an array")
        for name in ("char_embed", "CNN/W_cnn_1", f"{LSTM}/B")
    },
    **{
        f"array {name}": (replaced(name, np.zeros(3, "f4")), " is missing")
        for name in ("CNN", "CNN_high_0", "CNN_proj", "RNN_0", "RNN_1")
    },
}


@pytest.mark.parametrize("case", VALUES | LINKS | STRUCTURE)
def test_a_changed_file_is_refused(case: str, tmp_path: Path) -> None:
    """Without it zeros, another file or another model would be computed with."""
    change, part = (VALUES | LINKS | STRUCTURE)[case]
    message = refused(tiny_with(tmp_path, change))
    may_be_inside = case.startswith((*TINY, "array", "external link"))
    assert message.startswith(part) or (may_be_inside and part in message)


@pytest.mark.parametrize("case", VALUES)
def test_inspect_and_embed_have_one_check(case: str, tmp_path: Path) -> None:
    """`inspect` said that nothing is wrong with weights that `embed` refused."""
    path = tiny_with(tmp_path, VALUES[case][0])
    with h5py.File(path) as file:
        assert list(weight_problems(file)) == [refused(path)]


@pytest.mark.parametrize(
    ("part", "change", "said"),
    [
        ("char_cnn", {"n_highway": 0}, "holds CNN_high_0, options.json says n_highway 0"),
        ("char_cnn", {"filters": [[1, 4]]}, "holds CNN/W_cnn_1, options.json says 1 filters"),
        ("char_cnn", {"n_highway": 2}, "CNN_high_1/W_carry is missing"),
        ("char_cnn", {"embedding": {"dim": 5}}, "char_embed has shape (261, 4), options.json asks"),
        ("lstm", {"n_layers": 3}, "RNN_0/RNN/MultiRNNCell/Cell2/LSTMCell/W_0 is missing"),
        # Sizes that no machine has are refused before memory is taken.
        ("lstm", {"dim": 10**7}, ""),
        ("lstm", {"projection_dim": 10**7}, ""),
        ("lstm", {"n_layers": 1000}, ""),
        ("char_cnn", {"n_highway": 1000}, ""),
        ("char_cnn", {"embedding": {"dim": 10**7}}, ""),
        ("char_cnn", {"filters": [[1, 10**7], [2, 8], [3, 16], [4, 32]]}, ""),
    ],
)
def test_options_of_another_model(part: str, change: dict[str, Any], said: str, tiny: Path) -> None:
    """Without it a model would be computed with layers left out that its file has."""
    options = copy.deepcopy(MODELS["tiny"])
    options[part].update(change)
    assert said in refused(tiny / "weights.hdf5", options)


def test_fewer_lstm_layers_than_in_the_file_are_read(tiny: Path) -> None:
    """Leaving the top layer out is a published practice."""
    options = copy.deepcopy(MODELS["tiny"])
    options["lstm"]["n_layers"] = 1
    assert read_bilm(Options.from_dict(options), tiny / "weights.hdf5").options.n_layers == 1


def test_an_optional_matrix_in_one_layer_only(tmp_path: Path) -> None:
    """The file must not decide for all layers by its first one alone."""
    arrays = weight_arrays(SHAPES["no W_P_0"], "any")
    arrays[f"{FIRST_LSTM}/W_P_0"] = np.zeros((6, 6), "f4")
    path = write_arrays(tmp_path / "weights.hdf5", arrays)
    said = refused(path, SHAPES["no W_P_0"])
    assert said == "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/W_P_0 is missing"


def test_values_that_a_small_file_only_claims(tmp_path: Path) -> None:
    """Compressed zeros of gigabytes must not take memory."""
    options = copy.deepcopy(MODELS["tiny"])
    options["lstm"]["dim"] = 3 * 10**6
    path = write_arrays(tmp_path / "weights.hdf5", TINY)
    with h5py.File(path, "a") as file:
        shape = (16, 12 * 10**6)
        del file[f"{FIRST_LSTM}/W_0"]
        file.create_dataset(f"{FIRST_LSTM}/W_0", shape, "f4", chunks=(16, 10**6), compression=9)
        for begin in range(0, shape[1], 10**6):
            file[f"{FIRST_LSTM}/W_0"][:, begin : begin + 10**6] = 0
    with h5py.File(path) as file:
        assert any("claims" in problem for problem in weight_problems(file))


FOREIGN: dict[str, tuple[bytes | None, str]] = {
    "empty": (b"", "not a readable HDF5 file"),
    "zip": (b"PK\x03\x04", "not a readable HDF5 file"),
    "only the first bytes": (b"\x89HDF\r\n\x1a\n", "not a readable HDF5 file"),
    "text": (b"# a text\n" * 100, "not a readable HDF5 file"),
    "pickle": (b"\x80\x02}q\x00.", "not a readable HDF5 file"),
    "missing": (None, "no such weight file"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_a_file_that_is_not_hdf5(case: str, tmp_path: Path) -> None:
    content, part = FOREIGN[case]
    path = tmp_path / "weights.hdf5"
    if content is not None:
        path.write_bytes(content)
    assert part in refused(path)


@pytest.mark.parametrize("target", [".", "/dev/zero"])
def test_a_folder_or_a_device(target: str, tmp_path: Path) -> None:
    """A device is read until memory ends."""
    path = tmp_path / "weights.hdf5"
    path.symlink_to(target)
    assert ("a folder" if target == "." else "not a regular file") in refused(path)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.99])
def test_a_truncated_file(share: float, tiny: Path, tmp_path: Path) -> None:
    """A download that broke must be neither a traceback nor a model of zeros."""
    content = (tiny / "weights.hdf5").read_bytes()
    path = tmp_path / "weights.hdf5"
    path.write_bytes(content[: int(len(content) * share)])
    assert "not a readable HDF5 file" in refused(path)


def test_hdf5_of_something_else(tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "weights.hdf5", {str(n): np.zeros((3, 2, 4)) for n in range(9)})
    assert "not biLM weights (found 0, 1, 2, 3, …)" in refused(path)
    path = write_arrays(tmp_path / "empty.hdf5", {})
    assert "not biLM weights (found nothing)" in refused(path)


def test_a_few_wrong_bytes_in_the_metadata(tiny: Path, tmp_path: Path) -> None:
    """h5py has many kinds of error for them."""
    content, numbers = (tiny / "weights.hdf5").read_bytes(), random.Random(1)
    path, n_refused = tmp_path / "weights.hdf5", 0
    for _ in range(60):
        corrupt = bytearray(content)
        for _ in range(3):
            corrupt[numbers.randrange(2000)] = numbers.randrange(256)
        path.write_bytes(corrupt)
        try:
            read_bilm(Options.from_dict(MODELS["tiny"]), path)
        except WeightFileError:
            n_refused += 1
    assert n_refused > 20


def test_a_corrupt_chunk_is_named(tmp_path: Path) -> None:
    path = tmp_path / "weights.hdf5"
    with h5py.File(path, "w") as file:
        for name, array in TINY.items():
            file.create_dataset(name, data=array, compression="gzip", fletcher32=True)
        offset = file["CNN_proj/W_proj"].id.get_chunk_info(0).byte_offset
    read_bilm(Options.from_dict(MODELS["tiny"]), path)
    corrupt = bytearray(path.read_bytes())
    corrupt[offset + 20] ^= 0xFF
    path.write_bytes(corrupt)
    assert "CNN_proj/W_proj can't be read" in refused(path)
    with h5py.File(path) as file:
        assert len(list(weight_problems(file))) == 1
