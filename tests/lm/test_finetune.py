"""`elmo finetune` as a whole: a domain improves the model, and nothing else is touched."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
from command_line import Done, elmo
from make_weights import MODELS, write_model
from test_kill import start
from tiny_run import log

from elmo_cli.cli import lm_training
from elmo_cli.errors import InputError, OutputError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.finetune.card import describe_text
from elmo_cli.lm.finetune.domain import DomainTexts, read_domain
from elmo_cli.lm.finetune.fit_softmax import fit_softmax
from elmo_cli.lm.finetune.job import finetune_settings, with_evaluations_in_time
from elmo_cli.lm.finetune.result import FinetuneResult
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.bilm import NextTokenSoftmax
from elmo_cli.pretrained.load import load
from elmo_cli.pretrained.warm_state import warm_state
from elmo_cli.text.vocabulary import Vocabulary

NOUNS, VERBS = ["cat", "dog", "bird", "fish", "cow"], ["sees", "hears", "likes", "fears"]
SHORT = ["--batch-size", "4", "--max-steps", "8", "--learning-rate", "0.02"]
SHORT += ["--threads", "1", "--device", "cpu"]
TOKENS = 8 * 4 * 20
LONG = ["--max-steps", "150", "--max-epochs", "100"]
Facts = dict[str, Any]
Tune = Callable[..., Facts]


@pytest.fixture(scope="session")
def domain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 300 short sentences in two files of 30 documents each."""
    rng, folder = random.Random(3), tmp_path_factory.mktemp("domain")
    for name in ("a.txt", "b.txt"):
        lines = [
            f"the {rng.choice(NOUNS)} {rng.choice(VERBS)} a {rng.choice(NOUNS)} ." if k % 6 else ""
            for k in range(180)
        ]
        (folder / name).write_text("\n".join(lines))
    (folder / "notes.tsv").write_text("no\ttext\n")
    return folder


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`tiny` with a softmax of 14 types and their vocabulary."""
    folder = tmp_path_factory.mktemp("source") / "whole"
    write_model(folder, MODELS["tiny"], "tiny")
    types = Vocabulary(["<S>", "</S>", "<UNK>", *NOUNS[:4], *VERBS, "the", "a", "."])
    types.write(folder / "vocab.txt")
    torch.manual_seed(1)
    softmax = torch.nn.Linear(8, len(types))
    with h5py.File(folder / "softmax.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = (p.detach().numpy() for p in softmax.parameters())
    return folder


def command(domain: Path, model: Path, out: Path, *more: object) -> list[str]:
    words = ["finetune", "--domain", domain, "-m", model, "-o", out, "--json", *SHORT, *more]
    return [str(word) for word in words]


@pytest.fixture(scope="session")
def tune(domain: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> Tune:
    """Fine-tunes `source`, or another model with other options; the result, and `err`."""

    def tuned(*more: object, model: Path = source, out: Path | None = None) -> Facts:
        out = out or tmp_path_factory.mktemp("tuned") / "out"
        done = elmo(*command(domain, model, out, *more))
        assert done.code == 0, done.err
        return {**json.loads(done.out), "err": done.err}

    return tuned


@pytest.fixture(scope="session")
def usual(tune: Tune) -> Facts:
    """A short run with the softmax of the model; tests copy its folder."""
    return tune()


@pytest.fixture(scope="session")
def learned(tune: Tune, source: Path, domain: Path) -> Facts:
    """The same, long enough to learn from `b.txt`; with the digests of the source before it."""
    before = digests(source)
    found = tune("--heldout", domain / "a.txt", "--max-epochs", "9", "--max-steps", "40")
    return {**found, "source_before": before}


@pytest.fixture
def finished(usual: Facts, tmp_path: Path) -> Path:
    """A copy of the folder of a finished run."""
    return shutil.copytree(usual["output"], tmp_path / "out")


def digests(folder: Path) -> dict[str, str]:
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()}


def is_same_model(one: Path, other: Path) -> bool:
    pair = [load_language_model(path) for path in (one, other)]
    parameters = ([*m.bilm.parameters(), *m.softmax.parameters()] for m in pair)
    return all(torch.equal(a, b) for a, b in zip(*parameters, strict=True))


def test_domain_improves_the_model(learned: Facts, source: Path) -> None:
    before, after = (learned[name]["perplexity"] for name in ("before", "after"))
    assert digests(source) == learned["source_before"]
    assert (learned["softmax"], learned["improved"]) == ("model", True)
    assert learned["before_model_softmax"] is None
    assert after["average"] < 0.7 * before["average"]
    assert 0 < learned["chosen"]["step"] <= 40
    assert [learned[name]["text"] for name in ("chosen", "before", "after")] == [
        "validation",
        "test",
        "test",
    ]
    assert all(after[way] < before[way] for way in ("forward", "backward"))
    assert learned["tokens"] == 5 * TOKENS
    assert learned["vocabulary"] == {"types": 14, "source": "that of the model"}
    assert 0 < learned["unknown_fraction"] < 0.2  # cows
    assert learned["model"] == "whole"
    assert learned["seconds"] > 0
    card = (Path(learned["output"]) / "README.md").read_text()
    assert learned["source_before"]["weights.hdf5"] in card
    assert f"{after['average']:.2f}" in card
    assert "notes.tsv" not in card
    bilm = load(learned["output"])
    stored, bilm.warm_state = bilm.warm_state, None
    assert stored is not None
    assert torch.equal(stored.c, warm_state(bilm).c)


def test_what_chooses_does_not_measure(learned: Facts, domain: Path, source: Path) -> None:
    """The figures are those of `elmo perplexity` on one half; the log has those of the other."""
    found = learned
    halves = read_domain(DomainTexts((str(domain / "b.txt"),), (str(domain / "a.txt"),)))
    assert found["heldout"] == halves.describe()
    assert found["heldout"]["unit"] == "documents"
    out = Path(found["output"])
    for folder, key in ((source, "before"), (out, "after")):
        measured = perplexity(load_language_model(folder), halves.test)
        for way in ("forward", "backward", "average"):
            assert getattr(measured, way) == pytest.approx(found[key]["perplexity"][way], rel=1e-9)
        assert measured.unknown_fraction == found["unknown_fraction"]
    chosen = found["chosen"]
    own = perplexity(load_language_model(out), halves.validation).average
    assert own == pytest.approx(chosen["perplexity"], rel=1e-6)
    assert own != pytest.approx(found["after"]["perplexity"]["average"], rel=1e-3)
    assert (chosen["step"], chosen["perplexity"]) in losses(out)
    card = (out / "README.md").read_text()
    assert all(describe_text(found["heldout"][half]) in card for half in ("validation", "test"))


def test_a_worse_test_text_is_a_warning(
    learned: Facts, tune: Tune, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few documents may choose weights that are worse for all others."""
    warning = "warning: fine-tuning improved the validation text, but not the test text"
    assert warning not in learned["err"]
    monkeypatch.setattr(FinetuneResult, "ratio", 1.01)
    assert warning in tune()["err"]


def test_an_unfinished_run_says_so(finished: Path) -> None:
    """A folder that is being trained has weights, which are not the ones to report."""
    assert load_language_model(finished).warning == ""
    (finished / "state.hdf5").unlink()
    done = elmo("perplexity", finished / "README.md", "-m", finished)
    assert done.code == 0
    assert f"warning: {finished}: the run is not finished; " in done.err
    (finished / "checkpoint.pt").unlink()
    assert load_language_model(finished).warning == ""


def test_model_without_softmax_gets_one_first(
    tune: Tune, tiny: Path, source: Path, tmp_path: Path
) -> None:
    """Without a fit, the first figure would be that of chance."""
    found = tune("--vocabulary", source / "vocab.txt", "--max-steps", "40", model=tiny)
    assert found["softmax"] == "fitted"
    assert found["vocabulary"] == {"types": 14, "source": str(source / "vocab.txt")}
    assert found["unknown_fraction"] > 0
    assert found["before"]["perplexity"]["average"] < 10.8
    assert found["improved"]
    fitted = shutil.copytree(tiny, tmp_path / "fitted")
    shutil.copy(Path(found["output"]) / "fitted_softmax.hdf5", fitted / "softmax.hdf5")
    shutil.copy(Path(found["output"]) / "vocab.txt", fitted)
    assert tune(model=fitted)["before"] == found["before"]  # which anybody can measure again


@pytest.fixture(scope="session")
def fitted(tune: Tune) -> Facts:
    """A short run with a fitted softmax."""
    return tune("--fit-softmax", "--softmax-tokens", "500")


def test_fitted_softmax_beside_the_own_one(
    fitted: Facts, usual: Facts, tune: Tune, tiny: Path
) -> None:
    """Only with one vocabulary do the figures show which gain is due to the softmax."""
    assert fitted["softmax"] == "fitted"
    assert fitted["before_model_softmax"] == usual["before"]
    assert [fitted[k] == usual[k] for k in ("vocabulary", "unknown_fraction")] == [True, True]
    assert fitted["before"]["perplexity"]["average"] < usual["before"]["perplexity"]["average"]
    counted = tune("--softmax-tokens", "100", "--max-seconds", "0.001", model=tiny)
    assert counted["vocabulary"] == {"types": 15, "source": "counted in the domain"}
    assert counted["unknown_fraction"] == 0


def test_better_model_is_kept(tune: Tune, learned: Facts) -> None:
    source = Path(learned["output"])
    found = tune("--learning-rate", "0.1", "--dropout", "0.95", model=source)
    assert found["improved"] is False
    assert found["after"] == found["before"]
    assert is_same_model(Path(found["output"]), source)
    assert "did not help" in (Path(found["output"]) / "README.md").read_text()


def test_resumed_run_equals_an_uninterrupted_one(tune: Tune, tmp_path: Path) -> None:
    constant, out = ("--optimizer", "adagrad"), tmp_path / "out"
    whole = tune(*constant)
    tune(*constant, "--max-steps", "3", out=out)
    found = tune(*constant, "--resume", out=out)
    assert [found[key] == whole[key] for key in ("before", "after", "epochs")] == [True] * 3
    digest = [digests(Path(facts["output"])) for facts in (found, whole)]
    for name in ("weights.hdf5", "softmax.hdf5", "state.hdf5"):
        assert digest[0][name] == digest[1][name]


def test_run_is_resumed_with_another_division_of_its_batch(tune: Tune, tmp_path: Path) -> None:
    """Fewer streams at once, and another learning rate, of which the record depends on neither."""
    tune("--max-steps", "3", out=tmp_path / "out")
    halved = ("--batch-size", "2", "--gradient-accumulation-steps", "2", "--learning-rate", "0.01")
    assert tune(*halved, "--resume", out=tmp_path / "out")["tokens"] == TOKENS


def test_time_limit_is_that_of_training(tune: Tune, source: Path, tmp_path: Path) -> None:
    """A run without time for a step changes nothing, and can be resumed with more time."""
    out = tmp_path / "out"
    found = tune("--max-seconds", "0.001", out=out)
    assert "No step was made: " in found["err"]
    assert (found["tokens"], found["improved"]) == (0, None)
    assert found["chosen"]["step"] == 0
    assert found["after"] == found["before"]
    assert "No step was made: " in (out / "README.md").read_text()
    assert is_same_model(out, source)
    found = tune("--max-seconds", "900", "--resume", out=out)
    assert "before: perplexity" not in found["err"]  # which is known
    assert (found["tokens"], found["improved"]) == (TOKENS, True)
    assert found["seconds"] == log(out)[-1]["seconds"]


def test_time_of_a_fit_is_not_that_of_training(
    tune: Tune, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a model that needs a fit would be trained for less time than the user asked for."""

    def slow_fit(*args: Any, **settings: Any) -> NextTokenSoftmax:
        time.sleep(1.5)
        return fit_softmax(*args, **settings)

    monkeypatch.setattr("elmo_cli.lm.finetune.run.fit_softmax", slow_fit)
    words = ("--softmax-tokens", "100", "--max-steps", "100000", "--max-epochs", "100000")
    found = tune(*words, "--patience", "100000", "--max-seconds", "1", model=tiny)
    assert found["seconds"] == pytest.approx(1, abs=0.4)
    assert found["tokens"] > 0


@pytest.mark.parametrize(
    ("words", "phases"),
    [
        (
            "",
            "measure the model before training; train for at most 8 steps or 3 epochs; measure the "
            "trained model",
        ),
        (
            "--fit-softmax --max-seconds 150.5",
            "measure the model with its own softmax; fit a softmax to at most 300,000 tokens; "
            "measure the model before training; train for at most 150.5 s, 8 steps or 3 epochs; "
            "measure the trained model",
        ),
        (
            "--fit-softmax --vocabulary /types.txt --softmax-tokens 2000",
            "fit a softmax to at most 2,000 tokens; measure the model before training; train for "
            "at most 8 steps or 3 epochs; measure the trained model",
        ),
    ],
    ids=["a model with a softmax", "another softmax", "another vocabulary"],
)
def test_plan_is_printed_before_long_work(
    words: str,
    phases: str,
    source: Path,
    domain: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user who sees that a fit comes first can leave it out before it has taken an hour."""

    def stop(*args: Any, **settings: Any) -> None:
        raise InputError("reading has begun")

    monkeypatch.setattr("elmo_cli.lm.finetune.run.read_domain", stop)
    (tmp_path / "types.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")
    given = [str(tmp_path / word[1:]) if word[0] == "/" else word for word in words.split()]
    done = elmo(*command(domain, source, tmp_path / "out", *given))
    assert f"plan: {phases}" in done.err.splitlines()
    assert "reading has begun" in done.err


def test_first_line_is_printed_at_once(
    source: Path, domain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a terminal, a run that loads a large model would seem to hang."""

    def locate_slowly(*args: Any) -> None:
        time.sleep(0.5)
        raise InputError("locating has ended")

    monkeypatch.setattr(lm_training, "_FIRST_LINE_S", 0.05)
    monkeypatch.setattr("elmo_cli.lm.finetune.run.locate", locate_slowly)
    done = elmo(*command(domain, source, tmp_path / "out"))
    assert done.err.splitlines() == ["starting", "error: locating has ended"]


def test_resumed_run_plans_only_what_is_left(finished: Path, tune: Tune) -> None:
    err = tune("--resume", "--max-steps", "9", out=finished)["err"]
    assert "plan: train for at most 9 steps or 3 epochs; measure the trained model" in err


@pytest.mark.parametrize(
    ("max_seconds", "interval"), [(None, 100), (10_000.0, 100), (150.0, 15), (0.001, 1)]
)
def test_a_time_limit_has_evaluations(max_seconds: float | None, interval: int) -> None:
    """Of a large text, the limit may end the run before a tenth of an epoch has passed."""
    settings = TrainSettings(batch_size=4, max_seconds=max_seconds, eval_steps=100)
    found = with_evaluations_in_time(settings, tokens_per_s=32.0)  # a step has 80 tokens
    assert found.eval_steps == interval


def test_each_epoch_is_evaluated() -> None:
    """Else a short text would be learned by heart before the first evaluation."""
    for steps, between in ((1000, 100), (300, 30), (120, 25), (7, 7)):
        corpus = Corpus.read([["a"] * 79] * steps)  # one batch per sentence
        found = finetune_settings(TrainSettings(batch_size=4, max_epochs=1), corpus)
        assert (found.eval_steps, found.keep_best) == (between, True)
        assert found.warmup_steps == steps // 20 + 1


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        ({"max_epochs": 1.0}, 5e-4),
        ({"max_epochs": 40.0}, 1e-3),
        ({"max_steps": 10}, 1e-4),
        ({"max_epochs": 1.0, "max_steps": 10}, 1e-4),
        ({"max_steps": 10, "learning_rate": 0.02}, 0.02),
        ({"max_steps": 10, "optimizer": "adagrad"}, 0.05),
    ],
)
def test_default_learning_rate(given: dict[str, Any], rate: float) -> None:
    """Few steps at the full rate spoil a model; an epoch has 250 steps."""
    corpus = Corpus.read([["a"] * 79] * 250)
    found = finetune_settings(TrainSettings(batch_size=4, **given), corpus)
    assert found.learning_rate == pytest.approx(rate)


@pytest.fixture(scope="session")
def undisturbed(tune: Tune, tiny: Path) -> Facts:
    """A run with a fit that nothing stops."""
    return tune(*LONG, model=tiny)


def losses(folder: Path) -> list[tuple[int, float]]:
    """The log without times."""
    return [(line["step"], line.get("loss") or line["heldout"]["average"]) for line in log(folder)]


@pytest.mark.slow
@pytest.mark.parametrize("n_lines", [0, 2, 4])
def test_resume_after_kill_gives_identical_run(
    tune: Tune, undisturbed: Facts, domain: Path, tiny: Path, tmp_path: Path, n_lines: int
) -> None:
    """kill -9 in the fit or in training, when the log has some lines."""
    out, started_at = tmp_path / "out", time.monotonic()
    process = start(*command(domain, tiny, out, *LONG))
    record, lines = out / "finetune.json", out / "log.jsonl"
    while not (lines.exists() and lines.read_bytes().count(b"\n") >= n_lines):
        if n_lines == 0 and record.exists():
            break
        time.sleep(0.01)
        assert time.monotonic() - started_at < 120
    time.sleep(random.Random(n_lines).random() / 4)
    process.kill()
    process.communicate()
    found = tune(*LONG, "--resume", model=tiny, out=out)
    assert (found["before"], found["after"]) == (undisturbed["before"], undisturbed["after"])
    assert losses(out) == losses(Path(undisturbed["output"]))


def refused(done: Done, code: int, *places: str) -> None:
    """Check that two lines were printed, which contain some words."""
    assert (done.code, done.out) == (code, b""), done.err
    error, hint = done.err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    assert all(place in done.err for place in places), done.err


@pytest.fixture
def attempt(source: Path, domain: Path, tmp_path: Path) -> Callable[..., Done]:
    """Runs the command of `usual` with more words, in a folder with what tests damage."""
    shutil.copytree(source, tmp_path / "model")
    shutil.copytree(source, tmp_path / "tiny", ignore=lambda *_: ["softmax.hdf5", "vocab.txt"])
    (tmp_path / "one.txt").write_text("One sentence only .\n")
    (tmp_path / "few.txt").write_text("".join(f"{k} .\n" for k in range(20)))
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\xff not UTF-8\n")
    (tmp_path / "types.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")

    def attempted(line: str = "", out: str = "out", model: str = "model", text: str = "") -> Done:
        words = [str(tmp_path / word[1:]) if word[0] == "/" else word for word in line.split()]
        texts = tmp_path / text if text else domain
        return elmo(*command(texts, tmp_path / model, tmp_path / out, "-q", *words))

    return attempted


@pytest.mark.parametrize(
    ("line", "more", "code", "place"),
    [
        ("--domain /none", {}, 1, "none:"),
        ("--domain /bad.txt --heldout /none", {}, 1, "none:"),
        ("--min-count 5000", {"model": "tiny"}, 2, "`--min-count 5000`"),
        ("--min-count 5", {}, 2, "--min-count"),
        ("--vocabulary-size 5 --fit-softmax --vocabulary /types.txt", {}, 2, "types.txt"),
        ("--softmax-tokens 7", {}, 2, "--fit-softmax"),
        ("--resume --overwrite", {}, 2, "--overwrite"),
        ("--resume", {}, 1, "out:"),
        ("", {"text": "one.txt"}, 1, "`--heldout FILE`"),
        ("--batch-size 8", {"text": "few.txt"}, 1, "`--batch-size 2`"),
    ],
)
def test_refused_before_any_work(
    line: str,
    more: dict[str, str],
    code: int,
    place: str,
    attempt: Callable[..., Done],
    tmp_path: Path,
) -> None:
    refused(attempt(line, **more), code, place)
    assert not (tmp_path / "out").exists()


def test_what_is_overwritten(attempt: Callable[..., Done], finished: Path, domain: Path) -> None:
    """A model that would be replaced by its own fine-tuning is lost; names may not be UTF-8."""
    folders = (finished, finished.parent / "model")
    before = [digests(folder) for folder in folders]
    refused(attempt("--overwrite", out="model"), 2, "model: contains ")
    refused(attempt(), 1, "out: contains a finetune run", "`--resume`")
    for softmax in ("", "--softmax /out/softmax.hdf5"):
        line = f"--overwrite {softmax} --vocabulary /out/vocab.txt"
        refused(attempt(line), 2, "out: contains ")
    assert [digests(folder) for folder in folders] == before
    name = os.fsdecode(b"caf\xe9.txt")
    shutil.copy(domain / "a.txt", finished.parent / name)
    assert attempt(f"--overwrite --domain /{name}").code == 0
    assert digests(finished).keys() == before[0].keys()
    assert r"caf\udce9.txt" in (finished / "README.md").read_text(encoding="utf-8")


def test_another_run_is_not_continued(
    attempt: Callable[..., Done], finished: Path, source: Path
) -> None:
    """Nor one whose record is cut, nested, empty or foreign, or whose checkpoint is missing."""
    other, before = shutil.copytree(source, finished.parent / "other"), digests(finished)
    with h5py.File(other / "weights.hdf5", "r+") as file:
        file["char_embed"][0, 0] += 1
    for words, place in (
        ("-m /other", "started with model"),
        ("--fit-softmax", "started with softmax"),
        ("--domain /few.txt", "started with text"),
        # Before the text is read, which may take long:
        ("--domain /bad.txt --batch-size 3", "started with batch_size 4, now 3"),
    ):
        refused(attempt(f"--resume {words}"), 1, "out/", place)
    assert digests(finished) == before
    (finished / "checkpoint.pt").unlink()
    refused(attempt("--resume --max-steps 20"), 1, "checkpoint.pt: missing", "`--overwrite`")
    for content in ("{", "[" * 200_000, "{}", "[]", '{"run": {}, "train": 3, "before": 1}'):
        (finished / "finetune.json").write_text(content)
        before = digests(finished)
        refused(attempt("--resume --max-steps 20"), 1, "finetune.json", "`--overwrite`")
        assert digests(finished) == before


def test_record_of_another_version_is_not_continued(
    attempt: Callable[..., Done], finished: Path
) -> None:
    """Its seconds counted the fit too, and its figures were measured on a part of the text."""
    path = finished / "finetune.json"
    record = json.loads(path.read_text())
    record |= {"seconds": 12.5, "samples": {"test": 500}, "measuring_s": 0.25}
    path.write_text(json.dumps(record))
    refused(
        attempt("--resume --max-steps 20"),
        1,
        "finetune.json: written by another version of elmo, with measuring_s, samples, seconds",
        "hint: resume the run with that version; `--overwrite` starts over",
    )


def test_run_that_failed_after_its_fit_is_resumed(
    fitted: Facts, attempt: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fitted softmax, which took long, is not fitted again."""

    def broken(*args: object, **facts: object) -> None:
        raise OutputError("out: no space left", "make room")

    words = "--fit-softmax --softmax-tokens 500"
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "save", broken)
        refused(attempt(words), 1, "no space left")
    monkeypatch.setattr("elmo_cli.lm.finetune.run.fit_softmax", broken)
    done = attempt(f"{words} --resume")
    assert done.code == 0, done.err
    assert json.loads(done.out)["after"] == fitted["after"]
    assert is_same_model(tmp_path / "out", Path(fitted["output"]))
