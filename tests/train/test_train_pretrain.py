"""`elmo pretrain` as a whole: from text files to a model folder that can be loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result

from elmo_cli.cli.pretrain import pretrain
from elmo_cli.errors import OutputError, ResumeError, TrainingError, UsageError
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.weightfile.read import read_bilm
from elmo_cli.weightfile.softmax_file import read_softmax

LINES = [f"the cat number {i % 7} sees the dog {'again ' * (i % 3)}." for i in range(120)]
SIZES = ["--cell", "24", "--projection", "12", "--rows", "4", "--threads", "1"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


def run(*arguments: str | Path, **more: Any) -> Result:
    return CliRunner().invoke(pretrain, [str(a) for a in arguments], catch_exceptions=False, **more)


def test_a_model_folder_comes_out(text: Path, tmp_path: Path) -> None:
    """Weights, options, softmax and vocabulary must fit each other, or nothing loads them."""
    out = tmp_path / "model"
    result = run(
        text, "-o", out, "--heldout", text, "--max-steps", "3", "--min-count", "1", "--json", *SIZES
    )
    facts = json.loads(result.stdout)
    assert facts["heldout"]["predictions"] > 0
    assert facts["tokens"] == 3 * 4 * 20
    assert json.loads((out / "options.json").read_text())["char_cnn"]["n_characters"] == 262
    bilm = read_bilm(out / "options.json", out / "weights.hdf5")
    vocabulary = Vocabulary.read(out / "vocab.txt")
    assert vocabulary.types[3:6] == ("the", ".", "again")
    head = read_softmax(out / "softmax.hdf5", n_types=len(vocabulary), projection=12)
    saved = torch.load(out / "checkpoint.pt", weights_only=True)["model"]
    for name, value in bilm.state_dict().items():
        assert torch.equal(saved[f"bilm.{name}"], value)
    assert torch.equal(saved["head.weight"], head.weight)


def test_raw_text_is_tokenised(tmp_path: Path) -> None:
    """Without it the vocabulary would hold `dog.` and `don't`."""
    raw = tmp_path / "raw.txt"
    raw.write_text("I don't see the dog. It's gone.\n" * 40)
    out = tmp_path / "model"
    run(raw, "--tokenize", "-o", out, "--max-steps", "1", *SIZES)
    assert {"n't", "'s", "dog", "."} <= set(Vocabulary.read(out / "vocab.txt").types)


def test_an_old_run_is_not_overwritten_unasked(text: Path, tmp_path: Path) -> None:
    """Without it a slip would cost an hour of training."""
    out = tmp_path / "model"
    run(text, "-o", out, "--max-steps", "1", *SIZES)
    with pytest.raises(OutputError, match=r"holds checkpoint\.pt of an earlier run"):
        run(text, "-o", out, "--max-steps", "1", *SIZES)
    run(text, "-o", out, "--max-steps", "2", "--resume", *SIZES)
    assert torch.load(out / "checkpoint.pt", weights_only=True)["progress"]["step"] == 2
    run(text, "-o", out, "--max-steps", "1", "--overwrite", *SIZES)
    assert torch.load(out / "checkpoint.pt", weights_only=True)["progress"]["step"] == 1


def test_another_text_cant_be_resumed_with(text: Path, tmp_path: Path) -> None:
    """Without it the run would go on at a place of another text."""
    out = tmp_path / "model"
    run(text, "-o", out, "--max-steps", "1", *SIZES)
    text.write_text("\n".join(LINES[::-1]) + "\n")
    with pytest.raises(ResumeError, match="made with text"):
        run(text, "-o", out, "--max-steps", "2", "--resume", *SIZES)


def test_no_limit_and_no_text_are_told(text: Path, tmp_path: Path) -> None:
    """Without it training would never end, or fail with an error about shapes."""
    with pytest.raises(UsageError, match="neither --max-seconds nor --max-steps"):
        run(text, "-o", tmp_path / "model", *SIZES)
    text.write_text("\n\n")
    with pytest.raises(TrainingError, match="no sentence"):
        run(text, "-o", tmp_path / "model", "--max-steps", "1", *SIZES)
    assert not (tmp_path / "model").exists()


def test_options_file_gives_the_sizes(text: Path, tmp_path: Path, tiny: Path) -> None:
    """Without it a published size could not be trained."""
    out = tmp_path / "model"
    options = tiny / "options.json"
    run(text, "-o", out, "--max-steps", "1", "--rows", "4", "--options", options)
    assert json.loads((out / "options.json").read_text()) == json.loads(options.read_text())
