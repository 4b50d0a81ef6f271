"""A held-out text is only measured, also where it is named among the texts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from training_commands import Command, refused

from elmo_cli.lm.pretrain_config import RECIPE_FILE
from elmo_cli.lm.settings import TextSettings
from elmo_cli.lm.training_text import TrainingText
from elmo_cli.text.input import InputReport

SIZES = (
    "--lstm-dim",
    8,
    "--projection-dim",
    4,
    "--batch-size",
    2,
    "--threads",
    1,
    "--max-steps",
    1,
)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two texts without a word in common, and other names of the second."""
    for name, word in (("a", "cat"), ("dev", "dog")):
        (tmp_path / f"{name}.txt").write_text(f"{word} {word} {word}\n" * 40)
    (tmp_path / "link.txt").symlink_to(tmp_path / "dev.txt")
    os.link(tmp_path / "dev.txt", tmp_path / "other.txt")
    return tmp_path


@pytest.fixture
def elmo_pretrain(capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(capsys, "pretrain")


@pytest.mark.parametrize("name", ["dev.txt", "link.txt", "other.txt"])
def test_a_held_out_file_is_not_learned(name: str, data: Path) -> None:
    """Its perplexity would tell how well it was learned by heart."""
    files = TextSettings((str(data / "a.txt"), str(data / name)), (str(data / "dev.txt"),))
    text = TrainingText.read(files, max_characters=50, notes=InputReport())
    assert text.corpus.types[2:] == ("cat",)
    assert text.heldout is not None
    assert text.heldout.types[2:] == ("dog",)


def test_what_is_left_out_is_told(data: Path, elmo_pretrain: Command) -> None:
    """And the recipe repeats the command as it was given."""
    heldout = ("--heldout", data / "dev.txt", *SIZES)
    both = (data / "a.txt", data / "other.txt")
    code, _, said = elmo_pretrain(*both, "-o", data / "m", *heldout)
    assert code == 0
    first, second, *_ = said.splitlines()
    assert first == f"held out, so not trained on: {both[1]}"
    assert second == "text: 40 sentences, 120 tokens; held out 120 tokens"
    assert json.loads((data / "m" / RECIPE_FILE).read_text())["texts"] == [
        "../a.txt",
        "../other.txt",
    ]
    told = elmo_pretrain(both[1], "-o", data / "n", *heldout)
    refused(told, "only held-out text, so nothing is left to train on", "`--heldout`", 2)
    assert not (data / "n").exists()
