"""The training loop: it learns, resumes to the same numbers, and stops for a reason."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from disks import disk_of
from tiny_run import OPTIONS, SETTINGS, LogReporter, equal, exported, log, losses, trainer, weights

from elmo_cli.errors import OutputError, TrainingError
from elmo_cli.lm.checkpoint import TrainingProgress
from elmo_cli.lm.evaluation import score
from elmo_cli.lm.loop import stop_on_signal
from elmo_cli.lm.perplexity import Perplexity, perplexity_of
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import learning_rate_at
from elmo_cli.model.bilm import State
from elmo_cli.pretrained.model_files import CHECKPOINT_FILE

SAMPLED = replace(SETTINGS, negative_samples=8)


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, max_steps=45, learning_rate=0.03, warmup_steps=8),
        replace(SETTINGS, max_steps=60, learning_rate=0.2, optimizer="adagrad"),
        replace(SAMPLED, max_steps=40, learning_rate=0.05, warmup_steps=5),
    ],
    ids=["adamw", "adagrad", "sampled"],
)
def test_both_directions_learn(settings: TrainSettings, tmp_path: Path) -> None:
    run = trainer(tmp_path, replace(settings, dropout=0.0))
    run.heldout = None

    def measure() -> Perplexity:
        return perplexity_of(score(run.step.model, run.step.corpus, carry=True, batch_size=4))

    before = measure()
    run.train()
    after = measure()
    # Two words of a sentence are one of four, the others follow: exp(2 log 4 / 7) = 1.49.
    assert before.average > 6.5
    assert 1.45 < after.forward < 3
    assert 1.45 < after.backward < 3


@pytest.mark.parametrize("settings", [SAMPLED, SETTINGS], ids=["sampled", "full"])
def test_a_resumed_run_equals_an_uninterrupted_one(settings: TrainSettings, tmp_path: Path) -> None:
    """State, position, random numbers, accumulators: whatever is lost changes a bit.

    Only the gradient of a sampled softmax is sparse: memory of its size would cost a tenth of a
    step. An estimate draws negative samples and dropout masks, moves the optimizer, and leaves no
    trace. Losses of the last steps are logged once, at the end of each part.
    """
    settings = replace(settings, optimizer="adagrad", max_steps=10)
    whole = trainer(tmp_path / "whole", settings)
    has_old_gradient, has_sparse_gradient = note_gradients(whole.step.model.softmax.weight)
    whole.train()
    is_sampled = settings.negative_samples == 8
    assert has_old_gradient == [is_sampled] * 10
    assert has_sparse_gradient == [is_sampled] * 10
    parts = tmp_path / "parts"
    for n_steps, n_before in ((3, 0), (6, 3), (6, 6), (10, 6)):
        run = trainer(parts, replace(settings, max_steps=n_steps))
        if n_before:
            run.resume()
        assert run.progress.step == n_before
        estimate = run.estimate()
        assert estimate.limit == "max_steps"
        assert estimate.tokens == (n_steps - n_before) * 4 * 10
        assert estimate.rate > 0
        run.train()
        assert run.progress.step == n_steps
        assert steps_with_loss(parts)[-1] == n_steps
    assert run.progress.tokens == whole.progress.tokens
    assert equal(weights(run), weights(whole))
    assert equal(exported(run), weights(whole))
    assert losses(parts) == losses(tmp_path / "whole")
    assert steps_with_loss(parts) == steps_with_loss(tmp_path / "whole") == [4, 8, 10]


def note_gradients(weight: torch.nn.Parameter) -> tuple[list[bool], list[bool]]:
    """Lists that will say of each gradient whether it is added to one, and whether it is sparse."""
    has_old_gradient: list[bool] = []
    is_sparse: list[bool] = []

    def note(gradient: torch.Tensor) -> None:
        has_old_gradient.append(weight.grad is not None)
        is_sparse.append(gradient.is_sparse)

    weight.register_hook(note)
    return has_old_gradient, is_sparse


def steps_with_loss(folder: Path) -> list[int]:
    return [line["step"] for line in log(folder) if "loss" in line]


def test_a_full_disk_is_reported_before_the_first_step(tmp_path: Path) -> None:
    """In the words of the system: those of torch are about a zip file."""
    with disk_of(5000), pytest.raises(OutputError) as caught:
        trainer(tmp_path).train()
    assert caught.value.message == f"{tmp_path / CHECKPOINT_FILE}: no space left (File too large)"
    assert list(tmp_path.iterdir()) == []


def test_the_seed_determines_the_weights(tmp_path: Path) -> None:
    def train(name: str, seed: int) -> list[torch.Tensor]:
        run = trainer(tmp_path / name, replace(SETTINGS, seed=seed, max_steps=3))
        run.train()
        return weights(run)

    first = train("first", seed=1)
    assert equal(train("again", seed=1), first)
    assert not equal(train("other", seed=2), first)


def test_the_log_has_losses_and_evaluations(tmp_path: Path) -> None:
    run = trainer(tmp_path)
    reported: list[dict[str, Any]] = []
    shown: list[tuple[str, float, float | None, str]] = []

    class ProgressReporter(LogReporter):
        def progress(self, what: str, done: float, total: float | None, detail: str = "") -> None:
            shown.append((what, done, total, detail))

    run._reporter = ProgressReporter(reported.append)
    run.train()
    assert shown.pop() == ("evaluating", 0, None, "")
    for step, (what, done, total, detail) in enumerate(shown, 1):
        assert (what, done, total) == ("training", step * 40, pytest.approx(480))
        assert detail.startswith(f"epoch {step / 7:.2f}, loss ")  # of seven batches
    assert len(shown) == 12
    lines = log(tmp_path)
    assert lines == reported
    assert steps_with_loss(tmp_path) == [4, 8, 12]
    assert run.progress.loss == losses(tmp_path)[-1]
    assert run.progress.exported == lines[-1]
    assert lines[-1]["heldout"]["predictions"] == 280
    assert lines[-1]["tokens"] == 12 * 4 * 10


@pytest.mark.parametrize(
    ("limit", "n_tokens"),
    [({"max_epochs": 2}, 560), ({"max_epochs": 0.5}, 160), ({"max_seconds": 1e-6}, 0)],
)
def test_each_limit_ends_a_run(limit: dict[str, Any], n_tokens: int, tmp_path: Path) -> None:
    """An epoch has seven batches of 4 streams and 10 tokens."""
    run = trainer(tmp_path, replace(SETTINGS, max_steps=None, **limit))
    if "max_seconds" in limit:
        run.progress.step = 1
    run.train()
    assert run.progress.tokens == n_tokens
    assert (tmp_path / "weights.hdf5").exists()


def halfway(**fields: Any) -> TrainingProgress:
    """At step 50, after 3.5 epochs of ten batches."""
    state = State.zeros(OPTIONS, 1)
    return TrainingProgress(state, step=50, epoch=3, index=5, n_batches=10, **fields)


def test_the_first_limit_counts() -> None:
    """The last evaluation is within the time limit, if it takes at most half of it."""
    progress = halfway()
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
    """After 30 s, with batches of 10 tokens at 20 tokens a second; an evaluation takes 4 s."""
    progress = halfway(seconds=30.0, evaluation_seconds=4.0)
    settings = replace(SETTINGS, **{"max_steps": None, **limits})
    estimate = progress.estimate(settings, step=10, epoch=100, rate=20.0)
    assert (estimate.limit, estimate.tokens) == (limit, tokens)
    assert (estimate.seconds, estimate.epochs) == pytest.approx((seconds, epochs))


@pytest.mark.parametrize(
    ("limit", "least", "most"),
    [("max_steps", 1, 10**15), ("max_epochs", 1e-9, 1e15), ("max_seconds", 1e-9, 1e15)],
)
def test_estimates_are_finite_at_the_bounds_of_limits(
    limit: str, least: float, most: float
) -> None:
    for end in (least, most):
        settings = replace(SETTINGS, **{"max_steps": None, limit: end})
        progress = halfway(seconds=30.0, evaluation_seconds=4.0)
        estimate = progress.estimate(settings, step=10**6, epoch=10**12, rate=1e9)
        assert estimate.limit == limit
        assert math.isfinite(estimate.seconds)
        assert math.isfinite(progress.limits_used(settings, 30.0)[limit])


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
    good = (tmp_path / CHECKPOINT_FILE).read_bytes()
    again = trainer(tmp_path)
    again.resume()
    with torch.no_grad():
        again.step.model.softmax.bias.fill_(float("nan"))
    with pytest.raises(TrainingError, match=r"step 5: loss nan, .* learning rate of 0\.01") as it:
        again.train()
    assert "`learning_rate=0.0025`" in it.value.hint
    assert (tmp_path / CHECKPOINT_FILE).read_bytes() == good


def test_an_infinite_gradient_changes_no_weight(tmp_path: Path) -> None:
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
    kept = trainer(tmp_path, wild)
    kept.resume()
    assert caught.value.where == f"step {kept.progress.step + 2}"
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

    def receive(number: int, frame: object) -> None:
        received.append(number)

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, receive),
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
