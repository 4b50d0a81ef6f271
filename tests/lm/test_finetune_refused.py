"""What `elmo finetune` refuses: one clear message each, before any work, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from make_weights import MODELS, write_model
from training_commands import Command, refused

from elmo_cli.errors import OutputError
from elmo_cli.lm.tuning_folder import TuningFolder
from elmo_cli.text.vocabulary import Vocabulary

TEXT = [f"the cat number {k} sees the dog {'again ' * (k % 3)}." for k in range(60)]
SHORT = ["--batch-size", "2", "--max-steps", "2", "--threads", "1", "--device", "cpu", "--quiet"]


@pytest.fixture
def domain(tmp_path: Path) -> Path:
    folder = tmp_path / "domain"
    folder.mkdir()
    (folder / "a.txt").write_text("\n".join(TEXT) + "\n")
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """`tiny` with a softmax of six types and its vocabulary."""
    folder = write_model(tmp_path / "model", MODELS["tiny"], "tiny")
    Vocabulary(["<S>", "</S>", "<UNK>", "the", "cat", "dog"]).write(folder / "vocab.txt")
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = np.eye(6, 8), np.zeros(6)
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], domain: Path, model: Path, out: Path) -> Command:
    """A run that nothing is wrong with, but for what is added."""
    return Command(
        capsys, "finetune", *map(str, ("--domain", domain, "-m", model, "-o", out)), *SHORT
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(f): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def test_domains_that_are_none(
    run: Command, capsys: pytest.CaptureFixture[str], tmp_path: Path, model: Path, out: Path
) -> None:
    """Training on nothing would end in an error about shapes, or in a model that is no better."""
    text, empty = tmp_path / "text.txt", tmp_path / "empty"
    empty.mkdir()
    finetune = Command(capsys, "finetune", "-m", str(model), "-o", str(out), *SHORT)
    refused(finetune(), "missing option '--domain'", "`elmo finetune --help`", 2)
    refused(finetune("--domain", empty), "empty: contains no files", ".txt")
    refused(finetune("--domain", tmp_path / "none"), "none: no such file", "check the name")
    for lines, says, hint in (
        (["One sentence only ."], "the domain: 1 sentence, too few or", "`--heldout FILE`"),
        (["", ""], "text.txt: no sentence in it", "a text with tokens"),
        ([f"{k} ." for k in range(20)], "38 tokens are less than one batch", "`--batch-size 2`"),
    ):
        text.write_text("\n".join(lines) + "\n")
        rows = ["--batch-size", "8"]
        refused(finetune("--domain", text, *rows), says, hint)
    refused(
        run("--heldout", tmp_path / "domain" / "a.txt"),
        "contains no text to train on",
        "--heldout",
        2,
    )
    assert not out.exists()


def test_a_vocabulary_of_nothing(run: Command, model: Path, out: Path) -> None:
    """The perplexity of nothing but `<UNK>` is as low as can be, and tells nothing."""
    for name in ("softmax.hdf5", "vocab.txt"):
        (model / name).unlink()
    says = "`--min-count 5000`: the most frequent type of the text occurs"
    refused(run("--min-count", "5000"), says, "a smaller number", 2)
    assert not out.exists()


def test_models_that_do_not_fit(run: Command, model: Path, out: Path, tmp_path: Path) -> None:
    """Parts of two models would give numbers, and all of them wrong."""
    vocabulary = tmp_path / "types.txt"
    vocabulary.write_text("the\ncat\n")
    refused(run("--vocabulary", vocabulary), "<S> is not among the types", "<S>, </S>, <UNK>")
    vocabulary.write_text("<S>\n</S>\n<UNK>\nthe\n")
    refused(
        run("--vocabulary", vocabulary),
        "softmax/W is of shape (6, 8), the model asks for (4, 8)",
        "must come from one model",
    )
    (model / "vocab.txt").unlink()
    refused(run(), "no vocab.txt beside weights.hdf5", "`--vocabulary FILE`")
    options = json.loads((model / "options.json").read_text())
    options["lstm"]["dim"] = 32
    (model / "options.json").write_text(json.dumps(options))
    refused(
        run("--fit-softmax"), "weights.hdf5: RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell", "one model"
    )
    assert not out.exists()


def test_bounds_that_bound_nothing(run: Command, model: Path, out: Path, tmp_path: Path) -> None:
    """A vocabulary or a fit would be thought smaller than it is."""
    for name in ("--min-count", "--vocabulary-size"):
        says = f"{name}: has no meaning, as the types are those of"
        refused(run(name, "5"), f"{says} the model", "leave it out", 2)
        refused(run(name, "5", "--fit-softmax"), f"{says} the model", "leave it out", 2)
        named = ("--vocabulary", model / "vocab.txt")
        refused(run(name, "5", *named), f"{says} {named[1]}", "leave it out", 2)
    says = "--softmax-tokens: has no meaning with the softmax of the model"
    refused(run("--softmax-tokens", "7"), says, "`--fit-softmax` fits a new one", 2)
    assert not out.exists()
    assert run("--softmax-tokens", "7", "--fit-softmax")[0] == 0


def test_a_softmax_beyond_all_numbers_has_null_for_its_perplexity(
    run: Command, model: Path, out: Path
) -> None:
    """`Infinity` is no JSON."""
    with h5py.File(model / "softmax.hdf5", "r+") as file:
        file["softmax/b"][5] = 1e5
    code, said, _ = run("--fit-softmax", "--json")
    assert code == 0
    found = json.loads(said)
    assert found["before_model_softmax"]["perplexity"]["average"] is None
    assert found["before"]["perplexity"]["average"] > 1


def test_places_that_hold_something(run: Command, model: Path, out: Path, domain: Path) -> None:
    """A model, a text or another run in the place of the output must survive, whatever is said."""
    before = files(model)
    found = run("-o", model, "--overwrite")
    refused(found, "model: holds weights.hdf5, which fine-tuning begins with", "`-o DIR`", 2)
    assert files(model) == before
    refused(run("--resume", "--overwrite"), "--overwrite and --resume", "leave out", 2)
    refused(run("-o", domain, "--overwrite"), "domain: holds a.txt and no fine-tuned", "`-o DIR`")
    refused(run("-o", domain / "a.txt"), "a.txt: a file, not a folder", "`-o`")
    refused(run("--resume"), "out: no run to go on with", "without `--resume`")
    assert not out.exists()
    assert run()[0] == 0
    before = files(out)
    refused(run(), "out: holds finetune.json of an earlier run", "`--resume` goes on")
    assert files(out) == before
    named = ("--softmax", out / "softmax.hdf5", "--vocabulary", out / "vocab.txt", "--overwrite")
    refused(run(*named), "out: holds softmax.hdf5, which fine-tuning begins with", "`-o DIR`", 2)
    refused(run(*named[2:]), "out: holds vocab.txt, which fine-tuning begins with", "`-o DIR`", 2)
    assert files(out) == before
    assert run("--overwrite")[0] == 0
    assert files(out).keys() == before.keys()


def test_another_run_is_not_gone_on_with(
    run: Command, model: Path, out: Path, domain: Path, tmp_path: Path
) -> None:
    """Steps of one run with the place, the text or the weights of another are worth nothing."""
    assert run()[0] == 0
    before = files(out)
    other = shutil.copytree(model, tmp_path / "other")
    with h5py.File(other / "weights.hdf5", "r+") as file:
        file["char_embed"][0, 0] += 1
    refused(run("-m", other, "--resume"), "finetune.json: made with model sha256", "model")
    refused(run("--fit-softmax", "--resume"), "made with softmax model, of 6 types, crc", "run")
    refused(run("--batch-size", "4000", "--resume"), "made with batch_size 2, now 4000", "settings")
    refused(
        run("--batch-size", "3", "--resume"),
        "checkpoint.pt: made with batch_size 2, now 3",
        "settings",
    )
    (domain / "a.txt").write_text("\n".join(TEXT[1:]) + "\n")
    refused(run("--resume"), "finetune.json: made with text", "the text")
    assert files(out) == before
    for damaged in ("{", "[" * 200_000):
        (out / "finetune.json").write_text(damaged)
        refused(run("--resume"), "finetune.json: ", "`--overwrite` begins anew")


def test_a_run_that_ends_at_its_beginning_is_gone_on_with(
    run: Command, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it the record would lack what the card needs, as is told after all the training."""

    def broken(*args: object, **facts: object) -> None:
        raise OutputError("out: no space left", "make room")

    with monkeypatch.context() as patch:
        patch.setattr(TuningFolder, "note", broken)
        refused(run(), "no space left", "make room")
    assert run("--resume")[0] == 0
    assert (out / "README.md").exists()


def test_a_run_without_its_checkpoint_is_not_gone_on_with(run: Command, out: Path) -> None:
    """The finished weights would be replaced by those of the source, and trained from there."""
    assert run()[0] == 0
    (out / "checkpoint.pt").unlink()
    before = files(out)
    refused(run("--resume", "--max-steps", "4"), "its checkpoint.pt is gone", f"`-m {out} -o DIR`")
    assert files(out) == before


def test_texts_are_looked_for_before_any_is_read(run: Command, domain: Path, out: Path) -> None:
    """A slip of the pen in a name would be told after an hour of tokenising."""
    (domain / "a.txt").write_bytes(b"\xff\xfe\xff can't be read\n")
    refused(run("--heldout", "none.txt"), "none.txt: no such file", "check the name")
    assert not out.exists()


def test_a_name_that_is_no_utf_8_has_a_card_too(run: Command, domain: Path, out: Path) -> None:
    """The run would end without its card, after all the training."""
    (domain / "a.txt").rename(domain / os.fsdecode(b"caf\xe9.txt"))
    assert run()[0] == 0
    assert r"caf\udce9.txt" in (out / "README.md").read_text(encoding="utf-8")
