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
from elmo_cli.pretrained.model_files import CHECKPOINT_FILE

FILE_NAME = CHECKPOINT_FILE
_VERSION = 5  # incremented when older checkpoints can no longer be read


@dataclass
class TrainingProgress:
    """The progress of a run.

    Attributes:
        state: LSTM state of the streams of this process after the last batch.
        step: number of weight updates.
        seconds: training time of all parts of the run.
        tokens: number of tokens trained on in each direction.
        epoch, index: position of the next batch.
        n_batches: number of batches in that epoch; 0 before the first batch.
        losses: losses of the steps since the last loss in the log.
        loss: the last loss in the log; NaN for none.
        best_loss: the lowest loss in the log.
        log_size: size of the log in bytes when the checkpoint was saved.
        heldout: fingerprint of the held-out text; "" without one.
        evaluated_at: step of the last evaluation; -1 for none.
        evaluation_seconds: duration of the last evaluation, with checkpoint and export.
        best, best_step: the best held-out perplexity and its step; -1 for none.
        evaluations_since_best: number of evaluations since then, none of them better.
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
        """Number of passes over the text, possibly fractional."""
        return self.epoch + (self.index / self.n_batches if self.n_batches else 0.0)

    def reset_best(self) -> None:
        """Forget all evaluations."""
        self.best, self.best_step = math.inf, -1
        self.evaluations_since_best, self.evaluated_at = 0, -1


def fixed_settings(step: TrainStep) -> dict[str, Any]:
    """Return the settings that must be the same in all parts of a run, as plain values."""
    model, corpus, settings = step.model, step.corpus, step.settings
    return {
        **settings.fixed(),
        "batch_size": step.group.size
        * step.n_streams,  # independent of how the streams are divided
        "options": asdict(model.bilm.options),
        "vocabulary": model.vocabulary.fingerprint,
        "text": corpus.fingerprint,
    }


def save_checkpoint(
    path: Path, step: TrainStep, state: dict[str, Any], progress: TrainingProgress
) -> None:
    """Replace the checkpoint atomically; raises OutputError.

    Args:
        state: `step.state_dict()`.
        progress: the progress, with the LSTM state of the streams of all processes.
    """
    facts = {**vars(progress), "state": (progress.state.h, progress.state.c)}
    content = {"version": _VERSION, "run": fixed_settings(step), "progress": facts, **state}
    write_tensors(path, content)


def load_checkpoint(path: Path, step: TrainStep) -> TrainingProgress:
    """Restore a run; the returned LSTM state has the streams of all processes.

    Raises:
        ResumeError: there is no checkpoint, it is corrupt, or its settings or text differ.
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
    """Read the sizes of the biLM from a checkpoint; raises ResumeError.

    options.json cannot express a projection of the same size, which AllenNLP's weights have.
    """
    with as_resume_error(path):
        return Options(**read_checkpoint(path)["run"]["options"])


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint on the CPU without running code in it; raises ResumeError."""
    if not path.exists():
        raise ResumeError(f"{path}: no such checkpoint", "start without `resume`")
    with as_resume_error(path):
        content: dict[str, Any] = read_tensors(path)
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']} instead of {_VERSION}")
        return content


def write_tensors(path: Path, content: Any) -> None:
    """Replace a file of tensors and plain values atomically; raises OutputError."""
    with new_file(path, durable=True, resumable=path.exists()) as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch's zip writer raises it when the disk is full
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def read_tensors(path: Path) -> Any:
    """Load such a file on the CPU without running code in it.

    Raises:
        Exception: torch and zipfile raise a dozen types on corrupt files.
    """
    with zipfile.ZipFile(path) as archive:
        if corrupt := archive.testzip():  # torch does not verify the checksums
            raise ValueError(f"{corrupt} is corrupt")
    return torch.load(path, weights_only=True, map_location="cpu")


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
            "start over with `overwrite=True`, or restore the file from a backup",
        ) from error
