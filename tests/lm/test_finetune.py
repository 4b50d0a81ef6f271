"""`elmo finetune` as a whole: a domain improves the model, and nothing else is touched."""

from __future__ import annotations

import shutil
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import elmo, made
from finetune_command import TOKENS, Facts, Tune, command, digests, is_same_model, losses
from tiny_run import log

from elmo_cli.cli import lm_training
from elmo_cli.cli.finetune import _print, _why_not_improved
from elmo_cli.errors import InputError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.finetune.card import describe_text, write_card
from elmo_cli.lm.finetune.domain import DomainTexts, read_domain
from elmo_cli.lm.finetune.fit_softmax import fit_softmax
from elmo_cli.lm.finetune.job import eval_steps_in_time, finetune_settings
from elmo_cli.lm.finetune.result import FinetuneResult
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.bilm import NextTokenSoftmax
from elmo_cli.pretrained.catalogue import find_model
from elmo_cli.pretrained.load import load
from elmo_cli.pretrained.warm_state import warm_state


def test_domain_improves_the_model(learned: Facts, source: Path) -> None:
    before = learned["before"]["perplexity"]
    after = learned["after"]["perplexity"]
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
    stored_state = bilm.warm_state
    assert stored_state is not None
    bilm.warm_state = None
    assert torch.equal(stored_state.c, warm_state(bilm).c)


def test_what_is_read_and_measured_is_reported(usual: Facts, domain: Path) -> None:
    lines = usual["err"].splitlines()
    halves = usual["heldout"]
    n_train = 300 * 6 - halves["validation"]["tokens"] - halves["test"]["tokens"]
    before = usual["before"]["perplexity"]
    ways = ", ".join(f"{way} {before[way]:.2f}" for way in ("forward", "backward"))
    unknown = f"{usual['unknown_fraction']:.2%} unknown"
    expected = [
        f"not read: {domain / 'notes.tsv'}",
        f"training text: {n_train:,} tokens in {n_train // 6} sentences",
        f"validation text, which chooses the weights: {describe_text(halves['validation'])}",
        f"test text, which chooses nothing: {describe_text(halves['test'])}",
        f"before: perplexity {before['average']:.2f} ({ways}), {unknown}",
    ]
    assert [line for line in lines if line in expected] == expected
    assert any(" on the validation text (forward " in line for line in lines)


def result_of(facts: Facts) -> FinetuneResult:
    names = {field.name for field in fields(FinetuneResult)}
    return FinetuneResult(**{name: value for name, value in facts.items() if name in names})


def test_the_end_is_reported_in_words(
    learned: Facts, fitted: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    own = "frozen biLM, its own softmax"
    unchanged = {**learned, "improved": False, "after": learned["before"]}
    for facts, rows in (
        (learned, {own: "before", "fine-tuned": "after"}),
        (unchanged, {own: "before", "kept: the same": "after"}),
        ({**learned, "improved": None}, {own: "before", "kept: the same": "after"}),
        (
            {**fitted, "improved": True},
            {
                own: "before_model_softmax",
                "frozen biLM, fitted softmax": "before",
                "fine-tuned": "after",
            },
        ),
    ):
        _print(result_of(facts))
        header, *lines = capsys.readouterr().out.splitlines()
        assert header.split("\t") == ["", "forward", "backward", "average", "bits per byte"]
        for line, (name, key) in zip(lines, rows.items(), strict=False):
            figures = facts[key]
            cells = [f"{figures['perplexity'][way]:.2f}" for way in header.split("\t")[1:4]]
            assert line.split("\t") == [name, *cells, f"{figures['bits_per_byte']['average']:.4f}"]
        before = facts["before"]["perplexity"]["average"]
        ratio = facts["after"]["perplexity"]["average"] / before
        start = f"perplexity after / before: {ratio:.3f}, " if facts["improved"] else ""
        halves = facts["heldout"]
        chosen = facts["chosen"]
        expected = [
            f"{start}measured on the test text, which chose nothing: "
            f"{describe_text(halves['test'])}",
            f"{facts['unknown_fraction']:.2%} of its tokens are not among the 14 types of the "
            "vocabulary (that of the model)",
        ]
        if facts["improved"] is not None:
            expected += [
                f"the weights of step {chosen['step']} were chosen on the validation text, with "
                f"perplexity {chosen['perplexity']:.2f}: {describe_text(halves['validation'])}",
                f"{facts['output']}: trained on {facts['tokens']:,} tokens, "
                f"{facts['epochs']:.2f} epochs, in {facts['seconds']:,.0f} s",
            ]
        assert lines[len(rows) :] == expected


def test_the_card_has_the_facts(learned: Facts, domain: Path, tmp_path: Path) -> None:
    halves = learned["heldout"]
    test = halves["test"]
    rows = {
        "fine-tuned from": f"whole, weights with sha256 "
        f"`{learned['source_before']['weights.hdf5']}`",
        "on": f"`{domain / 'b.txt'}`",
        "trained": f"{learned['tokens']:,} tokens in each direction, "
        f"{learned['epochs']:.2f} epochs",
        "softmax": "the model's own, then trained",
        "vocabulary": "14 types, that of the model",
        "validation text, which chose the weights": describe_text(halves["validation"]),
        "test text, which chose nothing": f"{describe_text(test)}; "
        f"{learned['unknown_fraction']:.2%} of its tokens are not in the vocabulary, and "
        f"{test['overlap']:.1%} of its sentences are in the training text too",
        "held out as a whole": "documents",
    }
    expected = [f"| {name} | {fact} |" for name, fact in rows.items()]
    lines = (Path(learned["output"]) / "README.md").read_text().splitlines()
    assert [line for line in lines if line in expected] == expected
    assert lines[:3] == ["---", "library_name: elmo", "# license: a code such as cc-by-sa-4.0"]
    path = tmp_path / "card.md"
    write_card(path, result_of(learned), "0", [], source=find_model("elmo-en"))
    _, header, _ = path.read_text().split("---\n")
    assert "license: cc-by-sa-4.0  # of the source model" in header
    assert "\nlanguage: en\n# datasets: " in header
    for n_files, end in ((8, " |"), (10, " and 2 more |")):
        write_card(path, result_of(learned), "0", [f"{n}.txt" for n in range(n_files)])
        names = ", ".join(f"`{n}.txt`" for n in range(8))
        assert f"| on | {names}{end}\n" in path.read_text()
    write_card(path, result_of(learned), "0", ["a|b\nc.txt"])
    assert "| on | `a\\|b c.txt` |\n" in path.read_text()


@pytest.mark.parametrize(
    ("improved", "end"),
    [
        (None, "No step was made: {}; `--resume` with a larger limit trains"),
        (False, "Fine-tuning did not help: {}; try `--overwrite --learning-rate 0.005`, or more "
         "text"),
    ],
)  # fmt: skip
def test_why_the_source_is_kept(usual: Facts, improved: bool | None, end: str) -> None:
    facts = {**usual, "improved": improved, "learning_rate": 0.02}
    contains = f"{usual['output']} contains the biLM of whole"
    assert _why_not_improved(result_of(facts)) == end.format(contains)


def test_what_chooses_does_not_measure(learned: Facts, domain: Path, source: Path) -> None:
    """The figures are those of `elmo perplexity` on one half; the log has those of the other."""
    halves = read_domain(DomainTexts((str(domain / "b.txt"),), (str(domain / "a.txt"),)))
    assert learned["heldout"] == halves.describe()
    assert learned["heldout"]["unit"] == "documents"
    out = Path(learned["output"])
    for folder, key in ((source, "before"), (out, "after")):
        measured = perplexity(load_language_model(folder), halves.test)
        for way in ("forward", "backward", "average"):
            assert getattr(measured, way) == pytest.approx(
                learned[key]["perplexity"][way], rel=1e-9
            )
        assert measured.unknown_fraction == learned["unknown_fraction"]
    chosen = learned["chosen"]
    own = perplexity(load_language_model(out), halves.validation).average
    assert own == pytest.approx(chosen["perplexity"], rel=1e-6)
    assert own != pytest.approx(learned["after"]["perplexity"]["average"], rel=1e-3)
    assert (chosen["step"], chosen["perplexity"]) in losses(out)
    card = (out / "README.md").read_text()
    assert all(describe_text(learned["heldout"][half]) in card for half in ("validation", "test"))


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
    (finished / "README.md").unlink()
    note = f"{finished}: the run is not finished; the weights are those that it has written so far"
    note += f"; `elmo finetune … -o {finished} --resume` continues it\n"
    text = finished / "vocab.txt"
    done = made("perplexity", text, "-m", finished)
    assert f"warning: {note}" in done.err
    done = made("embed", text, "-m", finished, "-o", finished.parent / "v.hdf5")
    assert note in done.err
    (finished / "checkpoint.pt").unlink()
    assert load_language_model(finished).warning == ""


def test_model_without_softmax_gets_one_first(
    tune: Tune, tiny: Path, source: Path, tmp_path: Path
) -> None:
    """Without a fit, the first figure would be that of chance."""
    tuned = tune("--vocabulary", source / "vocab.txt", "--max-steps", "40", model=tiny)
    assert tuned["softmax"] == "fitted"
    assert tuned["vocabulary"] == {"types": 14, "source": str(source / "vocab.txt")}
    assert tuned["unknown_fraction"] > 0
    assert tuned["before"]["perplexity"]["average"] < 10.8
    assert tuned["improved"]
    fitted = shutil.copytree(tiny, tmp_path / "fitted")
    shutil.copy(Path(tuned["output"]) / "fitted_softmax.hdf5", fitted / "softmax.hdf5")
    shutil.copy(Path(tuned["output"]) / "vocab.txt", fitted)
    assert tune(model=fitted)["before"] == tuned["before"]  # which anybody can measure again


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
    tuned = tune("--learning-rate", "0.1", "--dropout", "0.95", model=source)
    assert tuned["improved"] is False
    assert tuned["after"] == tuned["before"]
    assert is_same_model(Path(tuned["output"]), source)
    assert "did not help" in (Path(tuned["output"]) / "README.md").read_text()


def test_time_limit_is_that_of_training(tune: Tune, source: Path, tmp_path: Path) -> None:
    """A run without time for a step changes nothing, and can be resumed with more time."""
    out = tmp_path / "out"
    tuned = tune("--max-seconds", "0.001", out=out)
    assert "No step was made: " in tuned["err"]
    assert (tuned["tokens"], tuned["improved"]) == (0, None)
    assert tuned["chosen"]["step"] == 0
    assert tuned["after"] == tuned["before"]
    assert "No step was made: " in (out / "README.md").read_text()
    assert is_same_model(out, source)
    tuned = tune("--max-seconds", "900", "--resume", out=out)
    assert "before: perplexity" not in tuned["err"]  # which is known
    assert (tuned["tokens"], tuned["improved"]) == (TOKENS, True)
    assert tuned["seconds"] == log(out)[-1]["seconds"]


def test_time_of_a_fit_is_not_that_of_training(
    tune: Tune, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a model that needs a fit would be trained for less time than the user asked for."""
    monotonic = time.monotonic

    def fit_for_an_hour(*args: Any, **settings: Any) -> NextTokenSoftmax:
        monkeypatch.setattr(time, "monotonic", lambda: monotonic() + 3600)
        return fit_softmax(*args, **settings)

    monkeypatch.setattr("elmo_cli.lm.finetune.run.fit_softmax", fit_for_an_hour)
    tuned = tune("--softmax-tokens", "100", "--max-seconds", "1800", model=tiny)
    assert tuned["seconds"] < 1800
    assert tuned["tokens"] == TOKENS


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
    options = [str(tmp_path / word[1:]) if word[0] == "/" else word for word in words.split()]
    done = elmo(*command(domain, source, tmp_path / "out", *options))
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
    assert done.err.splitlines() == [
        "loading PyTorch and the model",
        "error: locating has ended",
    ]


def test_resumed_run_plans_only_what_is_left(finished: Path, tune: Tune) -> None:
    err = tune("--resume", "--max-steps", "9", out=finished)["err"]
    assert "plan: train for at most 9 steps or 3 epochs; measure the trained model" in err


@pytest.mark.parametrize(
    ("max_seconds", "interval"), [(None, 100), (10_000.0, 100), (150.0, 15), (0.001, 1)]
)
def test_a_time_limit_has_evaluations(max_seconds: float | None, interval: int) -> None:
    """Of a large text, the limit may end the run before a tenth of an epoch has passed."""
    settings = TrainSettings(batch_size=4, max_seconds=max_seconds, eval_steps=100)
    assert eval_steps_in_time(settings, tokens_per_s=32.0) == interval  # a step has 80 tokens


def test_each_epoch_is_evaluated() -> None:
    """Else a short text would be learned by heart before the first evaluation."""
    for steps, between in ((1000, 100), (300, 30), (120, 25), (7, 7)):
        corpus = Corpus.read([["a"] * 79] * steps)  # one batch per sentence
        settings = finetune_settings(TrainSettings(batch_size=4, max_epochs=1), corpus)
        assert (settings.eval_steps, settings.keep_best) == (between, True)
        assert settings.warmup_steps == steps // 20 + 1


def test_rounded_weights_are_measured_even_if_no_step_was_better(
    tune: Tune, learned: Facts
) -> None:
    """What is written are not quite the weights that were measured before."""
    options = ("--learning-rate", "0.1", "--dropout", "0.95", "--dtype", "float16")
    facts = tune(*options, model=Path(learned["output"]))
    assert facts["improved"] is False
    assert facts["after"] != facts["before"]
    after = facts["after"]["perplexity"]["average"]
    before = facts["before"]["perplexity"]["average"]
    assert 0.99 < after / before < 1.01
