"""The limits of a training run: how much of them is used, and how long the rest will take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo_cli.lm.checkpoint import TrainingProgress
    from elmo_cli.lm.settings import TrainSettings


@dataclass(frozen=True)
class Estimate:
    """How long training will take.

    Attributes:
        seconds: time until the first limit is reached, evaluations not included.
        tokens, epochs: number that will be read in each direction, and passes over the text.
        rate: measured tokens per second.
        tokens_per_step: number of tokens of a step in each direction.
        limit: name of the limit.
    """

    seconds: float
    tokens: int
    epochs: float
    rate: float
    tokens_per_step: int
    limit: str


def limits_used(
    settings: TrainSettings, progress: TrainingProgress, seconds: float
) -> dict[str, float]:
    """Return the used fraction of each limit of a run; the run ends when one reaches 1.

    Training stops before `max_seconds` to leave time for an evaluation, at most half of the limit.
    """
    patience = settings.patience
    parts = {
        "max_steps": (progress.step, settings.max_steps),
        "max_epochs": (progress.epochs, settings.max_epochs),
        "max_seconds": (seconds, _max_training_seconds(settings, progress)),
    }
    is_patient = patience is None or progress.evaluations_since_best < patience
    used = {name: done / limit for name, (done, limit) in parts.items() if limit is not None}
    return {"patience": float(not is_patient), **used}


def _max_training_seconds(settings: TrainSettings, progress: TrainingProgress) -> float | None:
    if settings.max_seconds is None:
        return None
    return max(settings.max_seconds - progress.evaluation_seconds, settings.max_seconds / 2)


def estimate(
    settings: TrainSettings,
    progress: TrainingProgress,
    n_batches: int,
    tokens_per_step: int,
    rate: float,
) -> Estimate:
    """Return how long a run will take, unless `patience` ends it before its limits.

    Args:
        n_batches: of an epoch.
        rate: tokens per second.
    """
    epoch = n_batches * tokens_per_step
    parts = {
        "max_steps": (progress.step, settings.max_steps, tokens_per_step),
        "max_epochs": (progress.epochs, settings.max_epochs, epoch),
        "max_seconds": (progress.seconds, _max_training_seconds(settings, progress), rate),
    }
    left = {
        name: max(0.0, limit - done) * n_tokens
        for name, (done, limit, n_tokens) in parts.items()
        if limit is not None
    }
    name = min(left, key=lambda name: left[name])
    n_tokens = left[name]
    return Estimate(n_tokens / rate, round(n_tokens), n_tokens / epoch, rate, tokens_per_step, name)
