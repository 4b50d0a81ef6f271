"""Limits of a run: the first one ends it, and a time limit has the last look in it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tiny_run import OPTIONS, SENTENCES, SETTINGS

from elmo_cli.model.state import State
from elmo_cli.train.budget import Budget
from elmo_cli.train.checkpoint import Progress
from elmo_cli.train.corpus import Corpus

TIMED = replace(SETTINGS, max_steps=None, max_seconds=100.0)


@pytest.fixture
def progress() -> Progress:
    return Progress(State.zeros(OPTIONS, 1), step=50, tokens=2800, seconds=10.0)


def test_the_first_limit_ends_a_run(progress: Progress) -> None:
    """With two limits, neither may be passed."""
    progress.epoch, progress.place, progress.n_places = 3, 1, 2
    settings = replace(TIMED, max_steps=200, max_epochs=5.0)
    budget = Budget(settings, progress, None)
    assert budget.share_done(20.0) == pytest.approx(3.5 / 5)
    assert budget.share_done(90.0) == pytest.approx(0.9)
    progress.step = 200
    assert budget.share_done(20.0) == 1


def test_the_last_look_is_within_the_time(progress: Progress) -> None:
    """Who has an hour on a machine must have the model before it is over."""
    heldout = Corpus.read(SENTENCES)
    budget = Budget(TIMED, progress, heldout)
    assert budget.share_done(100.0) == pytest.approx(100 / 99)  # 280 predictions like 280 tokens
    budget.save_s = 2.0
    assert budget.share_done(95.0) == pytest.approx(1)
    budget.look_s = 30.0  # as the last one was
    assert budget.share_done(70.0) == pytest.approx(1)
    budget.look_s = 400.0
    assert budget.share_done(50.0) == pytest.approx(1)  # half of the time is for training


def test_the_clock_goes_on_where_the_last_part_ended(progress: Progress) -> None:
    """Without it each part of a resumed run would have the whole time."""
    assert 10 <= Budget(TIMED, progress, None).seconds < 11
