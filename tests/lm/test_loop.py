"""The training loop: it learns, resumes to the same numbers, and stops for a reason."""

from __future__ import annotations

import math
import os
import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from disks import disk_of
from tiny_run import OPTIONS, SETTINGS, LogReporter, equal, exported, log, trainer, weights

from elmo_cli.errors import OutputError, TrainingError
from elmo_cli.lm.checkpoint import FILE_NAME, TrainingProgress
from elmo_cli.lm.evaluation import score
from elmo_cli.lm.language_model import new_bilm
from elmo_cli.lm.loop import stop_on_signal
from elmo_cli.lm.perplexity import perplexity_of
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import learning_rate_at
from elmo_cli.model.state import State

SAMPLED = replace(SETTINGS, negative_samples=8)


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, max_steps=60, learning_rate=0.02, warmup_steps=10),
        replace(SETTINGS, max_steps=60, learning_rate=0.2, optimizer="adagrad"),
        replace(SAMPLED, max_steps=100, learning_rate=0.03, warmup_steps=10),
    ],
    ids=["adamw", "adagrad", "sampled"],
)
def test_both_directions_learn(settings: TrainSettings, tmp_path: Path) -> None:
    run = trainer(tmp_path, replace(settings, dropout=0.0))
    run.heldout = None

    def measured() -> Any:
        return perplexity_of(score(run.step.model, run.step.corpus, carry=True, batch_size=4))

    before = measured()
    run.train()
    after = measured()
    # Two words of a sentence are one of four, the others follow: exp(2 log 4 / 7) = 1.49.
    assert before.average > 6.5
    assert 1.45 < after.forward < 3
    assert 1.45 < after.backward < 3


@pytest.mark.parametrize("settings", [SAMPLED, SETTINGS], ids=["sampled", "full"])
def test_only_a_sampled_softmax_has_a_sparse_gradient(
    settings: TrainSettings, tmp_path: Path
) -> None:
    """New memory of its size would cost a tenth of each step."""
    run = trainer(tmp_path, settings)
    found, weight = [], run.step.model.softmax.weight
    weight.register_hook(lambda new: found.append((weight.grad is not None, new.is_sparse)))
    run.train()
    assert found == [(settings is SAMPLED, settings is SAMPLED)] * 12


@pytest.mark.parametrize("settings", [SAMPLED, SETTINGS], ids=["sampled", "full"])
def test_a_resumed_run_ends_in_the_same_weights(settings: TrainSettings, tmp_path: Path) -> None:
    """State, position, random numbers, accumulators: whatever is lost changes a bit."""
    settings = replace(settings, optimizer="adagrad")
    whole = trainer(tmp_path / "whole", settings)
    whole.train()
    trainer(tmp_path / "parts", replace(settings, max_steps=5)).train()
    rest = trainer(tmp_path / "parts", settings)
    rest.resume()
    assert rest.progress.step == 5
    result = rest.train()
    assert (result.n_steps, result.limit) == (7, "max_steps=12")
    assert rest.progress.tokens == whole.progress.tokens
    assert equal(weights(rest), weights(whole))
    assert equal(exported(rest), weights(whole))


def test_an_estimate_changes_nothing(tmp_path: Path) -> None:
    """Trial steps draw negative samples and dropout masks, and move the optimizer."""
    runs = [trainer(tmp_path / name, SAMPLED) for name in ("with", "without")]
    found = runs[0].estimate()
    assert (found.limit, found.tokens, found.rate > 0) == ("max_steps", 12 * 4 * 10, True)
    for run in runs:
        run.train()
    assert equal(weights(runs[0]), weights(runs[1]))


def test_a_full_disk_is_reported_before_the_first_step(tmp_path: Path) -> None:
    """In the words of the system: those of torch are about a zip file."""
    with disk_of(5000), pytest.raises(OutputError) as caught:
        trainer(tmp_path).train()
    assert caught.value.message == f"{tmp_path / FILE_NAME}: no space left (File too large)"
    assert list(tmp_path.iterdir()) == []


def test_the_seed_determines_the_weights(tmp_path: Path) -> None:
    runs = []
    for k, seed in enumerate((1, 1, 2)):
        run = trainer(tmp_path / str(k), replace(SETTINGS, seed=seed, max_steps=3))
        run.train()
        runs.append(weights(run))
    assert equal(runs[0], runs[1])
    assert not equal(runs[0], runs[2])


def test_the_log_has_losses_and_evaluations(tmp_path: Path) -> None:
    run, reported = trainer(tmp_path), list[dict[str, Any]]()
    run._reporter = LogReporter(reported.append)
    result = run.train()
    lines = log(tmp_path)
    assert lines == reported
    losses = [line for line in lines if "loss" in line]
    assert [line["step"] for line in losses] == [4, 8, 12]
    assert result.progress.loss == losses[-1]["loss"]
    assert result.progress.exported == lines[-1]
    assert lines[-1]["heldout"]["predictions"] == 280
    assert lines[-1]["tokens"] == 12 * 4 * 10


def test_the_losses_of_the_last_steps_are_logged_once(tmp_path: Path) -> None:
    """At the end of each part; a resumed run has the lines of an uninterrupted one."""
    for folder, ends in (("whole", [10]), ("parts", [3, 6, 6, 10])):
        for k, n_steps in enumerate(ends):
            constant = replace(SETTINGS, optimizer="adagrad", max_steps=n_steps)
            run = trainer(tmp_path / folder, constant)
            run.heldout = None
            if k > 0:
                run.resume()
            run.train()
            assert log(tmp_path / folder)[-1]["step"] == n_steps
    whole, parts = (
        [(line["step"], line["loss"]) for line in log(tmp_path / folder)]
        for folder in ("whole", "parts")
    )
    assert whole == parts
    assert [step for step, _ in whole] == [4, 8, 10]


@pytest.mark.parametrize(
    ("limit", "n_tokens", "reached"),
    [
        ({"max_epochs": 2}, 560, "max_epochs=2"),
        ({"max_epochs": 0.5}, 160, "max_epochs=0.5"),
        ({"max_seconds": 1e-6}, 40, "max_seconds=1e-06"),
    ],
)
def test_each_limit_ends_a_run(
    limit: dict[str, Any], n_tokens: int, reached: str, tmp_path: Path
) -> None:
    """An epoch has seven batches of 4 streams and 10 tokens."""
    run = trainer(tmp_path, replace(SETTINGS, max_steps=None, **limit))
    if "max_seconds" in limit:
        run.progress.step, n_tokens = 1, 0
    result = run.train()
    assert (run.progress.tokens, result.limit) == (n_tokens, reached)
    assert (tmp_path / "weights.hdf5").exists()


def test_the_first_limit_counts() -> None:
    """The last evaluation is within the time limit, if it takes at most half of it."""
    progress = TrainingProgress(State.zeros(OPTIONS, 1), step=50)
    progress.epoch, progress.index, progress.n_batches = 3, 1, 2
    settings = replace(SETTINGS, max_steps=200, max_epochs=5.0, max_seconds=100.0, patience=3)
    used = progress.limits_used(settings, 60.0)
    assert used == {"patience": 0, "max_steps": 0.25, "max_epochs": 0.7, "max_seconds": 0.6}
    for evaluation_seconds, end in ((0.0, 100), (30.0, 70), (400.0, 50)):
        progress.evaluation_seconds = evaluation_seconds
        assert progress.limits_used(settings, end)["max_seconds"] == 1
    progress.evaluations_since_best = 3
    assert progress.limits_used(settings, 60.0)["patience"] == 1


@pytest.mark.parametrize(
    ("limits", "limit", "seconds", "tokens", "epochs"),
    [
        ({"max_steps": 150}, "max_steps", 50, 1000, 10),
        ({"max_steps": 150, "max_epochs": 5.5}, "max_epochs", 10, 200, 2),
        ({"max_epochs": 5.5, "max_seconds": 41.0}, "max_seconds", 7, 140, 1.4),
        ({"max_steps": 50, "max_seconds": 41.0}, "max_steps", 0, 0, 0),
        ({"max_seconds": 20.0}, "max_seconds", 0, 0, 0),
    ],
)
def test_estimate(
    limits: dict[str, Any], limit: str, seconds: float, tokens: int, epochs: float
) -> None:
    """At step 50, after 3.5 epochs of ten batches of 10 tokens and 30 s, at 20 tokens a second.

    An evaluation takes 4 s.
    """
    progress = TrainingProgress(State.zeros(OPTIONS, 1), step=50, seconds=30.0)
    progress.evaluation_seconds = 4.0
    progress.epoch, progress.index, progress.n_batches = 3, 5, 10
    settings = replace(SETTINGS, **{"max_steps": None, **limits})
    found = progress.estimate(settings, step=10, epoch=100, rate=20.0)
    assert (found.limit, found.tokens) == (limit, tokens)
    assert (found.seconds, found.epochs) == pytest.approx((seconds, epochs))


@pytest.mark.parametrize(
    ("optimizer", "step", "fraction_done", "factor"),
    [
        ("adagrad", 0, 0.9, 1),
        ("adamw", 0, 0.0, 0.25),
        ("adamw", 3, 0.0, 1),
        ("adamw", 9, 0.5, 0.525),
        ("adamw", 9, 1.2, 0.05),
    ],
)
def test_learning_rate_schedule(
    optimizer: str, step: int, fraction_done: float, factor: float
) -> None:
    settings = replace(SETTINGS, optimizer=optimizer, warmup_steps=4)
    assert learning_rate_at(settings, step, fraction_done) == pytest.approx(0.01 * factor)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path: Path) -> None:
    """The last good checkpoint stays."""
    trainer(tmp_path, replace(SETTINGS, max_steps=4)).train()
    good = (tmp_path / FILE_NAME).read_bytes()
    again = trainer(tmp_path)
    again.resume()
    with torch.no_grad():
        again.step.model.softmax.bias.fill_(float("nan"))
    with pytest.raises(TrainingError, match=r"step 5: loss nan, .* learning rate of 0\.01") as it:
        again.train()
    assert "`learning_rate=0.0025`" in it.value.hint
    assert (tmp_path / FILE_NAME).read_bytes() == good


def test_a_gradient_that_is_not_finite_changes_no_weight(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    before = weights(run)
    run.step.model.softmax.weight.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingError, match="step 1: loss nan"):
        run.train()
    assert equal(weights(run), before)


def test_a_rising_perplexity_stops_the_run(tmp_path: Path) -> None:
    """The checkpoint of the evaluation before stays, and the log ends there after a resume."""
    wild = replace(SETTINGS, learning_rate=10.0, warmup_steps=0, max_steps=200, eval_steps=2)
    with pytest.raises(TrainingError, match=r"held-out perplexity .* before") as caught:
        trainer(tmp_path, wild).train()
    stopped = re.search(r"step (\d+): ", str(caught.value))
    assert stopped is not None
    kept = trainer(tmp_path, wild)
    kept.resume()
    assert kept.progress.step == int(stopped[1]) - 2
    assert log(tmp_path)[-1]["step"] == kept.progress.step
    values = [line["heldout"]["average"] for line in log(tmp_path) if "heldout" in line]
    assert all(values[n] <= 10 * min(values[:n]) for n in range(1, len(values)))


def test_a_rising_loss_stops_the_run(tmp_path: Path) -> None:
    wild = replace(SETTINGS, learning_rate=3.0, warmup_steps=0, max_steps=200, log_steps=1)
    run = trainer(tmp_path, wild)
    run.heldout = None
    with pytest.raises(TrainingError, match=r"loss .*, which was .* before"):
        run.train()
    kept = trainer(tmp_path, wild)
    kept.resume()
    assert kept.progress.step == 0


def test_signals_set_an_event_once_and_ignored_ones_stay_ignored() -> None:
    """The second SIGTERM has its usual effect; the shell ignores SIGINT in background jobs."""
    received: list[int] = []
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(
            signal.SIGTERM, lambda number, frame: received.append(number)
        ),
    }
    try:
        with stop_on_signal() as event:
            os.kill(os.getpid(), signal.SIGINT)
            assert not event.is_set()
            os.kill(os.getpid(), signal.SIGTERM)
            assert event.is_set()
            assert received == []
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert received == [signal.SIGTERM] * 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_initial_values_are_those_of_the_originals() -> None:
    """Carry biases of 0 or small embeddings would train to something else."""
    bilm, softmax = new_bilm(OPTIONS, np.arange(500.0), seed=0)
    cnn = bilm.char_cnn
    assert cnn.highways[0].get_parameter("carry.bias").eq(-2).all()
    assert cnn.embedding.weight.abs().max() <= 1
    assert cnn.embedding.weight.detach().std() == pytest.approx(1 / 3**0.5, rel=0.1)
    assert cnn.filters[2].get_parameter("weight").abs().max() <= 0.05
    bound = (6 / (2 * 16 + 4 * 32)) ** 0.5
    largest = bilm.forward_lm.layers[0].get_parameter("recurrent.weight").abs().max().item()
    assert 0.9 * bound < largest <= bound
    assert softmax.bias.exp().sum().item() == pytest.approx(1)
    assert softmax.bias.argmax().item() == 499
