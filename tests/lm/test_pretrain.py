"""`elmo pretrain` as a whole: from text files to a model folder that can be loaded."""

from __future__ import annotations

import itertools
import json
import lzma
import re
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from command_line import elmo, made
from tiny_run import log

from elmo_cli.lm.checkpoint import read_checkpoint
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.lm.pretrain import _options
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.model_folder import RECIPE_FILE
from elmo_cli.pretrained.load import load
from elmo_cli.pretrained.warm_state import warm_state
from elmo_cli.text.vocabulary import Vocabulary

LINES = [f"the cat number {i % 7} sees the dog {'again ' * (i % 3)}." for i in range(120)]
FEW = ("--batch-size", 4, "--threads", 1, "--device", "cpu")
SIZES = ("--lstm-dim", 24, "--projection-dim", 12, *FEW)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def dev(text: Path) -> Path:
    """The same sentences, to be evaluated."""
    return Path(shutil.copy(text, text.with_name("dev.txt")))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A text with documents of six sentences and quotes, in a folder of its own."""
    path = tmp_path / "texts/text.txt"
    path.parent.mkdir()
    lines = [f'a " {i % 7} " ( {i % 5} ) sees the dog {"again " * (i % 3)}.' for i in range(90)]
    path.write_text("\n".join(line + "\n" * (i % 6 == 5) for i, line in enumerate(lines)) + "\n")
    shutil.copy(path, path.with_name("dev.txt"))
    return path


def checkpoint(folder: Path) -> dict[str, Any]:
    return read_checkpoint(folder / "checkpoint.pt")


def recipe(folder: Path) -> dict[str, Any]:
    recipe: dict[str, Any] = json.loads((folder / RECIPE_FILE).read_text())
    return recipe


def assert_same_weights(folder: Path, other: Path) -> None:
    """Those of the checkpoints, bit for bit."""
    expected = checkpoint(other)["model"]
    for name, value in checkpoint(folder)["model"].items():
        assert torch.equal(value, expected[name]), name


def test_a_model_folder_is_written(text: Path, dev: Path, tmp_path: Path) -> None:
    """Weights, options, softmax, vocabulary and state fit each other, or nothing loads them."""
    out = tmp_path / "model"
    words = ("--heldout", dev, "--max-steps", 3, "--min-count", 1, "--json", *SIZES)
    done = made("pretrain", text, "-o", out, *words)
    known = "held-out sentences that are in the training text too: 120 of 120 (100.0%)"
    assert f"warning: {known}; figures on them say little about new text\n" in done.err
    assert "text: 120 sentences, 1,080 tokens; held out 1,080 tokens" in done.err.splitlines()
    facts = json.loads(done.out)
    [heldout] = [line["heldout"] for line in log(out) if "heldout" in line]
    n_tokens = 3 * 4 * 20
    expected = {"model": str(out), "steps": 3, "epochs": 0.2, "tokens": n_tokens}
    assert facts.items() >= {**expected, "heldout": heldout}.items()
    assert heldout["predictions"] > 0
    about = rf"about {n_tokens} tokens \(0\.20 epochs\) at [\d,]+ tokens/s"
    assert re.search(rf"\ntraining takes about \d+ s until --max-steps: {about}\n", done.err)
    means = [f"{way} {heldout[way]:.1f}" for way in ("forward", "backward")]
    measured = f"{heldout['average']:.1f} on the held-out text ({', '.join(means)}), 0.0% unknown"
    assert re.search(
        rf"\nstep 3, {n_tokens} tokens, \d+ s: perplexity {re.escape(measured)}\n", done.err
    )
    assert re.search(rf"\n{out}: trained on {n_tokens} tokens in \d+ s\n$", done.err)
    assert json.loads((out / "options.json").read_text())["char_cnn"]["n_characters"] == 262
    model = load_language_model(out)
    saved = checkpoint(out)["model"]
    assert model.warning == ""
    assert model.vocabulary.types[3:6] == ("the", ".", "again")
    for name, value in model.bilm.state_dict().items():
        assert torch.equal(saved[f"bilm.{name}"], value)
    assert torch.equal(saved["softmax.weight"], model.softmax.weight)
    stored = model.bilm.warm_state
    model.bilm.warm_state = None
    assert stored is not None
    assert torch.equal(stored.c, warm_state(model.bilm).c)


def test_a_run_reports_its_text_and_its_end(text: Path, tmp_path: Path) -> None:
    """Without held-out text the loss is all that shows whether anything was learned."""
    out = tmp_path / "model"
    first = (text, *SIZES, "--log-steps", 3)
    for n_steps, words in ((4, first), (5, ("--resume",)), (5, ("--resume",))):
        err = made("pretrain", *words, "-o", out, "--max-steps", n_steps).err
        assert "text: 120 sentences, 1,080 tokens" in err.splitlines()
        last = log(out)[-1]
        assert last["step"] == n_steps
        tokens = f"{80 * n_steps} tokens in "
        assert re.search(rf"model: trained on {tokens}\d+ s, loss {last['loss']:.3f}; `--held", err)
    assert "warning: no step was made, because a limit is reached" in err


def test_what_the_options_of_reading_and_export_change(tmp_path: Path, tiny: Path) -> None:
    """Raw text is split, published sizes are trained, half the bytes are written."""
    raw = tmp_path / "raw.txt.xz"
    out = tmp_path / "model"
    options = tiny / "options.json"
    raw.write_bytes(lzma.compress(b"I don't see the dog. It's gone.\n" * 40))
    words = (*FEW, "--tokenize", "--options-file", options, "--dtype", "float16")
    made("pretrain", raw, "-o", out, "--max-steps", 1, *words)
    assert {"n't", "'s", "dog", "."} <= set(Vocabulary.read(out / "vocab.txt").types)
    assert json.loads((out / "options.json").read_text()) == json.loads(options.read_text())
    with h5py.File(out / "weights.hdf5") as weights, h5py.File(out / "softmax.hdf5") as softmax:
        assert weights["CNN_proj/W_proj"].dtype == softmax["softmax/W"].dtype == "float16"
    assert checkpoint(out)["model"]["softmax.weight"].dtype == torch.float32


def test_texts_are_read_up_to_their_own_numbers_of_tokens(
    text: Path, dev: Path, tmp_path: Path
) -> None:
    """Up to the end of the sentence that reaches the number: they have 8, 9 or 10 tokens."""
    limits = ("--train-tokens-per-file", 500, "--heldout-tokens-per-file", 100)
    words = (text, dev, "--heldout", dev, *limits, *SIZES, "--max-steps", 1, "--prepare")
    err = made("pretrain", "-o", tmp_path / "model", *words).err
    assert f"held out, so not trained on: {dev}" in err.splitlines()
    assert "text: 56 sentences, 503 tokens; held out 108 tokens" in err.splitlines()


def test_a_limit_before_the_first_step_is_reported(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several processes, only the first one reports."""
    out = tmp_path / "model"
    words = ("pretrain", text, "-o", out, "--max-seconds", 1e-9, *SIZES, "--json")
    done = made(*words)
    facts = json.loads(done.out)
    assert (facts["steps"], facts["epochs"], facts["heldout"]) == (0, 0, None)
    end = f"{out}: no step was made; a larger limit with `--resume` trains"
    assert done.err.splitlines()[-1] == end
    monkeypatch.setenv("RANK", "1")
    assert made(*words, "-f", "--prepare").err == ""


def test_out_of_memory_is_reported_with_the_size_of_a_batch(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(torch.Tensor, "backward", fail)
    done = elmo("pretrain", text, "-o", tmp_path / "model", "--max-steps", 1, "-q", *SIZES)
    error, hint = done.err.splitlines()
    assert error == "error: cpu: out of memory, with a batch of 4 streams of 20 tokens"
    assert "smaller `--batch-size`; more `--gradient-accumulation-steps`" in hint


def test_types_that_a_vocabulary_cannot_hold_are_reported(tmp_path: Path) -> None:
    """They count as unknown, and the user would think that they are learned."""
    text = tmp_path / "text.jsonl"
    out = tmp_path / "model"
    text.write_text('{"tokens": ["the", "cat\\n", "sees", "."]}\n' * 60)
    err = made("pretrain", text, "-o", out, *SIZES, "--max-steps", 1, "--prepare").err
    assert "left out 1 type " in err
    made("pretrain", "-o", out, "--resume")
    for name in ("checkpoint.pt", "text.npz"):  # which only `--resume` needs
        (out / name).unlink()
    assert load_language_model(out).vocabulary.types


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("text.txt --resume", "m: contains no run to resume\nhint: leave out `--resume`"),
        ("text.txt --heldout empty.txt", "empty.txt: contains no sentences"),
        ("text.txt --batch-size 4000 --prepare", "`--batch-size 60`"),
        ("text.txt --heldout text.txt", "only held-out text"),
        ("bad.txt --heldout none.txt", "none.txt: no such file"),
        ("bad.txt --vocabulary none.txt", "none.txt: can't be read"),
        ("bad.txt --patience 3", "`--patience`: there is no held-out text"),
        ("bad.txt --recipe none.json", "none.json: No such file"),
        ("bad.txt --data-dir data", "--data-dir: has no effect without --recipe"),
        ("bad.txt --resume --prepare", "--prepare: has no effect with --resume"),
    ],
)
def test_a_refused_run_leaves_no_folder(
    words: str, message: str, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wrong options are reported before a text is read: hours of tokenizing would come first."""
    monkeypatch.chdir(text.parent)
    Path("empty.txt").write_text("\n")
    Path("bad.txt").write_bytes(b"\xff\xfe\xff can't be read\n")
    done = elmo("pretrain", "-o", "m", "--max-steps", 1, "--batch-size", 4, *words.split())
    assert done.code in (1, 2)
    assert message in done.err
    assert not Path("m").exists()


def test_a_run_from_a_recipe_can_be_repeated(text: Path, dev: Path, tmp_path: Path) -> None:
    """From the recipe next to its model; the command line takes precedence."""
    settings = {
        "texts": ["text.txt"],
        "heldout": ["dev.txt"],
        "max-steps": 9,
        "lstm-dim": 24,
        "projection-dim": 12,
        "batch-size": 4,
        "threads": 1,
        "keep-best": True,
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(settings))
    first = tmp_path / "first"
    second = tmp_path / "second"
    made("pretrain", "--recipe", path, "-o", first, "--max-epochs", 0.1)
    assert {"max-epochs": 0.1, "texts": ["../text.txt"]}.items() <= recipe(first).items()
    assert "max-steps" not in recipe(first)
    made("pretrain", "--recipe", first / RECIPE_FILE, "-o", second)
    assert recipe(second) == recipe(first)
    assert_same_weights(first, second)


def test_a_resumed_run_keeps_its_settings(documents: Path, tmp_path: Path) -> None:
    """`-o DIR --resume` is all that has to be remembered; files of its start may be gone."""
    out = tmp_path / "model"
    vocabulary = tmp_path / "v.txt"
    vocabulary.write_text("<S>\n</S>\n<UNK>\nthe\n-LRB-\n")
    words = ("--heldout", documents.with_name("dev.txt"), "--vocabulary", vocabulary, *SIZES)
    words += ("--shuffle", "documents", "--train-tokens-per-file", 500)
    made("pretrain", documents, "-o", out, "--max-steps", 3, *words)
    before = recipe(out)
    shutil.rmtree(documents.parent)
    vocabulary.unlink()
    (tmp_path / "far/away").mkdir(parents=True)
    moved = out.rename(tmp_path / "far/away/model")
    resume = ("pretrain", "-o", moved, "--resume", "--max-steps", 6)
    for name in ("--lstm-dim", "--seed", "--heldout", "--train-tokens-per-file"):
        done = elmo(*resume, name, 16)
        assert done.code == 2
        assert f"`{name}`: the run started with" in done.err
    assert "`texts`: the run started with" in elmo(*resume, "other.txt").err
    made(*resume, "--learning-rate", 0.001)
    assert recipe(moved) == {**before, "max-steps": 6, "learning-rate": 0.001}
    assert [line["step"] for line in log(moved) if "heldout" in line] == [3, 6]
    (moved / "checkpoint.pt").unlink()  # without it the weights must not be trained from the start
    files = {path.name: path.read_bytes() for path in moved.iterdir()}
    assert elmo("pretrain", "-o", moved, "--resume", "--max-steps", 9).code == 1
    assert {path.name: path.read_bytes() for path in moved.iterdir()} == files


def test_a_run_from_a_pipe_is_resumed_without_it(text: Path, tmp_path: Path) -> None:
    """Its text is stored, and nothing is read again; skipped lines set the exit code only once."""
    out = tmp_path / "model"
    content = text.read_bytes() + b"\xff\xfe broken\n"
    words = ("-", "-o", out, "--on-error", "skip", "--max-steps", 1, *SIZES)
    done = elmo("pretrain", *words, stdin=content)
    assert done.code == 3
    assert "1 line was" in done.err
    made("pretrain", "-o", out, "--resume", "--max-steps", 2)
    assert recipe(out)["texts"] == ["-"]


def test_a_run_can_start_from_a_model(text: Path, dev: Path, tmp_path: Path) -> None:
    """With its weights, its softmax and its vocabulary, and it stays as it is."""
    first = tmp_path / "first"
    second = tmp_path / "second"
    words = ("--max-steps", 6, "--learning-rate", 0.02, "--heldout", dev)
    made("pretrain", text, "-o", first, *words, *SIZES)
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    start = ("--init-from", first, "--heldout", dev, *FEW)
    made("pretrain", text, "-o", second, "--max-steps", 1, "--keep-best", *start)
    last = [line["heldout"] for line in log(first) if "heldout" in line][-1]
    assert log(second)[0]["heldout"]["average"] == pytest.approx(last["average"], rel=1e-6)
    for name in ("vocab.txt", "options.json"):
        assert (second / name).read_bytes() == before[name]
    made("pretrain", "-o", second, "--resume", "--max-steps", 3)
    assert checkpoint(second)["progress"]["step"] == 3
    assert recipe(second)["init-from"] == "../first"
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before
    done = elmo("pretrain", text, "-o", first, "--max-steps", 1, *start, "--overwrite")
    assert "first: contains options.json, which the run starts from" in done.err


def test_a_projection_as_large_as_the_cell_stays(text: Path, tmp_path: Path) -> None:
    """AllenNLP has one in any case, bilm-tf none; options.json cannot tell them apart."""
    first = tmp_path / "first"
    second = tmp_path / "second"
    made("pretrain", text, "-o", first, "--max-steps", 1, *SIZES, "--projection-dim", 24)
    with h5py.File(first / "weights.hdf5", "r+") as file:
        for direction, layer in itertools.product((0, 1), (0, 1)):
            cell = file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
            assert "W_P_0" not in cell
            cell["W_P_0"] = np.eye(24, dtype=np.float32) / 2
    (first / "parts.json").unlink()  # the weights are no longer those it names
    made("pretrain", text, "-o", second, "--init-from", first, "--max-steps", 1, *FEW)
    for folder, has_projection in ((second, True), (first, False)):
        made("pretrain", "-o", folder, "--resume", "--max-steps", 2)
        assert load(folder).options.has_lstm_projection == has_projection


@pytest.mark.parametrize(
    ("settings", "n_filters", "has_projections"),  # after the character CNN and in the LSTM
    [
        ({}, 512, (True, True)),
        ({"projection_dim": 512}, 512, (False, False)),
        ({"projection_dim": 512, "lstm_dim": 600}, 512, (False, True)),
        ({"projection_dim": 512, "char_filters": 2048}, 2048, (True, False)),
    ],
)
def test_equal_sizes_need_no_projection(
    settings: dict[str, int], n_filters: int, has_projections: tuple[bool, bool]
) -> None:
    """bilm-tf has none there, and options.json could not tell a model that has."""
    sizes = _options(PretrainConfig(**settings))
    assert sizes.n_filters == n_filters
    assert (sizes.has_cnn_projection, sizes.has_lstm_projection) == has_projections


def test_a_prepared_run_starts_anywhere(documents: Path, tmp_path: Path) -> None:
    """A machine that is rented by the minute must not spend them on reading."""
    model = tmp_path / "model"
    prepared = tmp_path / "prepared"
    there = tmp_path / "there"
    straight = tmp_path / "straight"
    made("pretrain", documents, "-o", model, "--max-steps", 2, *SIZES)
    (model / "state.hdf5").unlink()  # as if this run had not ended
    words = (documents, "--init-from", model, "--max-steps", 4, *FEW, "--log-steps", 1)
    made("pretrain", "-o", straight, *words)
    done = made("pretrain", "-o", prepared, "--prepare", *words, "--json")
    assert json.loads(done.out)["steps"] == 0
    assert f"MB; `elmo pretrain -o {prepared} --resume` trains" in done.err
    assert f"warning: {model}: the run is not finished; " in done.err
    assert f"; `elmo pretrain -o {model} --resume` continues it\n" in done.err
    names = ["checkpoint.pt", "options.json", "recipe.json", "text.npz", "vocab.txt"]
    assert sorted(path.name for path in prepared.iterdir()) == names
    shutil.rmtree(documents.parent)
    shutil.rmtree(model)
    prepared.rename(there)
    made("pretrain", "-o", there, "--resume", "--device", "cpu")
    assert [line.get("loss") for line in log(there)] == [line.get("loss") for line in log(straight)]
    assert_same_weights(there, straight)


def test_an_overwritten_run_leaves_nothing(documents: Path, tmp_path: Path) -> None:
    """It is replaced only if asked for, and an old model next to a new text is no run."""
    out = tmp_path / "model"
    words = ("pretrain", documents, "-o", out, "--max-steps", 2, *SIZES, "--log-steps", 1)
    made(*words)
    assert "contains a finished pretrain run" in elmo(*words).err
    done = elmo(*words, "--overwrite", "--vocabulary", out / "vocab.txt")
    assert "model: contains vocab.txt, which the run starts from" in done.err
    start = ("--max-steps", 2, *FEW, "--options-file", out / "options.json")
    done = elmo("pretrain", documents, "-o", out, "--overwrite", *start)
    assert "model: contains options.json, which the run starts from" in done.err
    made(*words, "--prepare", "--overwrite", "--seed", 3)
    assert not {"weights.hdf5", "log.jsonl", "state.hdf5"} & {path.name for path in out.iterdir()}
    made("pretrain", "-o", out, "--resume")
    assert [line["step"] for line in log(out)] == [1, 2]
