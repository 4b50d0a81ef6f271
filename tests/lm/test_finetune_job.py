"""The settings of fine-tuning that follow from the model, the text and the limits."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.finetune.job import (
    FinetuneJob,
    Source,
    _limits_in_words,
    finetune_settings,
)
from elmo_cli.lm.settings import TrainSettings

ADAGRAD = TrainSettings(optimizer="adagrad", max_steps=9)


def source_of(optimizer: str, softmax: Any = "own") -> Source:
    """A model whose files have the state of an optimizer."""
    files: Any = SimpleNamespace(open=lambda: nullcontext(SimpleNamespace(optimizer=optimizer)))
    nothing: Any = None
    return Source(files=files, bilm=nothing, softmax=softmax, vocabulary=None)


def job_of(**fields: Any) -> FinetuneJob:
    return FinetuneJob(**{"domain": ["a"], "output": Path("out"), "settings": ADAGRAD, **fields})


@pytest.mark.parametrize(
    ("source", "job", "continues"),
    [
        (source_of("adagrad"), job_of(), True),
        (source_of(""), job_of(), False),
        (source_of("adagrad", softmax=None), job_of(), False),
        (source_of("adagrad"), job_of(softmax="other.hdf5"), False),
        (source_of("adagrad"), job_of(fit_softmax=True), False),
        (source_of("adagrad"), job_of(settings=TrainSettings(max_steps=9)), False),
    ],
)
def test_the_sums_of_a_checkpoint_are_used_with_its_softmax_only(
    source: Source, job: FinetuneJob, continues: bool
) -> None:
    """They have the size of its softmax, and no meaning for another optimizer."""
    assert source.continues_adagrad(job) == continues


def test_the_learning_rate_is_higher_with_the_sums_of_a_checkpoint() -> None:
    """The sums reduce each step; a rate that is given stays."""
    corpus = Corpus.read([["a"] * 79] * 25)
    for settings, rate in ((ADAGRAD, 0.2), (TrainSettings(learning_rate=0.01, max_steps=9), 0.01)):
        completed = finetune_settings(settings, corpus, continues_adagrad=True)
        assert completed.learning_rate == rate


@pytest.mark.parametrize(
    ("settings", "eval_steps", "warmup_steps"),
    [
        ({"batch_size": 1, "bptt": 1}, 800, 200),  # of 8,000 steps of an epoch
        ({"batch_size": 1, "bptt": 1, "eval_steps": 3}, 3, 200),
        ({"batch_size": 2, "bptt": 2, "gradient_accumulation_steps": 4}, 50, 26),  # of 500
        ({"batch_size": 2, "bptt": 20, "gradient_accumulation_steps": 4}, 25, 3),  # of 50
        ({"batch_size": 100, "bptt": 100}, 1, 1),  # of none
    ],
)
def test_evaluations_and_warmup_of_an_epoch(
    settings: dict[str, int], eval_steps: int, warmup_steps: int
) -> None:
    """An evaluation takes as long as many steps, and a long warmup learns nothing."""
    corpus = Corpus.read([["a"] * 79] * 100)
    completed = finetune_settings(TrainSettings(max_epochs=1.0, **settings), corpus)
    assert (completed.eval_steps, completed.warmup_steps) == (eval_steps, warmup_steps)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"max_epochs": 1.0}, "1 epoch"),
        ({"max_epochs": 0.5}, "0.5 epochs"),
        ({"max_steps": 1, "max_seconds": 1_000_000}, "1,000,000 s or 1 step"),
        ({"max_steps": 12_000, "max_epochs": 10.0}, "12,000 steps or 10 epochs"),
    ],
)
def test_limits_in_words(limits: dict[str, Any], words: str) -> None:
    assert _limits_in_words(TrainSettings(**limits)) == f"for at most {words}"


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"max_epochs": 1.0}, 5e-4),
        ({"max_epochs": 40.0}, 1e-3),
        ({"max_steps": 10}, 1e-4),
        ({"max_epochs": 1.0, "max_steps": 10}, 1e-4),
        ({"max_steps": 10, "learning_rate": 0.02}, 0.02),
        ({"max_steps": 10, "optimizer": "adagrad"}, 0.05),
    ],
)
def test_default_learning_rate(settings: dict[str, Any], rate: float) -> None:
    """Few steps at the full rate spoil a model; an epoch has 250 steps."""
    corpus = Corpus.read([["a"] * 79] * 250)
    completed = finetune_settings(TrainSettings(batch_size=4, **settings), corpus)
    assert completed.learning_rate == pytest.approx(rate)
