"""Writing fails as a whole: no half file, the old one untouched, no crash within HDF5."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from disks import disk_of

from elmo_cli.errors import OutputError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.softmax import NextToken
from elmo_cli.model.state import State
from elmo_cli.weightfile.read import read_bilm
from elmo_cli.weightfile.write import write_bilm, write_softmax, write_state

WRITERS: dict[str, Callable[[BiLM, Path], None]] = {
    "weights": write_bilm,
    "softmax": lambda bilm, path: write_softmax(NextToken(1000, 8), path),
    "state": lambda bilm, path: write_state(State.zeros(bilm.options, 1), path),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("n_bytes", [0, 1, 1500])
def test_full_disk_leaves_nothing_behind(
    writer: str, n_bytes: int, tiny_bilm: BiLM, tmp_path: Path
) -> None:
    path = tmp_path / "out.hdf5"
    path.write_bytes(b"old")
    with disk_of(n_bytes), pytest.raises(OutputError) as caught:
        WRITERS[writer](tiny_bilm, path)
    assert caught.value.message.startswith(f"{path}: ")
    assert "File too large" in caught.value.message
    assert caught.value.hint
    assert [found.name for found in tmp_path.iterdir()] == ["out.hdf5"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["none/out.hdf5", "file/out.hdf5", "folder"])
def test_a_path_that_cannot_be_written(name: str, tiny_bilm: BiLM, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=f"{name}: "):
        write_bilm(tiny_bilm, tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


def test_values_beyond_float16_are_refused(tiny: Path, tmp_path: Path) -> None:
    """They would become infinite, and our own reader would refuse the file."""
    bilm = read_bilm(tiny / "options.json", tiny / "weights.hdf5")
    softmax = NextToken(3, 4)
    with torch.no_grad():
        bilm.state_dict()["char_cnn.projection.bias"][1] = -70_000
        softmax.bias[2] = 1e5
    path = tmp_path / "out.hdf5"
    for write, name in (
        (partial(write_bilm, bilm), "CNN_proj/b_proj"),
        (partial(write_softmax, softmax), "softmax/b"),
    ):
        with pytest.raises(OutputError, match=f"{name} has a value beyond float16") as caught:
            write(path, dtype="float16")
        assert caught.value.hint == '`dtype="float32"` holds it'
    assert list(tmp_path.iterdir()) == []


def test_same_weights_make_the_same_bytes(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """The sha256 of a model must not change each time it is written."""
    (tmp_path / "b.hdf5").write_bytes(b"old")
    for name in ("a.hdf5", "b.hdf5"):
        write_bilm(tiny_bilm, tmp_path / name)
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()
