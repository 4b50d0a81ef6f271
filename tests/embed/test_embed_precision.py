"""Files whose products were of few bits: what they say of it, and what goes on from them."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_line import elmo, made

from elmo_cli.store.reader import open_embeddings

TEXT = "".join(f"The cat saw {i} mats and {i * 7} dogs .\n" for i in range(30))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory with a text, where $ELMO_MODEL is the small model."""
    monkeypatch.setenv("ELMO_MODEL", str(tiny))
    monkeypatch.setenv("ELMO_DEVICE", "cpu")
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(TEXT)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_a_file_tells_its_precision(precision: str) -> None:
    """Without it two files of other vectors could not be told apart."""
    made("embed", "a.txt", "-o", "exact.hdf5")
    made("embed", "a.txt", "-o", "a.hdf5", "--precision", precision)
    with open_embeddings("a.hdf5") as found, open_embeddings("exact.hdf5") as exact:
        assert found.attributes["precision"] == precision
        assert "precision" not in exact.attributes
        for key in exact:
            distance = np.linalg.norm(found[key] - exact[key], axis=-1)
            lengths = np.linalg.norm(exact[key], axis=-1)
            assert (distance.max(1) > 0).all()
            assert (distance.max(1) < 0.05 * lengths.max(1)).all()
    shown = made("inspect", "a.hdf5", "--recompute", "5").out.decode()
    assert re.search(rf"precision +{precision}\n", shown)
    assert "nothing wrong" in shown


def test_a_damaged_file_of_few_bits_is_found_out() -> None:
    """The room that rounding asks for is not so wide that other vectors pass."""
    made("embed", "a.txt", "-o", "a.hdf5", "--precision", "int8")
    with h5py.File("a.hdf5", "r+") as file:
        file["3"][1, 2] += 0.1 * np.abs(file["3"][1, 2]).max()
    done = elmo("inspect", "a.hdf5", "--recompute", "30", "--no-verify")
    assert done.code == 1
    assert "sentence 3: differs from what the model computes" in done.err
