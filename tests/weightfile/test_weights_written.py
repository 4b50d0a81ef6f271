"""Writing fails as a whole: no half file, the old one untouched, no crash within HDF5."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
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
    """Without it HDF5 ends the whole process while it closes the file, or half a file stays."""
    path = tmp_path / "out.hdf5"
    path.write_bytes(b"old")
    with disk_of(n_bytes), pytest.raises(OutputError) as caught:
        WRITERS[writer](tiny_bilm, path)
    assert caught.value.message.startswith(f"{path}: ")
    assert "File too large" in caught.value.message
    assert caught.value.hint
    assert [found.name for found in tmp_path.iterdir()] == ["out.hdf5"]
    assert path.read_bytes() == b"old"


def test_folder_that_is_not_there(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it a wrong path would be a traceback after hours of training."""
    with pytest.raises(OutputError, match=r"none/out\.hdf5: "):
        write_bilm(tiny_bilm, tmp_path / "none" / "out.hdf5")
    assert list(tmp_path.iterdir()) == []


def test_file_in_the_place_of_a_folder(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it the same, where rights do not matter (root)."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=r"file/out\.hdf5: "):
        write_bilm(tiny_bilm, tmp_path / "file" / "out.hdf5")


def test_folder_of_that_name(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it the renaming would fail and leave out.hdf5.part."""
    (tmp_path / "out.hdf5").mkdir()
    with pytest.raises(OutputError, match="Is a directory"):
        write_bilm(tiny_bilm, tmp_path / "out.hdf5")
    assert [found.name for found in tmp_path.iterdir()] == ["out.hdf5"]


def test_whole_file_replaces_the_old_one(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it a new checkpoint could not take the place of the last."""
    path = tmp_path / "out.hdf5"
    path.write_bytes(b"old")
    write_bilm(tiny_bilm, path)
    assert [found.name for found in tmp_path.iterdir()] == ["out.hdf5"]
    assert read_bilm(tiny_bilm.options, path).options == tiny_bilm.options


def test_values_beyond_float16_are_refused(tiny: Path, tmp_path: Path) -> None:
    """They became infinite, and our own reader refused the file after hours of training."""
    bilm = read_bilm(tiny / "options.json", tiny / "weights.hdf5")
    head = NextToken(3, 4)
    with torch.no_grad():
        bilm.state_dict()["char_cnn.projection.bias"][1] = -70_000
        head.bias[2] = 1e5
    path = tmp_path / "out.hdf5"
    with pytest.raises(OutputError) as caught:
        write_bilm(bilm, path, dtype="float16")
    assert caught.value.message == (
        f"{path}: CNN_proj/b_proj has a value beyond float16, the greatest is 70000"
    )
    assert caught.value.hint == '`dtype="float32"` holds it'
    with pytest.raises(OutputError, match="softmax/b has a value beyond float16"):
        write_softmax(head, path, dtype="float16")
    assert list(tmp_path.iterdir()) == []
    write_bilm(bilm, path)


def test_same_weights_make_the_same_bytes(tiny_bilm: BiLM, tmp_path: Path) -> None:
    """Without it the sha256 of a model would change each time it is written."""
    for name in ("a.hdf5", "b.hdf5"):
        write_bilm(tiny_bilm, tmp_path / name)
    assert (tmp_path / "a.hdf5").read_bytes() == (tmp_path / "b.hdf5").read_bytes()
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert "char_embed" in file
