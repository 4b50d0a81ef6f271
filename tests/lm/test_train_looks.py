"""Looks at the held-out text: when they come, what they keep, when they end a run."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_run import OPTIONS, SENTENCES, SETTINGS, log, trainer, weights

from elmo_cli.errors import StoppedError, TrainingError, UsageError
from elmo_cli.lm.checkpoint import FILE_NAME
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.evaluation import exp_or_inf
from elmo_cli.lm.initialize import new_bilm
from elmo_cli.lm.language_model import LanguageModel
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.signals import StopSignals
from elmo_cli.weightfile.read import read_bilm, read_softmax


def looks(folder: Path) -> list[tuple[int, float]]:
    """Step and average held-out perplexity of each look."""
    return [(line["step"], line["heldout"]["average"]) for line in log(folder) if "heldout" in line]


def exported(folder: Path, trained: Trainer) -> list[torch.Tensor]:
    bilm = read_bilm(folder / "options.json", folder / "weights.hdf5")
    head = read_softmax(folder / "softmax.hdf5", n_types=len(trained.vocabulary), projection=16)
    return [*bilm.parameters(), *head.parameters()]


def test_looks_come_every_so_many_windows(tmp_path: Path) -> None:
    """Without it a short fine-tuning would never be measured on its way; none may come twice."""
    trainer(tmp_path, replace(SETTINGS, eval_steps=4)).train()
    assert [step for step, _ in looks(tmp_path)] == [4, 8, 12]


# A rate so high that the perplexity rises after some steps.
WILD = replace(
    SETTINGS, max_steps=24, eval_steps=3, learning_rate=0.2, warmup_steps=12, dropout=0.0
)


@pytest.mark.parametrize("keep_best", [True, False])
def test_a_run_that_was_killed_before_its_last_export_makes_up_for_it(
    keep_best: bool, tmp_path: Path
) -> None:
    """The checkpoint says that all is done, and the folder would hold no model or an older one."""
    settings = replace(SETTINGS, keep_best=keep_best)
    whole = trainer(tmp_path, settings)
    whole.train()
    for name in ("weights.hdf5", "softmax.hdf5"):
        (tmp_path / name).unlink()
    again = trainer(tmp_path, settings)
    again.resume()
    again.train()
    for one, other in zip(exported(tmp_path, again), weights(whole), strict=True):
        assert torch.equal(one, other)


def test_the_best_look_is_what_is_exported(tmp_path: Path) -> None:
    """Without it early stopping would hand over the weights it stopped because of."""
    trained = trainer(tmp_path, replace(WILD, keep_best=True))
    trained.train()
    measured = looks(tmp_path)
    best_step, best = min(measured, key=lambda look: look[1])
    assert best_step not in (0, 24)  # or the test shows nothing
    for one, other in zip(exported(tmp_path, trained), weights(trained), strict=True):
        assert torch.equal(one, other)
    model = LanguageModel(trained.bilm, trained.head, trained.vocabulary), trained.corpus
    assert perplexity(*model).average == pytest.approx(best, rel=1e-6)
    assert [path.name for path in tmp_path.glob("best-*")] == [f"best-{best_step}.pt"]


class KilledError(Exception):
    """Stands for the end of the process: nothing is saved after it."""


def test_a_resumed_run_keeps_the_best_look_of_its_first_part(tmp_path: Path) -> None:
    """Without it a resumed run would forget weights that were better than what follows."""
    settings = replace(WILD, keep_best=True)
    whole = trainer(tmp_path / "whole", settings)
    whole.train()
    killed = trainer(tmp_path / "parts", settings)

    def kill(line: dict[str, Any]) -> None:
        if line["step"] == 20:
            raise KilledError

    killed._report = kill
    with pytest.raises(KilledError):
        killed.train()
    rest = trainer(tmp_path / "parts", settings)
    rest.resume()
    assert 0 < rest.progress.best_step < rest.progress.step < 20
    rest.train()
    assert rest.progress.best_step == whole.progress.best_step
    assert looks(tmp_path / "parts") == looks(tmp_path / "whole")
    for one, other in zip(exported(tmp_path / "parts", rest), weights(whole), strict=True):
        assert torch.equal(one, other)


def test_a_stopped_run_looks_where_an_undisturbed_one_does(tmp_path: Path) -> None:
    """Without it the look at which a run was stopped by the way would be compared with, and might
    be exported as the best."""
    settings = replace(WILD, keep_best=True)
    whole = trainer(tmp_path / "whole", settings)
    whole.train()
    stopped = trainer(tmp_path / "parts", settings)
    learn = stopped._learner.learn

    def interrupted(*given: Any) -> Any:
        if stopped.progress.step == 15:
            os.kill(os.getpid(), signal.SIGTERM)
        return learn(*given)

    stopped._learner.learn = interrupted  # type: ignore[method-assign]
    with pytest.raises(StoppedError, match="stopped at step 16"):
        stopped.train()
    rest = trainer(tmp_path / "parts", settings)
    rest.resume()
    rest.train()
    assert looks(tmp_path / "parts") == looks(tmp_path / "whole")
    assert rest.progress.best_step == whole.progress.best_step


def test_the_best_may_be_kept_from_a_resume_on(tmp_path: Path) -> None:
    """Without it the run would ask for weights that it did not keep, after all the training."""
    begun = trainer(tmp_path, WILD)
    begun.train()
    before = begun.progress.best
    rest = trainer(tmp_path, replace(WILD, max_steps=27, keep_best=True))
    rest.resume()
    rest.train()
    measured = dict(looks(tmp_path)[-2:])
    assert list(measured) == [24, 27]
    assert before < min(measured.values())  # or the test shows nothing
    assert measured[rest.progress.best_step] == min(measured.values())
    model = LanguageModel(rest.bilm, rest.head, rest.vocabulary), rest.corpus
    assert perplexity(*model).average == pytest.approx(min(measured.values()), rel=1e-6)


def test_another_heldout_text_is_not_compared_with(tmp_path: Path) -> None:
    """Without it a harder text would look as if the run had gone astray, or never be the best."""
    trainer(tmp_path, replace(SETTINGS, max_steps=4)).train()
    rest = trainer(tmp_path, replace(SETTINGS, max_steps=5))
    rest.progress.best = 1e-9  # so every look would be far worse
    rest.begin()
    harder = Corpus.read([[".", "a", "the"]] * 3)
    rest = trainer(tmp_path, replace(SETTINGS, max_steps=5), heldout=harder)
    rest.resume()
    rest.train()
    assert rest.progress.best == looks(tmp_path)[-1][1]


def test_a_perplexity_beyond_all_numbers_is_told(tmp_path: Path) -> None:
    """Without it a model that has diverged would be a fault of the program."""
    assert exp_or_inf(1000.0) == math.inf
    trained = trainer(tmp_path)
    with torch.no_grad():
        trained.head.bias += torch.linspace(0, 1e5, len(trained.head.bias))
    with pytest.raises(TrainingError, match="held-out perplexity inf, at a learning rate"):
        trained._measure()


def test_patience_ends_a_run(tmp_path: Path) -> None:
    """Without it a run goes on over-fitting until its time is used up."""
    trained = trainer(tmp_path, replace(WILD, max_steps=60, patience=2, learning_rate=0.05))
    trained.train()
    measured = [average for _, average in looks(tmp_path)]
    assert trained.progress.step < 60
    assert min(measured) == measured[-3]
    assert min(measured[-2:]) >= measured[-3]


def test_the_start_is_looked_at_too(tmp_path: Path) -> None:
    """Fine-tuning may make a model worse: then the weights it began with are the best."""
    trained = trainer(
        tmp_path, replace(WILD, learning_rate=0.1, warmup_steps=0, max_steps=1, keep_best=True)
    )
    before = [weight.detach().clone() for weight in weights(trained)]
    trained.train()
    measured = looks(tmp_path)
    assert measured[0][0] == 0
    assert measured[1][1] > measured[0][1]
    for one, other in zip(exported(tmp_path, trained), before, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [({"max_epochs": 2}, 560), ({"max_epochs": 0.5}, 160)],
)
def test_epochs_end_a_run(limit: dict[str, Any], expected: int, tmp_path: Path) -> None:
    """An epoch has seven windows of 4 rows and 10 steps here."""
    trained = trainer(tmp_path, replace(SETTINGS, max_steps=None, **limit))
    trained.train()
    assert trained.progress.tokens == expected


def test_patience_and_best_need_a_heldout_text(tmp_path: Path) -> None:
    """Without it `--patience` would be taken and do nothing."""
    corpus = Corpus.read(SENTENCES)
    vocabulary = corpus.vocabulary()
    model = new_bilm(OPTIONS, corpus.predicted_counts(vocabulary), seed=0)
    for wanted, name in (({"patience": 2}, "--patience"), ({"keep_best": True}, "--keep-best")):
        with pytest.raises(UsageError, match=f"{name}: there is no held-out text"):
            Trainer(*model, vocabulary, corpus, None, replace(SETTINGS, **wanted), tmp_path)


def test_time_alone_decides_about_no_look_where_they_go_by_steps(tmp_path: Path) -> None:
    """A slow machine would look more often, and be out of patience sooner."""
    saved: list[int] = []
    settings = replace(SETTINGS, eval_steps=5, eval_seconds=1e-6, log_steps=1)
    run = trainer(tmp_path, settings)
    report = run._report

    def note(line: dict[str, Any]) -> None:
        content = torch.load(tmp_path / FILE_NAME, weights_only=True)
        saved.append(content["progress"]["step"])
        report(line)

    run._report = note
    run.train()
    assert [step for step, _ in looks(tmp_path)] == [5, 10, 12]
    assert {1, 2, 3, 4, 6, 7} <= set(saved)  # a checkpoint at other steps too


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """The shell has it so for a job in the background, which Ctrl-C is not meant for."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignals() as signals:
            os.kill(os.getpid(), signal.SIGINT)
        assert not signals.received
    finally:
        signal.signal(signal.SIGINT, before)
