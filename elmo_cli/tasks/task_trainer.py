"""TaskTrainer: train a task model, and keep the weights of its best epoch on dev."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from elmo_cli.errors import TrainingError
from elmo_cli.lm.checkpoint import as_resume_error, read_tensors, write_tensors
from elmo_cli.lm.log import FILE_NAME as LOG_FILE
from elmo_cli.lm.log import TrainingLog
from elmo_cli.tasks.embeddings_folder import Reporter
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Example, Scores, TaskModel
from elmo_cli.tasks.trained_task import TrainedTask

CHECKPOINT_FILE = "checkpoint.pt"
_POOL_BATCHES = 40  # number of batches whose examples are sorted by length together
_RHO = 0.95  # of Adadelta

Examples = Sequence[Example[Any]]


@dataclass
class TrainerProgress:
    """The state of a run after an epoch, besides weights and optimizer.

    Attributes:
        epoch: number of finished epochs.
        best: the best main score on dev.
        best_line: the log line of its epoch.
        best_scores: all dev scores of its epoch, as in `Scores.to_dict`.
        epochs_since_best: number of epochs since then, from the first score above 0.
        seconds: training and evaluation time, including that before a resumption.
        log_size: size of the log in bytes.
    """

    epoch: int = 0
    best: float = -math.inf  # Pearson's r is negative for some models
    best_line: dict[str, Any] = field(default_factory=dict)
    best_scores: dict[str, Any] = field(default_factory=dict)
    epochs_since_best: int = 0
    seconds: float = 0.0
    log_size: int = 0


class TaskTrainer:
    """The training loop of a task model.

    Random numbers depend only on the seed and the epoch, so that a resumed run ends with the
    weights of an uninterrupted one.

    Args:
        trained: the model, which is trained in place.
        train, dev: examples and the inputs for their sentences.
        folder: existing folder for the checkpoint and the log.
        resume: continue from the checkpoint, if there is one.
    Attributes:
        progress: the progress of the run.
    Raises:
        ResumeError: the checkpoint is corrupt.
    """

    def __init__(
        self,
        trained: TrainedTask,
        train: tuple[Examples, Inputs],
        dev: tuple[Examples, Inputs],
        folder: Path,
        *,
        resume: bool = False,
    ) -> None:
        self._trained, self._model, self._settings = trained, trained.model, trained.task.settings
        (self._examples, self._inputs), self._dev = train, dev
        self._log, self._checkpoint = TrainingLog(folder / LOG_FILE), folder / CHECKPOINT_FILE
        self.progress = TrainerProgress()
        self._optimizer = _build_optimizer(trained.model, self._settings)
        self._best: dict[str, Any] = {}
        if resume:
            if self._checkpoint.exists():  # it is missing after a kill in the first epoch
                self._restore()
            self._log.truncate(self.progress.log_size)

    def run(self, reporter: Reporter) -> None:
        """Train until a limit is reached; the model then has the weights of its best epoch.

        Raises:
            TrainingError: the loss is not finite.
        """
        settings, progress = self._settings, self.progress
        while progress.epoch < settings.epochs and progress.epochs_since_best < settings.patience:
            start_s = time.monotonic()
            loss = self._train_epoch(reporter)
            scores = self._score_dev()
            seconds = time.monotonic() - start_s
            progress.epoch += 1
            progress.seconds += seconds
            line = self._line(loss, scores, seconds)
            self._count(scores, line)
            self._log.append(line)
            progress.log_size = self._log.synced_size()
            self._save()
            reporter.epoch(line)
        self._model.load_state_dict(self._best)

    def _score_dev(self) -> Scores:
        """Score the current weights on dev."""
        examples, inputs = self._dev
        return self._trained.task.score(examples, self._trained.predict(examples, inputs))

    def _train_epoch(self, reporter: Reporter) -> float:
        """Train for one epoch, and return the mean loss."""
        settings, epoch = self._settings, self.progress.epoch
        torch.manual_seed((settings.seed * 1_000_003 + epoch) % 2**63)
        lengths = [example.n_tokens(self._inputs.sentences) for example in self._examples]
        total, n_read = 0.0, epoch * sum(lengths)
        self._model.train()
        for numbers in _batches(lengths, settings.batch_size):
            total += len(numbers) * self._step([self._examples[number] for number in numbers])
            n_read += sum(lengths[number] for number in numbers)
            reporter.progress(n_read, settings.epochs * sum(lengths))
        return total / len(self._examples)

    def _step(self, examples: Examples) -> float:
        """Make one weight update, and return the loss."""
        model = self._model
        self._optimizer.zero_grad()
        loss = model.loss(examples, self._inputs) + model.representation.penalty()
        if not math.isfinite(value := loss.item()):
            what = f"epoch {self.progress.epoch + 1}: the loss is {value} ({examples[0].where})"
            raise TrainingError(what, "choose a lower `learning_rate`")
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), self._settings.max_grad_norm)
        self._optimizer.step()
        return value

    def _count(self, scores: Scores, line: dict[str, Any]) -> None:
        """Keep the weights of a new best epoch; halve the rate after each `lr_patience` others."""
        progress, settings = self.progress, self._settings
        if scores.main_value > progress.best:
            progress.best, progress.best_line = scores.main_value, line
            progress.best_scores, progress.epochs_since_best = scores.to_dict(), 0
            self._best = copy.deepcopy(self._model.state_dict())
        elif progress.best > 0:  # before that the model has learned nothing that could get worse
            progress.epochs_since_best += 1
            if settings.lr_patience and progress.epochs_since_best % settings.lr_patience == 0:
                for group in self._optimizer.param_groups:
                    group["lr"] /= 2

    def _line(self, loss: float, scores: Scores, seconds: float) -> dict[str, Any]:
        return {
            "epoch": self.progress.epoch,
            "loss": loss,
            "dev": dict(scores.values),
            "seconds": seconds,
            "learning_rate": self._optimizer.param_groups[0]["lr"],
            "mix": {
                where: {
                    "weights": torch.softmax(mix.weights.detach(), 0).tolist(),
                    "gamma": mix.gamma.item(),
                }
                for where, mix in self._model.representation.mixes.items()
            },
        }

    def _save(self) -> None:
        content = {
            "model": self._model.state_dict(),
            "best": self._best,
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(self.progress),
        }
        write_tensors(self._checkpoint, content)

    def _restore(self) -> None:
        with as_resume_error(self._checkpoint):
            content = read_tensors(self._checkpoint)
            self._model.load_state_dict(content["model"])
            self._optimizer.load_state_dict(content["optimizer"])
            self.progress, self._best = TrainerProgress(**content["progress"]), content["best"]


def sample_examples(examples: Examples, fraction: float, seed: int) -> Examples:
    """Sample a fraction of the examples at random, and keep their order."""
    if fraction == 1:
        return examples
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(examples), generator=generator).tolist()
    n_kept = max(1, round(len(examples) * fraction))
    return [examples[number] for number in sorted(order[:n_kept])]


def _batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return batches of examples of similar length, shuffled with torch's global generator."""
    order = torch.randperm(len(lengths)).tolist()
    batches: list[list[int]] = []
    for first in range(0, len(order), batch_size * _POOL_BATCHES):
        pool = order[first : first + batch_size * _POOL_BATCHES]
        pool.sort(key=lengths.__getitem__)
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    return [batches[number] for number in torch.randperm(len(batches)).tolist()]


def _build_optimizer(model: TaskModel[Any, Any], settings: TaskSettings) -> torch.optim.Optimizer:
    parameters = [one for one in model.parameters() if one.requires_grad]
    if settings.optimizer == "adadelta":
        return torch.optim.Adadelta(parameters, settings.learning_rate, rho=_RHO)
    return torch.optim.Adam(parameters, settings.learning_rate, fused=True)
