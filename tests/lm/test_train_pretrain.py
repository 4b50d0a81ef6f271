"""`elmo pretrain` as a whole: from text files to a model folder that can be loaded."""

from __future__ import annotations

import gzip
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
from click.testing import CliRunner, Result

from elmo_cli.cli.pretrain import pretrain
from elmo_cli.errors import ElmoError, OutputError, ResumeError, TrainingError, UsageError
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.pretrained.warm_state import warm_state
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.weightfile.read import read_bilm, read_softmax, read_state

LINES = [f"the cat number {i % 7} sees the dog {'again ' * (i % 3)}." for i in range(120)]
SIZES = ["--lstm-dim", "24", "--projection-dim", "12", "--batch-size", "4", "--threads", "1"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture
def dev(text: Path) -> Path:
    """The same sentences, to be measured."""
    return Path(shutil.copy(text, text.with_name("dev.txt")))


def run(*arguments: str | Path, **more: Any) -> Result:
    return CliRunner().invoke(pretrain, [str(a) for a in arguments], catch_exceptions=False, **more)


def test_a_model_folder_comes_out(text: Path, dev: Path, tmp_path: Path) -> None:
    """Weights, options, softmax and vocabulary must fit each other, or nothing loads them."""
    out = tmp_path / "model"
    result = run(
        text, "-o", out, "--heldout", dev, "--max-steps", "3", "--min-count", "1", "--json", *SIZES
    )
    assert "warning: 100% of the held-out sentences stand in the training text" in result.stderr
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
    assert torch.equal(saved["softmax.weight"], head.weight)
    left = read_state(out / "state.hdf5", bilm.options)
    assert torch.equal(left.c, warm_state(bilm).c)
    assert left.c.any()
    with pytest.raises(TrainingError):  # of other weights than those that are trained next
        run(text, "-o", out, "--resume", "--max-steps", "5", "--learning-rate", "1e30", *SIZES)
    assert not (out / "state.hdf5").exists()


def test_a_run_says_what_it_read_and_how_it_ended(text: Path, dev: Path, tmp_path: Path) -> None:
    """Without held-out text the loss is all that tells whether anything was learned."""
    words = ("--max-steps", "2", "--log-steps", "1", *SIZES)
    first, *_, last, _ = run(text, "-o", tmp_path / "m", *words).stderr.splitlines()
    assert first == "text: 120 sentences, 1,080 tokens"
    assert re.fullmatch(
        r".*/m: trained on 160 tokens in \d+ s, loss \d\.\d{3}; "
        "`--heldout FILE` would tell its perplexity",
        last,
    )
    words = ("--heldout", dev, *words)
    first, *_, last, _ = run(text, "-o", tmp_path / "n", *words).stderr.splitlines()
    assert first == "text: 120 sentences, 1,080 tokens; held out 1,080 tokens"
    assert re.fullmatch(r".*/n: trained on 160 tokens in \d+ s", last)


def test_raw_text_is_tokenised(tmp_path: Path) -> None:
    """Without it the vocabulary would hold `dog.` and `don't`."""
    raw = tmp_path / "raw.txt"
    raw.write_text("I don't see the dog. It's gone.\n" * 40)
    out = tmp_path / "model"
    run(raw, "--tokenize", "-o", out, "--max-steps", "1", *SIZES)
    assert {"n't", "'s", "dog", "."} <= set(Vocabulary.read(out / "vocab.txt").types)


def test_a_vocabulary_of_nothing_is_refused(text: Path, tmp_path: Path) -> None:
    """Such a model predicts `<UNK>` everywhere, and does it ever better."""
    with pytest.raises(
        UsageError, match="`min_count=100000`: the most frequent type of the text occurs"
    ):
        run(text, "-o", tmp_path / "m", "--max-steps", "1", "--min-count", "100000", *SIZES)
    assert not (tmp_path / "m").exists()


def test_types_that_fit_no_vocabulary_are_told(tmp_path: Path) -> None:
    """They count as unknown from the beginning on, and the user thinks that they are learned."""
    text = tmp_path / "text.jsonl"
    text.write_text('{"tokens": ["the", "cat\\n", "sees", "."]}\n' * 60)
    end = ("--max-steps", "1", *SIZES)
    err = run(text, "-o", tmp_path / "m", *end).stderr
    assert "warning: 1 types are left out" in err
    (tmp_path / "v.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    err = run(text, "-o", tmp_path / "n", "--vocabulary", tmp_path / "v.txt", *end).stderr
    assert "can hold" not in err


def test_the_end_tells_the_loss_of_the_last_steps(text: Path, tmp_path: Path) -> None:
    """That of a hundred steps ago was told, and none where fewer were made since a resume."""
    out = tmp_path / "model"
    by_threes = ("--log-steps", "3")
    for n_steps, begin in ((4, (text, *SIZES, *by_threes)), (5, ("--resume",)), (5, ("--resume",))):
        said = run(*begin, "-o", out, "--max-steps", str(n_steps)).stderr
        last = json.loads((out / "log.jsonl").read_text().splitlines()[-1])
        assert last["step"] == n_steps
        assert f" s, loss {last['loss']:.3f}; `--heldout FILE`" in said


def test_what_the_model_does_not_need_is_told(text: Path, dev: Path, tmp_path: Path) -> None:
    """Four fifths of a folder may be for a run that nobody goes on with."""
    out = tmp_path / "model"
    begin = (text, "-o", out, *SIZES, "--heldout", dev, "--keep-best", "--max-steps", "2")
    said = run(*begin, "--prepare").stderr
    assert "deleted" not in said
    told = run("-o", out, "--resume").stderr.splitlines()[-1]
    names = told.split(": ")[-1].split(", ")
    size = sum((out / name).stat().st_size for name in names) / 1e6
    assert told.startswith(f"{out}: {size:.1f} MB are for `--resume` alone and may be deleted: ")
    assert re.fullmatch(r"checkpoint\.pt, text\.npz", ", ".join(names))
    for name in names:
        (out / name).unlink()
    assert load_language_model(out).vocabulary.types


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


def test_files_of_the_user_stay(text: Path, tmp_path: Path) -> None:
    """A run may write over what is an earlier run's, and only when it is told to."""
    out = tmp_path / "model"
    out.mkdir()
    for name in ("best-of-all.pt", ".lock"):
        (out / name).write_text("mine")
    for name in ("recipe.json", "finetune.json"):
        (out / name).write_text("mine")
        with pytest.raises(OutputError, match=r"model: holds (a fine-tuned|rec.*replaced)"):
            run(text, "-o", out, "--max-steps", "1", *SIZES)
        assert (out / name).read_text() == "mine"
        (out / name).unlink()
    run(text, "-o", out, "--max-steps", "1", *SIZES)
    run(text, "-o", out, "--max-steps", "1", "--overwrite", *SIZES)
    assert (out / "best-of-all.pt").read_text() == (out / ".lock").read_text() == "mine"
    (out / "finetune.json").write_text("{}")
    with pytest.raises(OutputError, match="holds a fine-tuned model"):
        run(text, "-o", out, "--max-steps", "1", "--overwrite", *SIZES)


def test_another_text_cant_be_resumed_with(text: Path, tmp_path: Path) -> None:
    """Without it the run would go on at a place of another text."""
    out = tmp_path / "model"
    run(text, "-o", out, "--max-steps", "1", *SIZES)
    text.write_text("\n".join(LINES[::-1]) + "\n")
    with pytest.raises(ResumeError, match="made with text"):
        run(text, "-o", out, "--max-steps", "2", "--resume", *SIZES)


def test_a_run_that_goes_on_looks_at_all_names_first(text: Path, tmp_path: Path) -> None:
    """A slip of the pen in a name would be told after hours of tokenising."""
    out = tmp_path / "model"
    run(text, "-o", out, "--max-steps", "1", *SIZES)
    text.write_bytes(b"\xff\xfe\xff can't be read\n")
    again = (text, "-o", out, "--max-steps", "2", "--resume", *SIZES)
    with pytest.raises(ElmoError, match=r"none\.txt: no such file"):
        run(*again, "--heldout", tmp_path / "none.txt")
    with pytest.raises(UsageError, match="--keep-best: there is no held-out text"):
        run(*again, "--keep-best")


def test_no_limit_and_no_text_are_told(text: Path, tmp_path: Path) -> None:
    """Without it training would never end, or fail with an error about shapes."""
    with pytest.raises(UsageError, match="--heldout-tokens-per-file 5: there is no held-out text"):
        run(
            text, "-o", tmp_path / "m", "--max-steps", "1", "--heldout-tokens-per-file", "5", *SIZES
        )
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
    run(text, "-o", out, "--max-steps", "1", "--batch-size", "4", "--options-file", options)
    assert json.loads((out / "options.json").read_text()) == json.loads(options.read_text())


def test_a_run_can_begin_with_a_model(text: Path, dev: Path, tmp_path: Path) -> None:
    """What was shipped can be carried on: its weights, its softmax, its vocabulary."""
    first, second = tmp_path / "first", tmp_path / "second"
    run(text, "-o", first, "--max-steps", "30", "--learning-rate", "0.02", "--heldout", dev, *SIZES)
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    begin = ["--init-from", first, "--heldout", dev, "--batch-size", "4", "--keep-best"]
    run(text, "-o", second, "--max-steps", "1", *begin)
    looks = [
        [
            json.loads(line).get("heldout")
            for line in (folder / "log.jsonl").read_text().split("\n")[:-1]
        ]
        for folder in (first, second)
    ]
    last = [look for look in looks[0] if look][-1]
    assert looks[1][0]["average"] == pytest.approx(last["average"], rel=1e-6)
    assert (second / "vocab.txt").read_bytes() == before["vocab.txt"]
    assert (second / "options.json").read_bytes() == before["options.json"]
    run("-o", second, "--resume", "--max-steps", "3")
    assert torch.load(second / "checkpoint.pt", weights_only=True)["progress"]["step"] == 3
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before
    with pytest.raises(UsageError, match="--lstm-dim: has no meaning with"):
        run(text, "-o", tmp_path / "third", "--max-steps", "1", *begin, "--lstm-dim", "12")
    with pytest.raises(UsageError, match="holds the model that training is to begin with"):
        run(text, "-o", first, "--max-steps", "1", *begin, "--overwrite")


def test_a_projection_that_options_do_not_tell_stays(text: Path, tmp_path: Path) -> None:
    """AllenNLP has one in any case, bilm-tf none where it would be as large as the cell."""
    first, second = tmp_path / "first", tmp_path / "second"
    run(text, "-o", first, "--max-steps", "1", *SIZES, "--projection-dim", "24")
    with h5py.File(first / "weights.hdf5", "r+") as file:
        for direction, layer in itertools.product((0, 1), (0, 1)):
            cell = file[f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"]
            assert "W_P_0" not in cell
            cell["W_P_0"] = np.eye(24, dtype=np.float32) / 2
    (first / "parts.json").unlink()  # the weights are no longer those it names
    run(text, "-o", second, "--init-from", first, "--max-steps", "1", "--batch-size", "4")
    run("-o", second, "--resume", "--max-steps", "2")
    bilm = read_bilm(second / "options.json", second / "weights.hdf5")
    assert bilm.options.has_lstm_projection
    run("-o", first, "--resume", "--max-steps", "2")
    assert not read_bilm(
        second / "options.json", first / "weights.hdf5"
    ).options.has_lstm_projection


def test_weights_can_be_written_as_float16(text: Path, tmp_path: Path) -> None:
    """Half the size; the checkpoint keeps all digits."""
    out = tmp_path / "model"
    run(text, "-o", out, "--max-steps", "1", "--dtype", "float16", *SIZES)
    with h5py.File(out / "weights.hdf5") as weights, h5py.File(out / "softmax.hdf5") as softmax:
        assert weights["CNN_proj/W_proj"].dtype == softmax["softmax/W"].dtype == "float16"
    saved = torch.load(out / "checkpoint.pt", weights_only=True)["model"]
    assert saved["softmax.weight"].dtype == torch.float32


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_packed_text_gives_the_same_model(suffix: str, text: Path, tmp_path: Path) -> None:
    """Corpora lie packed on disks."""
    packed = tmp_path / f"text.txt{suffix}"
    pack = {".gz": gzip, ".xz": lzma}[suffix]
    packed.write_bytes(pack.compress(text.read_bytes()))
    for name, out in ((text, "plain"), (packed, "packed")):
        run(name, "-o", tmp_path / out, "--max-steps", "1", *SIZES)
    one, other = (
        torch.load(tmp_path / out / "checkpoint.pt", weights_only=True)
        for out in ("plain", "packed")
    )
    assert one["run"] == other["run"]
    assert torch.equal(one["model"]["softmax.weight"], other["model"]["softmax.weight"])


def test_nothing_to_go_on_with_is_told(text: Path, tmp_path: Path) -> None:
    """A slip in the folder's name must not begin a new run, nor read a large text first."""
    for names in ((), (text,)):
        with pytest.raises(ResumeError, match=r"model/checkpoint\.pt: no such checkpoint"):
            run(*names, "-o", tmp_path / "model", "--resume", "--max-steps", "1")


def test_an_empty_heldout_text_is_told(text: Path, tmp_path: Path) -> None:
    """The message must say which of the texts it is."""
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    with pytest.raises(TrainingError, match=r"empty\.txt: no sentence in it"):
        run(text, "--heldout", empty, "-o", tmp_path / "model", "--max-steps", "1", *SIZES)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--heldout", "none.txt"), "none.txt: no such file"),
        (("--vocabulary", "none.txt"), "none.txt: can't be read"),
        (("--patience", "3"), "--patience: there is no held-out text"),
        (("--keep-best",), "--keep-best: there is no held-out text"),
    ],
)
def test_wrong_options_are_told_before_a_text_is_read(
    more: tuple[str, ...], said: str, text: Path, tmp_path: Path
) -> None:
    """Hours of tokenising would come first."""
    text.write_bytes(b"\xff\xfe\xff can't be read\n")
    with pytest.raises(ElmoError, match=said):
        run(text, "-o", tmp_path / "model", "--max-steps", "1", *SIZES, *more)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_run_goes_on_on_a_machine_without_the_first_ones_device(
    text: Path, tmp_path: Path
) -> None:
    """A run that was lent a GPU would ask for it ever after."""
    out = tmp_path / "model"
    run(text, "-o", out, "--max-steps", "1", *SIZES)
    recipe = json.loads((out / "recipe.json").read_text())
    (out / "recipe.json").write_text(json.dumps({**recipe, "device": "cuda"}))
    run("-o", out, "--resume", "--max-steps", "2")
    assert json.loads((out / "recipe.json").read_text())["device"] == "auto"


def test_json_tells_of_the_look_whose_weights_are_there(
    text: Path, dev: Path, tmp_path: Path
) -> None:
    """With --keep-best that of the last look would be told of other weights."""
    out = tmp_path / "model"
    wild = ("--optimizer", "adagrad", "--learning-rate", "0.7")
    often = ("--eval-steps", "1", "--keep-best", "--heldout", dev, *wild)
    result = run(text, "-o", out, "--max-steps", "6", "--json", *often, *SIZES)
    told = json.loads(result.stdout)["heldout"]["average"]
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    looks = [line["heldout"]["average"] for line in lines if "heldout" in line]
    assert told == min(looks) != looks[-1]
