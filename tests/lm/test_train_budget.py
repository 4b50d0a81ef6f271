"""Limits of a run: the first one ends it, and a time limit has the last look in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import made
from tiny_run import OPTIONS, SENTENCES, SETTINGS

from elmo_cli.lm.budget import Budget, reached
from elmo_cli.lm.checkpoint import Progress
from elmo_cli.lm.corpus import Corpus
from elmo_cli.model.state import State

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


def test_the_limit_that_ended_a_run_is_named(progress: Progress) -> None:
    """Who goes on must know which number to raise."""
    settings = replace(TIMED, max_steps=51, max_epochs=2.5, patience=3)
    assert reached(settings, progress) == "--max-seconds 100"
    progress.epoch, progress.place, progress.n_places = 2, 1, 2
    assert reached(settings, progress) == "--max-epochs 2.5"
    progress.step = 51
    assert reached(settings, progress) == "--max-steps 51"
    progress.looks_since_best = 3
    assert reached(settings, progress) == "--patience 3"


def test_a_run_that_goes_on_for_no_step_says_so(tmp_path: Path) -> None:
    """It looks as if it had been trained, and the limit of a part is what one thinks of."""
    (tmp_path / "a.txt").write_text("the cat sees the dog .\n" * 40)
    out, sizes = (
        tmp_path / "m",
        ("--lstm-dim", 8, "--projection-dim", 4, "--batch-size", 2, "--threads", 1),
    )
    made("pretrain", tmp_path / "a.txt", "-o", out, "--max-steps", 2, *sizes)
    go_on = ("pretrain", "-o", out, "--resume")
    assert "no step" not in made(*go_on, "--max-steps", 3).err
    assert (
        "warning: no step was made, as --max-steps 3 is reached: limits count" in made(*go_on).err
    )
    assert (
        "no step was made, as --max-seconds 0.001 is reached"
        in made(*go_on, "--max-seconds", 0.001, "--max-steps", 9).err
    )
