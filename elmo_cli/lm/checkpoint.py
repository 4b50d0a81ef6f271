"""What an interrupted run needs to continue: its checkpoint and its text as numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import ResumeError
from elmo_cli.files import new_file
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.model.bilm import State
from elmo_cli.text.characters import CharacterIds
from elmo_cli.training.reporter import Estimate
from elmo_cli.training.tensors import as_resume_error, check_zip, read_tensors, write_tensors

_VERSION = 6  # incremented when older checkpoints can no longer be read


@dataclass
class TrainingProgress:
    """The progress of a run.

    Attributes:
        state: LSTM state of the streams of this process after the last batch.
        step, tokens: number of weight updates, and of tokens trained on in each direction.
        seconds: training time of all parts of the run.
        epoch, index: position of the next batch.
        n_batches: batches of that epoch; 0 before the first batch.
        losses: losses of the steps since the last loss in the log.
        loss, best_loss: the last loss in the log, NaN for none, and the lowest.
        log_size: size of the log in bytes when the checkpoint was saved.
        evaluated_at, evaluation_seconds: step of the last evaluation, -1 for none, and its
            duration with checkpoint and export.
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

    def _limits(self, settings: TrainSettings, seconds: float) -> dict[str, tuple[float, float]]:
        """Return what is done of each limit, and the limit.

        Training stops before `max_seconds` to leave time for an evaluation, at most half of it.
        """
        most = settings.max_seconds
        most = most and max(most - self.evaluation_seconds, most / 2)
        done = {"max_steps": self.step, "max_epochs": self.epochs, "max_seconds": seconds}
        ends = (settings.max_steps, settings.max_epochs, most)
        found = zip(done, ends, strict=True)
        return {name: (done[name], end) for name, end in found if end is not None}

    def limits_used(self, settings: TrainSettings, seconds: float) -> dict[str, float]:
        """Return the used fraction of each limit after some seconds; a run ends when one is 1."""
        patience = settings.patience or math.inf
        limits = self._limits(settings, seconds).items()
        used = {name: done / end for name, (done, end) in limits}
        return {**used, "patience": float(self.evaluations_since_best >= patience)}

    def estimate(self, settings: TrainSettings, *, step: int, epoch: int, rate: float) -> Estimate:
        """Return how long a run will take.

        Args:
            step, epoch: tokens of a step and of an epoch.
            rate: tokens per second.
        """
        tokens = {"max_steps": step, "max_epochs": epoch, "max_seconds": rate}
        limits = self._limits(settings, self.seconds).items()
        left = [(max(0.0, end - done) * tokens[name], name) for name, (done, end) in limits]
        n_tokens, name = min(left, key=itemgetter(0))
        return Estimate(n_tokens / rate, round(n_tokens), n_tokens / epoch, rate, name)


def _fixed_settings(step: TrainStep) -> dict[str, Any]:
    """Return the settings that must be the same in all parts of a run, as plain values."""
    return {
        **step.settings.fixed(),
        "batch_size": step.group.size * step.settings.n_streams,  # however the streams are divided
        "options": asdict(step.model.bilm.options),
        "vocabulary": step.model.vocabulary.fingerprint,
        "text": step.corpus.fingerprint,
    }


def save_checkpoint(
    path: Path, step: TrainStep, state: dict[str, Any], progress: TrainingProgress
) -> None:
    """Replace the checkpoint atomically; raises OutputError.

    Args:
        state: `step.state_dict()`.
        progress: with the LSTM state of the streams of all processes.
    """
    facts = {**vars(progress), "state": (progress.state.h, progress.state.c)}
    content = {"version": _VERSION, "run": _fixed_settings(step), "progress": facts, **state}
    write_tensors(path, content)


def load_checkpoint(path: Path, step: TrainStep) -> TrainingProgress:
    """Restore a run; the returned LSTM state has the streams of all processes.

    Raises:
        ResumeError: the file is missing or corrupt, or its settings or text differ.
    """
    content = read_checkpoint(path)
    for name, now in _fixed_settings(step).items():
        if (before := content["run"].get(name)) != now:
            hint = "use the settings and the text of the first run, or start over with "
            hint += "`overwrite=True`"
            raise ResumeError(f"{path}: made with {name} {before}, now {now}", hint)
    with as_resume_error(path):
        facts = content["progress"]
        progress = TrainingProgress(**{**facts, "state": State(*facts["state"])})
        step.load_state_dict(content, progress.step)
    return progress


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Load a checkpoint on the CPU without running code in it; raises ResumeError."""
    with as_resume_error(path):
        content: dict[str, Any] = read_tensors(path)
        if content["version"] != _VERSION:
            raise ValueError(f"version {content['version']} instead of {_VERSION}")
        return content


def save_corpora(path: Path, train: Corpus, heldout: Corpus | None) -> None:
    """Write both texts of a run as numbers: 1.4 to 1.7 bytes per token; or OutputError."""
    arrays = {**_arrays("train", train), **(_arrays("heldout", heldout) if heldout else {})}
    with new_file(path, durable=True) as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def load_corpora(path: Path, *, max_characters: int) -> tuple[Corpus, Corpus | None]:
    """Read what `save_corpora` has written, for a model that reads `max_characters` of a token.

    Raises:
        ResumeError: the file is missing or corrupt.
    """
    with as_resume_error(path):
        check_zip(path)
        with np.load(path, allow_pickle=False) as arrays:
            train = _corpus(arrays, "train", max_characters)
            has_heldout = "heldout-types" in arrays
            return train, _corpus(arrays, "heldout", max_characters) if has_heldout else None


def _arrays(name: str, corpus: Corpus) -> dict[str, AnyArray]:
    """Return arrays that compress well: byte by byte of all token numbers."""
    tokens = np.ascontiguousarray(corpus.tokens.astype("<i4").view(np.uint8).reshape(-1, 4).T)
    return {
        f"{name}-tokens": tokens,
        f"{name}-lengths": np.diff(corpus.starts).astype("<i4"),
        f"{name}-types": np.frombuffer(json.dumps(corpus.types).encode("ascii"), np.uint8),
        f"{name}-documents": corpus.documents.astype("<i8"),
    }


def _corpus(arrays: Mapping[str, AnyArray], name: str, max_characters: int) -> Corpus:
    types = tuple(json.loads(arrays[f"{name}-types"].tobytes()))
    tokens = np.ascontiguousarray(arrays[f"{name}-tokens"].T).view("<i4").ravel().astype(np.int32)
    starts = np.append(0, np.cumsum(arrays[f"{name}-lengths"], dtype=np.int64))
    characters = CharacterIds(max_characters).tokens(types).astype(np.int16)
    return Corpus(tokens, starts, types, characters, arrays[f"{name}-documents"].astype(np.int64))
