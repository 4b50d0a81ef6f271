"""Evaluations during training: when they come, what they keep, when they end a run."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_run import SETTINGS, LogReporter, equal, evaluations, exported, log, trainer, weights

from elmo_cli.errors import StoppedError
from elmo_cli.lm.checkpoint import read_checkpoint
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.stream import StreamBatch
from elmo_cli.pretrained.model_files import CHECKPOINT_FILE

# A learning rate so high that the perplexity rises after some steps.
WILD = replace(
    SETTINGS, max_steps=24, eval_steps=3, learning_rate=0.2, warmup_steps=12, dropout=0.0
)
KEEP_BEST = replace(WILD, keep_best=True)


class KilledError(Exception):
    """Stands for the end of the process: nothing is saved after it."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    """An uninterrupted run that keeps the best weights."""
    run = trainer(tmp_path_factory.mktemp("whole"), KEEP_BEST)
    run.train()
    return run


@pytest.fixture(scope="module")
def best_weights(whole: Trainer) -> list[torch.Tensor]:
    """The weights that the whole run has exported."""
    return exported(whole)


def test_the_best_weights_are_exported(whole: Trainer, best_weights: list[torch.Tensor]) -> None:
    average_of_step = dict(evaluations(whole.folder.path))
    best = min(average_of_step.values())
    best_step = min(step for step, average in average_of_step.items() if average == best)
    assert best_step not in (0, 24)  # or the test shows nothing
    assert not equal(best_weights, weights(whole))
    assert whole.progress.exported["step"] == best_step
    model = load_language_model(whole.folder.path)
    assert perplexity(model, whole.step.corpus).average == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("point", ["_write_log", "_export", "_evaluate", "signal"])
def test_an_interrupted_run_keeps_the_best_of_all_its_parts(
    point: str,
    whole: Trainer,
    best_weights: list[torch.Tensor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if it was killed between the export of the best weights and the checkpoint.

    The step at which it was stopped by chance must not become the best.
    """
    run = trainer(tmp_path, KEEP_BEST)
    best_step = whole.progress.best_step
    name = "_train_one_batch" if point == "signal" else point
    step = {"signal": 16, "_write_log": 20}.get(point, best_step)
    original = getattr(run, name)

    def interrupted(*arguments: Any) -> Any:
        result = original(*arguments)
        if run.progress.step == step:
            if point != "signal":
                raise KilledError
            os.kill(os.getpid(), signal.SIGTERM)
        return result

    monkeypatch.setattr(run, name, interrupted)
    with pytest.raises((KilledError, StoppedError), match=r"stopped at step 16|^$"):
        run.train()
    rest = trainer(tmp_path, KEEP_BEST)
    rest.resume()
    assert 0 < rest.progress.step < 20
    rest.train()
    assert rest.progress.best_step == best_step
    assert evaluations(tmp_path) == evaluations(whole.folder.path)
    assert equal(exported(rest), best_weights)


def test_a_stopped_run_exports_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long after the last evaluation; its last loss is in the log."""
    run = trainer(tmp_path, replace(SETTINGS, eval_steps=100, log_steps=100))
    train_one_batch = run._train_one_batch

    def interrupted(batch: StreamBatch) -> None:
        train_one_batch(batch)
        if run.progress.step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(run, "_train_one_batch", interrupted)
    with pytest.raises(StoppedError, match="stopped at step 5; everything is saved"):
        run.train()
    assert equal(exported(run), weights(run))
    assert [line["step"] for line in log(tmp_path)] == [5]


def test_patience_ends_a_run(tmp_path: Path) -> None:
    run = trainer(tmp_path, replace(WILD, max_steps=60, patience=2, learning_rate=0.05))
    run.train()
    measured = [average for _, average in evaluations(tmp_path)]
    assert evaluations(tmp_path)[0][0] == 0  # the initial weights may be the best ones
    assert run.progress.step < 60
    assert min(measured) == measured[-3]
    assert min(measured[-2:]) >= measured[-3]


@pytest.mark.parametrize(("eval_seconds", "steps"), [(1e-6, [1, 2, 3]), (1e6, [3])])
def test_evaluations_by_time(eval_seconds: float, steps: list[int], tmp_path: Path) -> None:
    run = trainer(tmp_path, replace(SETTINGS, eval_seconds=eval_seconds, max_steps=3))
    run.train()
    assert [step for step, _ in evaluations(tmp_path)] == steps


def test_evaluations_by_steps_do_not_depend_on_time(tmp_path: Path) -> None:
    """Checkpoints do: a slow machine would otherwise run out of patience earlier."""
    saved: list[int] = []
    settings = replace(SETTINGS, max_steps=7, eval_steps=3, eval_seconds=1e-6, log_steps=1)
    run = trainer(tmp_path, settings)

    def note(line: dict[str, Any]) -> None:
        saved.append(read_checkpoint(tmp_path / CHECKPOINT_FILE)["progress"]["step"])

    run._reporter = LogReporter(note)
    run.train()
    assert [step for step, _ in evaluations(tmp_path)] == [3, 6, 7]
    assert {1, 2, 4, 5} <= set(saved)
