"""The limits of a run: which one ends it, and how long that takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tiny_run import OPTIONS, SETTINGS

from elmo_cli.lm.checkpoint import TrainingProgress
from elmo_cli.lm.limits import estimate, limits_used
from elmo_cli.model.state import State


def test_the_first_limit_counts() -> None:
    """The last evaluation is within the time limit, if it takes at most half of it."""
    progress = TrainingProgress(State.zeros(OPTIONS, 1), step=50)
    progress.epoch, progress.index, progress.n_batches = 3, 1, 2
    settings = replace(SETTINGS, max_steps=200, max_epochs=5.0, max_seconds=100.0, patience=3)
    used = limits_used(settings, progress, 60.0)
    assert used == {"patience": 0, "max_steps": 0.25, "max_epochs": 0.7, "max_seconds": 0.6}
    for evaluation_seconds, end in ((0.0, 100), (30.0, 70), (400.0, 50)):
        progress.evaluation_seconds = evaluation_seconds
        assert limits_used(settings, progress, end)["max_seconds"] == 1
    progress.evaluations_since_best = 3
    assert limits_used(settings, progress, 60.0)["patience"] == 1


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
    found = estimate(replace(SETTINGS, **{"max_steps": None, **limits}), progress, 10, 10, 20.0)
    assert (found.limit, found.tokens) == (limit, tokens)
    assert (found.seconds, found.epochs) == pytest.approx((seconds, epochs))
