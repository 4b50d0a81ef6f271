"""`elmo train` and `elmo predict`, killed before any call that changes a file, then repeated."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest
import torch
from command_line import made
from killed_commands import KilledCommand
from ner_runs import weights_of

DATA = ("train.conll", "dev.conll", "words.txt")
TRAIN = ("train", "ner", "--train", "train.conll", "--dev", "dev.conll")
WORDS = (*TRAIN, "--epochs", 2, "-q")
SIZES = ("--word-vectors", "words.txt", "--set", "hidden=4", "--set", "char_filters=2", "-o", "out")


@pytest.fixture
def data(folder: None, tmp_path: Path) -> Path:
    """The files of `folder`, in a folder of their own."""
    path = tmp_path / "data"
    path.mkdir()
    for name in DATA:
        shutil.move(tmp_path / name, path / name)
    return path


def files_of_model(folder: Path) -> dict[str, bytes]:
    """The content of all files that do not contain a duration; parts.json has digests of others."""
    paths = [folder / "out" / "parts.json", *sorted((folder / "out/vectors").glob("*"))]
    return {path.name: path.read_bytes() for path in paths}


def training(data: Path, *words: object) -> KilledCommand:
    def prepare(folder: Path) -> None:
        for name in DATA:
            shutil.copy(data / name, folder / name)

    return KilledCommand((*WORDS, *SIZES, *words), prepare, files_of_model)


@pytest.mark.parametrize(
    ("elmo", "is_exhaustive"),
    [
        ("none", False),
        pytest.param("none", True, marks=pytest.mark.slow),
        pytest.param("all", True, marks=pytest.mark.slow),
    ],
)
def test_killed_training_ends_as_if_undisturbed(
    elmo: str, is_exhaustive: bool, data: Path, tmp_path: Path
) -> None:
    n_runs = training(data, "--elmo", elmo).check(tmp_path, is_exhaustive=is_exhaustive)
    print(f"train, --elmo {elmo}: {n_runs} runs killed")


@pytest.fixture
def finished(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data and a finished run without ELMo, with other settings."""
    path = shutil.copytree(data, tmp_path / "finished")
    monkeypatch.chdir(path)
    made(*WORDS, *SIZES, "--elmo", "none", "--seed", 5)
    (path / "out" / "mine.txt").write_text("a file of the user")
    return path


@pytest.mark.parametrize(
    "is_exhaustive", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["sample", "all"]
)
@pytest.mark.parametrize("option", ["--overwrite", "--resume"])
def test_killed_while_a_run_is_replaced_or_resumed(
    option: str, is_exhaustive: bool, finished: Path, tmp_path: Path
) -> None:
    """The run that is replaced has other settings; the one that is resumed lacks its last epoch.

    Once its settings are written, a run that replaces another has the files of a new run, and the
    same command replaces any. Therefore the quick test does not kill it after the next file.
    """

    def prepare(folder: Path) -> None:
        shutil.copytree(finished, folder, dirs_exist_ok=True)
        if option == "--resume":
            (folder / "out" / "scores.json").unlink()
            (folder / "out" / "word_vectors.npz").write_bytes(b"cut")

    seed = 5 if option == "--resume" else 6
    words = (*WORDS, *SIZES, "--elmo", "none", "--seed", seed, option)
    is_cut = option == "--overwrite" and not is_exhaustive
    n_runs = KilledCommand(words, prepare, files_of_model).check(
        tmp_path,
        is_exhaustive=is_exhaustive,
        last_call="os.rename out/word_vectors.npz" if is_cut else "",
    )
    print(f"train {option}: {n_runs} runs killed")


@pytest.mark.parametrize(
    "is_exhaustive", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["sample", "all"]
)
def test_killed_predictions_are_complete_or_absent(
    is_exhaustive: bool, finished: Path, tmp_path: Path
) -> None:
    def prepare(folder: Path) -> None:
        (folder / "new.txt").write_text("Anna likes Oslo\nit rains\n" * 40)

    def predicted(folder: Path) -> bytes:
        return (folder / "new.conll").read_bytes()

    words = ("predict", finished / "out", "new.txt", "-o", "new.conll", "-q")
    n_runs = KilledCommand(words, prepare, predicted).check(tmp_path, is_exhaustive=is_exhaustive)
    print(f"predict -o: {n_runs} runs killed")


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_weights(embedded: None) -> None:
    """`kill -9` at five random moments of a run, each resumed by the command."""
    words = [*(sys.executable, "-m", "elmo_cli", *TRAIN, "--epochs", "40")]
    words += ["--embeddings", "vectors", "--set", "hidden=5", "--patience", "40", "-q"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    begun = time.monotonic()
    subprocess.run([*words, "-o", "whole"], env=env, check=True)
    duration = time.monotonic() - begun
    random = Random(0)
    for _ in range(5):
        mode = ["--resume"] if Path("killed/task.json").exists() else ["--overwrite"]
        process = subprocess.Popen([*words, "-o", "killed", *mode], env=env)
        try:
            process.wait(random.uniform(0.5, 1.0) * duration)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    mode = ["--resume"] if Path("killed/task.json").exists() else ["--overwrite"]
    subprocess.run([*words, "-o", "killed", *mode], env=env, check=True)
    expected = weights_of("whole")
    found = weights_of("killed")
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
