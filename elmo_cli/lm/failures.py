"""How training fails, and what to do about it."""

from __future__ import annotations

import torch

from elmo_cli.errors import DeviceError, TrainingError
from elmo_cli.lm.settings import TrainSettings


def no_memory(step: int, settings: TrainSettings, device: torch.device) -> DeviceError:
    """The error of a step for which the device has no memory."""
    rows, parts = settings.batch_size, settings.gradient_accumulation_steps
    hint = (
        f"`--resume --batch-size {rows // 2} --gradient-accumulation-steps {2 * parts}` makes the "
        "same steps"
    )
    fewer = "a smaller model, or begin anew with a smaller `--batch-size`"
    return DeviceError(
        f"step {step}: out of memory on {device} with {rows} streams of {settings.bptt} tokens",
        hint if rows % 2 == 0 else fewer,
    )


def diverged(step: int, what: str, settings: TrainSettings) -> TrainingError:
    """The error of a model that does not come back from where it has got to."""
    rate = settings.peak_rate
    return TrainingError(
        f"step {step}: {what}, at a learning rate of {rate:g}",
        f"`--resume --learning-rate {rate / 4:g}` goes on from the last checkpoint",
    )
