"""Checkpoint: everything that an interrupted run needs to go on."""

from __future__ import annotations

import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.model.state import State

FILE_NAME = "checkpoint.pt"


@dataclass
class Progress:
    """How far a run is.

    Attributes:
        step: windows trained on.
        seconds: spent on them, over all parts of the run.
        tokens: trained on in each direction.
        epoch, place: of the window that comes next.
        state: that the last window left.
    """

    state: State
    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    epoch: int = 0
    place: int = 0


@dataclass(frozen=True)
class Parts:
    """What changes while training and is therefore saved whole.

    Attributes:
        model: biLM and softmax in one module.
        optimizer: with its accumulators.
        generator: random numbers of dropout and of the negatives.
    """

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    generator: torch.Generator


def save(path: Path, parts: Parts, progress: Progress, run: dict[str, Any]) -> None:
    """Write a checkpoint; `path` is replaced when the new one is whole.

    Args:
        run: what must be the same for the run to go on (settings, text), plain values.
    Raises:
        OutputError: the file can't be written.
    """
    content = {
        "run": run,
        "model": parts.model.state_dict(),
        "optimizer": parts.optimizer.state_dict(),
        "generator": parts.generator.get_state(),
        "progress": {**vars(progress), "state": (progress.state.h, progress.state.c)},
    }
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, RuntimeError) as error:
        raise OutputError(
            f"{path}: can't be written ({error})", "free some space; the last checkpoint is kept"
        ) from None


def load(path: Path, parts: Parts, run: dict[str, Any]) -> Progress:
    """Put everything back as it was saved.

    Raises:
        ResumeError: no checkpoint, a damaged one, or one of another run.
    """
    try:
        content = torch.load(path, weights_only=True)
    except FileNotFoundError:
        raise ResumeError(f"{path}: no such checkpoint", "start without `--resume`") from None
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        raise ResumeError(
            f"{path}: not a checkpoint ({error})", "start without `--resume`"
        ) from None
    for name, now in run.items():
        if content["run"].get(name) != now:
            raise ResumeError(
                f"{path}: made with {name} {content['run'].get(name)}, now {now}",
                "give the settings and the text of the first run, or start without `--resume`",
            )
    parts.model.load_state_dict(content["model"])
    parts.optimizer.load_state_dict(content["optimizer"])
    parts.generator.set_state(content["generator"])
    state = State(*content["progress"].pop("state"))
    return Progress(state=state, **content["progress"])
