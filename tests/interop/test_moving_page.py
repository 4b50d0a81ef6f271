"""The commands of docs/guides/moving.md give the recorded outputs of the programs they replace."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_line import made
from tolerance import ATOL

from elmo_cli import open_embeddings
from elmo_cli.arrays import FloatArray

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "moving.md"
N_LINES = 31  # of the recorded text; the next one contains a character that elmo refuses


def replacement(old: str) -> list[str]:
    """The words in the second column of the row of an old call."""
    (words,) = re.findall(rf"^\| `{re.escape(old)}` \| `([^`]*)`", PAGE.read_text("utf-8"), re.M)
    return shlex.split(words)


def all_layers(layers: FloatArray) -> FloatArray:
    return layers


def top_layer(layers: FloatArray) -> FloatArray:
    return layers[-1]


def mean_of_layers(layers: FloatArray) -> FloatArray:
    return layers.mean(axis=0)


@pytest.mark.parametrize(
    ("flag", "combine"),
    [("", all_layers), ("--top", top_layer), ("--average", mean_of_layers)],
    ids=["--all", "--top", "--average"],
)
def test_the_command_of_allennlp(
    flag: str,
    combine: Callable[[FloatArray], FloatArray],
    tiny: Path,
    golden: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = (golden / "sentences.txt").read_text("utf-8").splitlines()
    Path("in.txt").write_text("\n".join(lines[:N_LINES]) + "\n", "utf-8")
    words = replacement("allennlp elmo in.txt out.hdf5 --all")[1:]
    if flag:
        words += replacement(flag)
    made(*words, "-q", "-m", tiny, "--device", "cpu")
    with (
        open_embeddings("out.hdf5") as found,
        h5py.File(golden / "expected" / "tiny.hdf5") as expected,
    ):
        assert len(found) == N_LINES
        for key in range(N_LINES):
            layers = combine(expected[str(key)][...])
            close(found[key].reshape(layers.shape), layers, ATOL["fast", "float32"])


def test_the_state_that_allennlp_carries(
    tiny: Path, golden: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the batch size of the recording, which is 3."""
    monkeypatch.chdir(tmp_path)
    batches = json.loads((golden / "expected" / "carry_batches.json").read_text())["carry_a"]
    lines = (golden / "sentences.txt").read_text("utf-8").splitlines()
    text = [lines[number] for batch in batches for number in batch]
    Path("in.txt").write_text("\n".join(text) + "\n", "utf-8")
    words = [word.replace("64", "3") for word in replacement("--batch-size 64")]
    made("embed", "in.txt", "-o", "out.hdf5", *words, "-q", "-m", tiny, "--device", "cpu")
    with (
        open_embeddings("out.hdf5") as found,
        h5py.File(golden / "expected" / "carry_a_tiny.hdf5") as expected,
    ):
        for key in range(len(text)):
            close(found[key], expected[str(key)][...], ATOL["fast", "float32"])


def close(found: FloatArray, expected: FloatArray, atol: float) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)
