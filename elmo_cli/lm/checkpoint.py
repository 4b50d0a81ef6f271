"""Checkpoint: everything that an interrupted run needs to continue."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from elmo_cli.errors import ResumeError
from elmo_cli.files import new_file
from elmo_cli.lm.step import TrainStep
from elmo_cli.model.options import Options
from elmo_cli.model.state import State

FILE_NAME = "checkpoint.pt"
_VERSION = 5  # raised when checkpoints of older programs can't be read any more


@dataclass
class TrainingProgress:
    """How far a run is.

    Attributes:
        state: LSTM state after the last batch, of the streams of this process.
        step: number of weight updates.
        seconds: of all parts of the run.
        tokens: trained on in each direction.
        epoch, index: of the next batch.
        n_batches: in that epoch; 0 before the first batch.
        losses: of the steps since the last loss in the log.
        loss: the last loss in the log; NaN for none.
        best_loss: the lowest loss in the log.
        log_size: bytes of the log when the checkpoint was saved.
        heldout: fingerprint of the held-out text; "" without one.
        evaluated_at: step of the last evaluation; -1 for none.
        evaluation_seconds: duration of the last evaluation, with checkpoint and export.
        best, best_step: the best held-out perplexity, and when; -1 for never.
        evaluations_since_best: evaluations that were not better.
        exported: the log line of the evaluation of the exported weights; empty without one.
    """

    state: State
    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    epoch: int = 0
    index: int = 0
    n_batches: int = 0
    losses: list[float] = field(default_factory=list)
    loss: float = math.nan
    best_loss: float = math.inf
    log_size: int = 0
    heldout: str = ""
    evaluated_at: int = -1
    evaluation_seconds: float = 0.0
    best: float = math.inf
    best_step: int = -1
    evaluations_since_best: int = 0
    exported: dict[str, Any] = field(default_factory=dict)

    @property
    def epochs(self) -> float:
        """How often the text was read; 1.5 is one and a half times."""
        return self.epoch + (self.index / self.n_batches if self.n_batches else 0.0)

    def reset_best(self) -> None:
        """Forget all evaluations."""
        self.best, self.best_step = math.inf, -1
        self.evaluations_since_best, self.evaluated_at = 0, -1


def fixed_settings(step: TrainStep) -> dict[str, Any]:
    """What must be the same in all parts of a run, as plain values."""
    model, corpus, settings = step.model, step.corpus, step.settings
    return {
        **settings.fixed(),
        "batch_size": step.group.size * step.n_streams,  # however the streams are divided
        "options": asdict(model.bilm.options),
        "vocabulary": model.vocabulary.fingerprint,
        "text": corpus.fingerprint,
    }


def save_checkpoint(
    path: Path, step: TrainStep, state: dict[str, Any], progress: TrainingProgress
) -> None:
    """Replace the checkpoint by a new one, whole or not at all; or OutputError.

    Args:
        state: `step.state_dict()`.
        progress: with the LSTM state of all streams of all processes.
    """
    facts = {**vars(progress), "state": (progress.state.h, progress.state.c)}
    content = {"version": _VERSION, "run": fixed_settings(step), "progress": facts, **state}
    with new_file(path, durable=True, resumable=path.exists()) as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # of torch's zip writer, when the disk is full
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def load_checkpoint(path: Path, step: TrainStep) -> TrainingProgress:
    """Restore a run, whose state is that of all streams of all processes.

    Raises:
        ResumeError: no checkpoint, a corrupt one, or one of a run with other settings or text.
    """
    content, fixed = read_checkpoint(path), fixed_settings(step)
    for name, now in fixed.items():
        before = content["run"].get(name)
        if before != now:
            raise ResumeError(
                f"{path}: made with {name} {before}, now {now}",
                "use the settings and the text of the first run, or start over with "
                "`overwrite=True`",
            )
    with as_resume_error(path):
        progress = TrainingProgress(
            **{**content["progress"], "state": State(*content["progress"]["state"])}
        )
        zeros = step.new_state(fixed["batch_size"])
        if (progress.state.h.shape, progress.state.c.shape) != (zeros.h.shape, zeros.c.shape):
            raise ValueError("the LSTM state has another shape")
        step.load_state_dict(content, progress.step)
    return progress


def read_options(path: Path) -> Options:
    """The sizes of the biLM in a checkpoint; ResumeError as in `load_checkpoint`.

    Its options.json can't express a projection of equal size, which AllenNLP's weights have.
    """
    with as_resume_error(path):
        return Options(**read_checkpoint(path)["run"]["options"])


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a checkpoint, on the CPU, without running code in it; or ResumeError."""
    if not path.exists():
        raise ResumeError(f"{path}: no such checkpoint", "start without `resume`")
    with as_resume_error(path):
        with zipfile.ZipFile(path) as archive:
            if corrupt := archive.testzip():  # torch does not verify the checksums
                raise ValueError(f"{corrupt} is corrupt")
        content: dict[str, Any] = torch.load(path, weights_only=True, map_location="cpu")
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']} instead of {_VERSION}")
        return content


@contextmanager
def as_resume_error(path: Path) -> Iterator[None]:
    """Raise any error as a ResumeError: torch and zipfile raise a dozen types on corrupt files."""
    try:
        yield
    except ResumeError:
        raise
    except Exception as error:
        raise ResumeError(
            f"{path}: corrupt, or written by another version of elmo",
            "`overwrite=True` starts over; a backup copy of the file would do too",
        ) from error
