"""`elmo finetune` as a whole: a domain makes a model better, and nothing else is touched."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from make_weights import MODELS, write_model
from training_commands import Command

from elmo_cli.cli.finetune import finetune
from elmo_cli.cli.main import main
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.tuning_job import suited
from elmo_cli.pretrained.load import load
from elmo_cli.pretrained.warm_state import warm_state
from elmo_cli.text.vocabulary import Vocabulary

NOUNS, VERBS = ["cat", "dog", "bird", "fish", "cow"], ["sees", "hears", "likes", "fears"]
SHORT = ["--batch-size", "4", "--max-steps", "8", "--learning-rate", "0.02"]
SHORT += ["--threads", "1", "--device", "cpu"]
TOKENS = 8 * 4 * 20
LEARN = ["--max-steps", "40"]  # enough to learn the domain


@pytest.fixture(scope="module")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 300 short sentences in two files of many documents, one of them packed."""
    made, folder = random.Random(3), tmp_path_factory.mktemp("domain")
    for name in ("a.txt", "b.txt"):
        lines = []
        for _ in range(30):
            lines += [
                f"the {made.choice(NOUNS)} {made.choice(VERBS)} a {made.choice(NOUNS)} ."
                for _ in range(5)
            ]
            lines.append("")
        (folder / name).write_text("\n".join(lines))
    (folder / "notes.tsv").write_text("no\ttext\n")
    return folder


@pytest.fixture(scope="module")
def source(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tiny` with a softmax of 14 types and a vocabulary beside its weights."""
    folder = tmp_path_factory.mktemp("source") / "whole"
    write_model(folder, MODELS["tiny"], "tiny")
    types = Vocabulary(["<S>", "</S>", "<UNK>", *NOUNS[:4], *VERBS, "the", "a", "."])
    types.write(folder / "vocab.txt")
    torch.manual_seed(1)
    head = torch.nn.Linear(8, len(types))
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = (p.detach().numpy() for p in head.parameters())
    return folder


Tuned = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def tuned(domain: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Tuned:
    """Fine-tunes `source`, or another model with other options, and gives what --json printed."""

    def made(*more: object, model: Path = source, out: Path | None = None) -> dict[str, Any]:
        out = out or tmp_path_factory.mktemp("tuned") / "out"
        args = ["--domain", domain, "-m", model, "-o", out, "--json", *SHORT, *more]
        result = CliRunner().invoke(finetune, [str(a) for a in args], catch_exceptions=False)
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    return made


@pytest.fixture(scope="module")
def usual(tuned: Tuned) -> dict[str, Any]:
    """A run with the true softmax and nothing else said."""
    return tuned()


@pytest.fixture(scope="module")
def learned(tuned: Tuned, source: Path) -> dict[str, Any]:
    """The same, long enough to learn the domain, with the digests of the source before it."""
    before = digests(source)
    return {**tuned(*LEARN), "source_before": before}


def digests(folder: Path) -> dict[str, str]:
    """Of all files of a folder."""
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}


def arrays_in(path: Path) -> dict[str, bytes]:
    """All arrays of an HDF5 file."""
    found: dict[str, bytes] = {}

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[...].tobytes()

    with h5py.File(path) as file:
        file.visititems(add)
    assert found
    return found


def losses(folder: Path) -> list[tuple[int, float]]:
    """What the log holds, but for the clock."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(line["step"], line.get("loss") or line["heldout"]["average"]) for line in lines]


def test_a_domain_makes_the_model_better(learned: dict[str, Any], source: Path) -> None:
    """The whole purpose; and a source that changed would be lost for ever."""
    found, before = learned, learned["source_before"]
    assert digests(source) == before
    assert (found["softmax"], found["improved"], found["before_model_softmax"]) == (
        "model",
        True,
        None,
    )
    assert found["after"]["perplexity"]["average"] < 0.7 * found["before"]["perplexity"]["average"]
    for way in ("forward", "backward"):
        assert found["after"]["perplexity"][way] < found["before"]["perplexity"][way]
    assert found["tokens"] == 5 * TOKENS
    assert found["vocabulary"] == {"types": 14, "source": "that of the model"}
    assert 0 < found["unknown_fraction"] < 0.2  # cows
    assert found["model"] == "whole"
    assert found["seconds"] > 0
    card = (Path(found["output"]) / "README.md").read_text()
    assert before["weights.hdf5"] in card
    assert f"{found['after']['perplexity']['average']:.2f}" in card


def test_figures_are_those_of_the_files(tuned: Tuned, domain: Path, source: Path) -> None:
    """`elmo perplexity` must say the same of both models, or the table is not honest."""
    text = domain / "a.txt"
    found = tuned("--heldout", text)
    sentences = [line.split() for line in text.read_text().splitlines() if line]
    for folder, key in ((source, "before"), (Path(found["output"]), "after")):
        model = load_language_model(folder)
        measured = perplexity(model, Corpus.read(sentences))
        for way in ("forward", "backward", "average"):
            assert getattr(measured, way) == pytest.approx(found[key]["perplexity"][way], rel=1e-9)
        assert measured.unknown_fraction == found["unknown_fraction"]
    assert found["heldout"]["tokens"] == 6 * len(sentences)


def test_the_new_model_embeds(
    usual: dict[str, Any], source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The warm state must be its own: that of the source would be a state of other weights."""
    text, arrays = tmp_path / "text.txt", []
    text.write_text("the cat sees a cow .\n")
    embed = Command(capsys, "embed")
    for model in (source, usual["output"]):
        file = tmp_path / "vectors.hdf5"
        assert embed(text, "-o", file, "-m", model, "--state", "warm", "-f", "-q")[0] == 0
        with h5py.File(file) as vectors:
            arrays.append(vectors["0"][...])
    assert arrays[0].shape == arrays[1].shape == (3, 6, 16)
    assert np.abs(arrays[0] - arrays[1]).max() > 1e-3
    bilm = load(usual["output"])
    stored, bilm.warm_state = bilm.warm_state, None
    computed = warm_state(bilm)
    assert stored is not None
    assert torch.equal(stored.h, computed.h)
    assert torch.equal(stored.c, computed.c)


def test_weights_alone_get_a_softmax_first(tuned: Tuned, tiny: Path) -> None:
    """Published weights have none; without a fit, the first figure would be that of chance."""
    found = tuned(model=tiny)
    assert found["softmax"] == "fitted"
    assert found["vocabulary"] == {"types": 15, "source": "counted in the domain"}
    assert found["unknown_fraction"] == 0
    assert found["before"]["perplexity"]["average"] < 10.8  # unigrams: 11.1
    assert found["improved"]
    fitted, out = tiny.with_name("fitted"), Path(found["output"])
    shutil.copytree(tiny, fitted)
    shutil.copy(out / "fitted_softmax.hdf5", fitted / "softmax.hdf5")
    shutil.copy(out / "vocab.txt", fitted)
    again = tuned(model=fitted)
    assert again["before"] == found["before"]  # which anybody can measure again


def test_a_fit_beside_the_true_softmax(tuned: Tuned, usual: dict[str, Any]) -> None:
    """What of the gain is the softmax's alone shows only where the vocabulary is the same."""
    fitted = tuned("--fit-softmax")
    assert fitted["softmax"] == "fitted"
    assert fitted["before_model_softmax"] == usual["before"]
    assert fitted["vocabulary"] == usual["vocabulary"]
    assert fitted["unknown_fraction"] == usual["unknown_fraction"]
    assert fitted["before"]["perplexity"]["average"] < usual["before"]["perplexity"]["average"]


def test_a_vocabulary_for_weights_alone(tuned: Tuned, tiny: Path, source: Path) -> None:
    """Without it models could not be compared on one vocabulary."""
    found = tuned("--vocabulary", source / "vocab.txt", model=tiny)
    assert found["vocabulary"] == {"types": 14, "source": str(source / "vocab.txt")}
    assert found["softmax"] == "fitted"
    assert found["unknown_fraction"] > 0


def test_the_better_model_is_kept(tuned: Tuned, learned: dict[str, Any]) -> None:
    """A run that makes a model worse must say so and not hand the worse one out."""
    source = Path(learned["output"])
    found = tuned("--learning-rate", "0.1", "--dropout", "0.95", model=source)
    assert found["improved"] is False
    assert found["after"] == found["before"]
    kept, own = (load_language_model(place) for place in (found["output"], source))
    for one, other in zip(kept.bilm.parameters(), own.bilm.parameters(), strict=True):
        assert torch.equal(one, other)
    assert "did not help" in (Path(found["output"]) / "README.md").read_text()


def test_a_run_goes_on_as_if_it_had_not_stopped(tuned: Tuned, tmp_path: Path) -> None:
    """Losses, figures and weights to the last bit, or a stopped run costs what it had learned."""
    constant, out = ("--optimizer", "adagrad"), tmp_path / "out"
    whole = tuned(*constant)
    tuned(*constant, "--max-steps", "3", out=out)
    found = tuned(*constant, "--resume", out=out)
    for key in ("before", "after", "tokens", "epochs"):
        assert found[key] == whole[key]
    for name in ("weights.hdf5", "softmax.hdf5", "state.hdf5"):
        assert arrays_in(out / name) == arrays_in(Path(whole["output"]) / name)


def messages(domain: Path, source: Path, out: Path, *more: object) -> tuple[dict[str, Any], str]:
    """What --json printed and what was said."""
    args = ["--domain", domain, "-m", source, "-o", out, "--json", *SHORT, *more]
    result = CliRunner().invoke(finetune, [str(a) for a in args], catch_exceptions=False)
    return json.loads(result.stdout), result.stderr


def test_a_limit_that_measuring_uses_up_is_told(domain: Path, source: Path, tmp_path: Path) -> None:
    """A minute was six: whole looks came before a step that there was no time for, and the same
    weights were measured over and over."""
    out = tmp_path / "out"
    found, said = messages(domain, source, out, "--max-seconds", "0.001")
    assert "warning: measuring takes about" in said
    assert "of the 0.0 s of --max-seconds: no time is left to train; raise it" in said
    assert "no step of training was made in --max-seconds: raise it, with `--resume`" in said
    assert (found["tokens"], found["improved"]) == (0, False)
    assert found["after"] == found["before"]
    assert " MB are for `--resume` alone and may be deleted: checkpoint.pt\n" in said
    assert not (out / "log.jsonl").exists()  # no look before a step that does not come
    kept, own = (load_language_model(place) for place in (out, source))
    for one, other in zip(kept.bilm.parameters(), own.bilm.parameters(), strict=True):
        assert torch.equal(one, other)
    found, said = messages(domain, source, out, "--max-seconds", "600", "--resume")
    assert "warning: measuring" not in said
    assert "before: perplexity" not in said  # which is known
    assert found["tokens"] == TOKENS
    assert found["improved"]


def test_time_is_kept_for_measuring(domain: Path, source: Path, tmp_path: Path) -> None:
    """Without it a run that trains up to its limit is measured after it."""
    out = tmp_path / "out"
    messages(domain, source, out, "--max-seconds", "0.001")
    path = out / "finetune.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "measuring_s": 290.0}))
    # Looks are at all of this text: one before training and one after, beside the two measures.
    for limit, left, n_tokens in ((1159, "no time is left", 0), (1162, "2.0 s are left", TOKENS)):
        found, said = messages(domain, source, out, "--resume", "--max-seconds", limit)
        assert f"measuring takes about 1,160.0 s of the {limit:,}.0 s of --max-seconds" in said
        assert f": {left} to train; raise it" in said
        assert found["tokens"] == n_tokens
        assert 290 <= found["seconds"] < 500  # they are those of measuring too


LONG = ["--max-steps", "150", "--max-epochs", "100"]


@pytest.fixture(scope="module")
def undisturbed(tuned: Tuned, tiny: Path) -> dict[str, Any]:
    """A run with a fit that nothing stops."""
    return tuned(*LONG, model=tiny)


@pytest.mark.parametrize(("steps", "between"), [(1000, 100), (300, 30), (120, 25), (7, 7)])
def test_every_epoch_is_looked_at(steps: int, between: int) -> None:
    """Or a text of few steps would be learned by heart before the first look."""
    lines = [["a"] * 79] * steps  # a window of 4 rows each, with what ends a sentence
    corpus = Corpus.read(lines, max_characters=50, name="text")
    settings = TrainSettings(batch_size=4, bptt=20, max_epochs=1)
    assert suited(settings, corpus).eval_steps == between


@pytest.mark.slow
@pytest.mark.parametrize("n_lines", [0, 2, 4])
def test_kill_and_resume(
    tuned: Tuned,
    undisturbed: dict[str, Any],
    domain: Path,
    tiny: Path,
    tmp_path: Path,
    n_lines: int,
) -> None:
    """kill -9 in the fit or in training, when the log has some lines: the same losses and figures
    at the end."""
    args = ["--domain", domain, "-m", tiny, "-o", tmp_path / "out", "--json", *SHORT, *LONG]
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        with suppress(SystemExit):
            main(["finetune", *map(str, args)])
        os._exit(0)
    record, log, begun = (
        tmp_path / "out/finetune.json",
        tmp_path / "out/log.jsonl",
        time.monotonic(),
    )
    while not (log.exists() and log.read_bytes().count(b"\n") >= n_lines):
        if n_lines == 0 and record.exists():
            break
        time.sleep(0.01)
        assert time.monotonic() - begun < 120
    time.sleep(random.Random(n_lines).random() / 4)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    found = tuned(*LONG, "--resume", model=tiny, out=tmp_path / "out")
    assert (found["before"], found["after"]) == (undisturbed["before"], undisturbed["after"])
    assert losses(tmp_path / "out") == losses(Path(undisturbed["output"]))
