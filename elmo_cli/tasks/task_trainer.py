"""TaskTrainer: train a task model, and keep the weights of its best epoch on dev."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from elmo_cli.errors import TrainingError
from elmo_cli.lm.checkpoint import as_resume_error, read_tensors, write_tensors
from elmo_cli.lm.log import FILE_NAME as LOG_FILE
from elmo_cli.lm.log import TrainingLog
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Scores, Split, TaskModel
from elmo_cli.tasks.trained_task import TrainedTask, predict_all

CHECKPOINT_FILE = "checkpoint.pt"
_POOL_BATCHES = 40  # number of batches whose examples are sorted by length together
_RHO = 0.95  # of Adadelta

OnProgress = Callable[[int, int], None]  # tokens trained on, and their maximum in the run
OnEpoch = Callable[[dict[str, Any]], None]  # a line of the log


@dataclass
class TrainerProgress:
    """The state of a run after an epoch, besides weights and optimizer.

    Attributes:
        epoch: number of finished epochs.
        best, best_epoch: the best main score on dev and its epoch; -inf and -1 before the first.
        epochs_since_best: number of epochs since then, from the first score above 0.
        seconds: training and evaluation time, including that before a resumption.
        log_size: size of the log in bytes.
        best_line: the log line of the best epoch.
    """

    epoch: int = 0
    best: float = -math.inf  # Pearson's r is negative for some models
    best_epoch: int = -1
    epochs_since_best: int = 0
    seconds: float = 0.0
    log_size: int = 0
    best_line: dict[str, Any] = field(default_factory=dict)

    def update(self, score: float, line: dict[str, Any]) -> bool:
        """Count an epoch, and return whether its score is the best one."""
        self.epoch += 1
        is_best = score > self.best
        if is_best:
            self.best, self.best_epoch, self.best_line = score, self.epoch, line
            self.epochs_since_best = 0
        elif self.best > 0:  # before that the model has learned nothing that could get worse
            self.epochs_since_best += 1
        return is_best

    def is_plateau(self, settings: TaskSettings) -> bool:
        """Whether another `lr_patience` epochs have passed without a better score."""
        n = self.epochs_since_best
        return settings.lr_patience > 0 and n > 0 and n % settings.lr_patience == 0

    def is_over(self, settings: TaskSettings) -> bool:
        """Whether the run has reached `epochs` or `patience`."""
        return self.epoch >= settings.epochs or self.epochs_since_best >= settings.patience


class TaskTrainer:
    """The training loop of a task model.

    Random numbers depend only on the seed and the epoch, so that a resumed run ends with the
    weights of an uninterrupted one.

    Args:
        trained: the model, which is trained in place.
        splits: the training and dev data.
        inputs: the inputs for their sentences.
        folder: existing folder for the checkpoint and the log.
        resume: continue from the checkpoint.
    Attributes:
        trained: the model.
        progress: the progress of the run.
    Raises:
        ResumeError: the checkpoint is corrupt or belongs to another run.
    """

    def __init__(
        self,
        trained: TrainedTask,
        splits: tuple[Split[Any], Split[Any]],
        inputs: tuple[Inputs, Inputs],
        folder: Path,
        *,
        resume: bool = False,
    ) -> None:
        self.trained, self._settings, self._path = trained, trained.settings, folder
        self._train, self._dev = splits
        self._inputs, self._dev_inputs = inputs
        self._log = TrainingLog(folder / LOG_FILE)
        self._examples = fraction_of(self._train.examples, self._settings)
        self.progress = TrainerProgress()
        self._optimizer = _optimizer(trained.model, self._settings)
        self._best: dict[str, Any] = {}
        if resume:
            self._restore()

    @property
    def n_examples(self) -> int:
        """The number of examples to train on."""
        return len(self._examples)

    def run(self, on_progress: OnProgress, on_epoch: OnEpoch) -> dict[str, Any]:
        """Train until a limit is reached; the model then has the weights of its best epoch.

        Returns:
            the log line of the best epoch.
        Raises:
            TrainingError: the loss is not finite.
        """
        model, settings, progress = self.trained.model, self._settings, self.progress
        while not progress.is_over(settings):
            start_s = time.monotonic()
            loss = self._epoch(progress.epoch, on_progress)
            scores = self.score_dev()
            seconds = time.monotonic() - start_s
            line = self._line(loss, scores, seconds)
            progress.seconds += seconds
            if progress.update(scores.main_value, line):
                self._best = copy.deepcopy(model.state_dict())
            elif progress.is_plateau(settings):
                for group in self._optimizer.param_groups:
                    group["lr"] /= 2
            self._log.append(line)
            progress.log_size = self._log.synced_size()
            self._save()
            on_epoch(line)
        model.load_state_dict(self._best)
        return progress.best_line

    def score_dev(self) -> Scores:
        """Score the current weights on dev."""
        size = self._settings.batch_size
        predictions = predict_all(self.trained.model, self._dev, self._dev_inputs, size)
        return self.trained.task.score(self._dev.examples, predictions)

    def _epoch(self, epoch: int, on_progress: OnProgress) -> float:
        """Train for one epoch, and return the mean loss."""
        model, settings = self.trained.model, self._settings
        torch.manual_seed((settings.seed * 1_000_003 + epoch) % 2**63)
        lengths = [self._train.n_tokens(example) for example in self._examples]
        total, n_read = 0.0, epoch * sum(lengths)
        model.train()
        for batch in _batches(lengths, settings.batch_size):
            examples = [self._examples[number] for number in batch]
            self._optimizer.zero_grad()
            loss = model.loss(examples, self._inputs) + model.representation.penalty()
            if not math.isfinite(value := loss.item()):
                what = f"epoch {epoch + 1}: the loss is {value} ({examples[0].where})"
                raise TrainingError(what, "choose a lower `learning_rate`")
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), settings.max_grad_norm)
            self._optimizer.step()
            total += value * len(batch)
            n_read += sum(lengths[number] for number in batch)
            on_progress(n_read, settings.epochs * sum(lengths))
        return total / len(self._examples)

    def _line(self, loss: float, scores: Scores, seconds: float) -> dict[str, Any]:
        mixes = self.trained.model.representation.mixes
        return {
            "epoch": self.progress.epoch + 1,
            "loss": loss,
            "dev": dict(scores.values),
            "seconds": seconds,
            "learning_rate": self._optimizer.param_groups[0]["lr"],
            "mix": {
                where: {
                    "weights": torch.softmax(mix.weights.detach(), 0).tolist(),
                    "gamma": mix.gamma.item(),
                }
                for where, mix in mixes.items()
            },
        }

    def _save(self) -> None:
        content = {
            "model": self.trained.model.state_dict(),
            "best": self._best,
            "optimizer": self._optimizer.state_dict(),
            "progress": asdict(self.progress),
        }
        write_tensors(self._path / CHECKPOINT_FILE, content)

    def _restore(self) -> None:
        path = self._path / CHECKPOINT_FILE
        if not path.exists():  # killed in its first epoch
            self._log.truncate(0)
            return
        with as_resume_error(path):
            content = read_tensors(path)
            self.trained.model.load_state_dict(content["model"])
            self._optimizer.load_state_dict(content["optimizer"])
            self.progress, self._best = TrainerProgress(**content["progress"]), content["best"]
        self._log.truncate(self.progress.log_size)


def fraction_of(examples: Sequence[Any], settings: TaskSettings) -> list[Any]:
    """Sample `settings.fraction` of the examples at random, and keep their order."""
    if settings.fraction == 1:
        return list(examples)
    generator = torch.Generator().manual_seed(settings.seed)
    order = torch.randperm(len(examples), generator=generator).tolist()
    n_kept = max(1, round(len(examples) * settings.fraction))
    return [examples[number] for number in sorted(order[:n_kept])]


def _batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return batches of examples of similar length, shuffled with torch's global generator."""
    order = torch.randperm(len(lengths)).tolist()
    batches: list[list[int]] = []
    for first in range(0, len(order), batch_size * _POOL_BATCHES):
        pool = order[first : first + batch_size * _POOL_BATCHES]
        pool.sort(key=lambda number: lengths[number])
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    return [batches[number] for number in torch.randperm(len(batches)).tolist()]


def _optimizer(model: TaskModel[Any, Any], settings: TaskSettings) -> torch.optim.Optimizer:
    parameters = [one for one in model.parameters() if one.requires_grad]
    if settings.optimizer == "adadelta":
        return torch.optim.Adadelta(parameters, settings.learning_rate, rho=_RHO)
    return torch.optim.Adam(parameters, settings.learning_rate, fused=True)
