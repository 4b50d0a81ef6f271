"""Optimizer and learning rate."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn

from elmo_cli.lm.settings import TrainSettings

_LAST_FACTOR = 0.05


def make_optimizer(
    settings: TrainSettings, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    """The optimizer that the settings ask for.

    Source: Adagrad as bilm-tf `bilm/training.py` has it, its accumulators beginning at 1.
    """
    rate = settings.peak_rate
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0, eps=0.0)
    return torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True)


def set_rate(
    optimizer: torch.optim.Optimizer, settings: TrainSettings, *, step: int, share_done: float
) -> None:
    """Give the optimizer the learning rate of a step.

    Args:
        step: from 0.
        share_done: of the whole run, 0 to 1.
    """
    rate = settings.peak_rate * _factor(settings, step, share_done)
    for group in optimizer.param_groups:
        group["lr"] = rate


def _factor(settings: TrainSettings, step: int, share_done: float) -> float:
    """Adagrad's rate stays; AdamW's goes up in a line, then down half a cosine."""
    if settings.optimizer == "adagrad":
        return 1.0
    rise = min(1.0, (step + 1) / max(1, settings.warmup_steps))
    fall = 0.5 * (1 + math.cos(math.pi * min(share_done, 1.0)))
    return rise * (_LAST_FACTOR + (1 - _LAST_FACTOR) * fall)
