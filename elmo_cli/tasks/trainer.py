"""TaskTrainer: the training loop of a task model, with its epochs and its checkpoint."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from elmo_cli.errors import TrainingError
from elmo_cli.files import write_text
from elmo_cli.messages import plural
from elmo_cli.tasks.inputs import Inputs
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Json, Scores
from elmo_cli.tasks.trained_task import TrainedTask
from elmo_cli.training.reporter import Reporter
from elmo_cli.training.run_folder import LOG_FILE
from elmo_cli.training.tensors import as_resume_error, read_tensors, write_tensors

CHECKPOINT_FILE = "checkpoint.pt"
_POOL_BATCHES = 40  # number of batches whose examples are sorted by length together


class PreparedSplit(NamedTuple):
    """The examples of a data file, and the inputs of a model for their sentences."""

    examples: Sequence[Any]
    inputs: Inputs


@dataclass(frozen=True)
class TaskEpoch:
    """What an epoch has resulted in: a line of the log.

    Attributes:
        epoch: its number, from 1.
        loss: the mean of the training examples, each before the step that it was used for.
        dev: the scores on dev after the epoch.
        seconds: how long it took, with the scoring of dev.
        learning_rate: that of its steps.
        mix: the layer weights after the epoch, as from `TokenRepresentation.layer_weights`.
    """

    epoch: int
    loss: float
    dev: dict[str, float]
    seconds: float
    learning_rate: float
    mix: Json


@dataclass(frozen=True)
class BestEpoch:
    """The epoch with the highest score on dev; its weights are kept.

    Of several epochs with this score, it is the one with the lowest loss on dev, or else the last.

    Attributes:
        score: the score that selects the epoch.
        loss: mean loss on the dev examples; NaN if none of them has a loss.
        model: the weights of the model, by name.
        epoch: its number, from 1.
        first_epoch: the number of the first epoch with this score, from which `patience` counts.
        mix: the layer weights, as in `TaskEpoch`.
        dev: the content of scores.json about dev.
    """

    score: float
    loss: float
    model: dict[str, Tensor]
    epoch: int
    first_epoch: int
    mix: Json
    dev: Json


class TaskTrainer:
    """The training loop of a task model.

    An epoch has five phases: train on all examples, score dev, log the result, keep the weights if
    they are the best (and halve the learning rate where that is due), and save. The run ends after
    `epochs` epochs, or after `patience` epochs without a better score.

    The state of a run is the weights of the model, the state of the optimizer, `log` and `best`.
    These four are the checkpoint, which is replaced at the end of each epoch. Random numbers depend
    only on the seed and the number of the epoch. Therefore a run that fails or is killed at any
    moment loses at most the epoch that it was in: a resumed run repeats this epoch, and ends with
    the weights of an uninterrupted run. Before the end of the first epoch there is no checkpoint,
    and a resumed run starts from the beginning.

    Args:
        trained: the model, which is trained in place.
        train, dev: the data; the score on `dev` selects the best epoch.
        folder: the folder of the run.
        resume: continue from the checkpoint, if there is one.
    Attributes:
        log: the results of all epochs so far.
        best: the best of these epochs; None before the end of the first.
    Raises:
        ResumeError: the checkpoint is corrupt.
    """

    def __init__(
        self,
        trained: TrainedTask,
        train: PreparedSplit,
        dev: PreparedSplit,
        folder: Path,
        *,
        resume: bool = False,
    ) -> None:
        self._trained = trained
        self._train = train
        self._dev = dev
        self._folder = folder
        self._settings: TaskSettings = trained.task.settings
        self._model = trained.model
        self._optimizer = _new_optimizer(self._settings, self._model.parameters())
        self.log: list[TaskEpoch] = []
        self.best: BestEpoch | None = None
        if resume and (folder / CHECKPOINT_FILE).exists():
            self._load_checkpoint()

    def run(self, reporter: Reporter) -> BestEpoch:
        """Train until a limit is reached; restore and return the best epoch.

        Raises:
            TrainingError: a loss is not finite. The checkpoint is that of the epoch before. A
                resumed run would fail again: it has the same settings and repeats the epoch.
            OutputError: the log or the checkpoint cannot be written.
        """
        settings = self._settings
        while len(self.log) < settings.epochs and self._n_worse() < settings.patience:
            start_s = time.monotonic()
            loss = self._train_epoch(reporter)
            scores = self._score_dev()
            result = self._result(loss, scores, seconds=time.monotonic() - start_s)
            self.log.append(result)
            is_better = self._choose_best(result, scores)
            if not is_better and self._is_rate_due():
                self._halve_learning_rate()
            self._save()
            reporter.log_line(vars(result))
        if len(self.log) < settings.epochs:
            n_worse = plural(settings.patience, "epoch")
            reporter.message(
                f"stopped after epoch {len(self.log)} of {settings.epochs}: "
                f"no better dev score for {n_worse} (`patience`)"
            )
        assert self.best is not None  # there is at least one epoch
        self._model.load_state_dict(self.best.model)
        return self.best

    def _train_epoch(self, reporter: Reporter) -> float:
        """Train on all examples, and return the mean loss; TrainingError if it is not finite."""
        settings = self._settings
        examples, inputs = self._train
        n_epochs_done = len(self.log)
        torch.manual_seed((settings.seed * 1_000_003 + n_epochs_done) % 2**63)
        lengths = [example.n_tokens(inputs.sentences) for example in examples]
        n_tokens_of_epoch = sum(lengths)
        n_tokens_done = n_epochs_done * n_tokens_of_epoch
        n_tokens_at_most = settings.epochs * n_tokens_of_epoch
        label = f"training for at most {settings.epochs} epochs"
        total_loss = 0.0
        self._model.train()
        for batch in _batches(lengths, settings.batch_size):
            mean_loss = self._step([examples[number] for number in batch])
            total_loss += len(batch) * mean_loss
            n_tokens_done += sum(lengths[number] for number in batch)
            reporter.progress(label, n_tokens_done, n_tokens_at_most)
        return total_loss / len(examples)

    def _step(self, examples: Sequence[Any]) -> float:
        """Update the weights on a batch of examples, and return their mean loss before the update.

        Raises:
            TrainingError: the loss is not finite; the weights stay.
        """
        model = self._model
        self._optimizer.zero_grad()
        loss = model.loss(examples, self._train.inputs) + model.representation.penalty()
        value = loss.item()
        if not math.isfinite(value):
            problem = f"the loss is {value} ({examples[0].where})"
            where = f"epoch {len(self.log) + 1}"
            hint = "start over with `overwrite=True` and a lower `learning_rate`"
            raise TrainingError(problem, hint, where=where)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), self._settings.max_grad_norm)
        self._optimizer.step()
        return value

    def _score_dev(self) -> Scores:
        predictions = self._trained.predict(self._dev.examples, self._dev.inputs)
        return self._trained.task.score(self._dev.examples, predictions)

    def _result(self, loss: float, scores: Scores, *, seconds: float) -> TaskEpoch:
        return TaskEpoch(
            epoch=len(self.log) + 1,
            loss=loss,
            dev=dict(scores.values),
            seconds=seconds,
            learning_rate=self._optimizer.param_groups[0]["lr"],
            mix=self._model.representation.layer_weights(),
        )

    def _choose_best(self, result: TaskEpoch, scores: Scores) -> bool:
        """Keep the weights if they are the best so far; return whether the score is higher."""
        best = self.best
        score = scores.main_value
        # Nothing exceeds a NaN, but it means weights that are not finite: the next epoch fails.
        if best is None or score > best.score:
            loss = self._dev_loss()
            self.best = self._keep_weights(result, scores, loss, first_epoch=result.epoch)
            return True
        if score == best.score:
            loss = self._dev_loss()
            if not is_lower_loss(best.loss, loss):
                self.best = self._keep_weights(result, scores, loss, first_epoch=best.first_epoch)
        return False

    def _dev_loss(self) -> float:
        """Return the mean loss of the dev examples that have one."""
        task = self._trained.task
        examples = [example for example in self._dev.examples if task.is_learnable(example)]
        return self._trained.loss(examples, self._dev.inputs)

    def _keep_weights(
        self, result: TaskEpoch, scores: Scores, loss: float, *, first_epoch: int
    ) -> BestEpoch:
        return BestEpoch(
            score=scores.main_value,
            loss=loss,
            model=copy.deepcopy(self._model.state_dict()),
            epoch=result.epoch,
            first_epoch=first_epoch,
            mix=result.mix,
            dev=scores.to_dict(),
        )

    def _n_worse(self) -> int:
        """Return the number of epochs without a higher score; 0 until the score is above 0."""
        if self.best is None or not self.best.score > 0:  # 0 or NaN
            return 0
        return len(self.log) - self.best.first_epoch

    def _is_rate_due(self) -> bool:
        """Whether the learning rate is to be halved: once per `lr_patience` worse epochs."""
        n_worse = self._n_worse()
        patience = self._settings.lr_patience  # 0 for never
        return patience > 0 and n_worse > 0 and n_worse % patience == 0

    def _halve_learning_rate(self) -> None:
        self._optimizer.param_groups[0]["lr"] /= 2

    def _save(self) -> None:
        """Write the log, then the checkpoint.

        A run that is killed in between repeats the epoch, because the checkpoint lacks it, and
        writes the log again. In the other order, the log would lack the last epoch forever.
        """
        assert self.best is not None
        lines = [vars(result) for result in self.log]
        write_text(self._folder / LOG_FILE, (json.dumps(line) + "\n" for line in lines))
        content = {
            "model": self._model.state_dict(),
            "best": vars(self.best),
            "optimizer": self._optimizer.state_dict(),
            "log": lines,
        }
        write_tensors(self._folder / CHECKPOINT_FILE, content)

    def _load_checkpoint(self) -> None:
        """Restore the state of the run; ResumeError if the checkpoint is corrupt."""
        path = self._folder / CHECKPOINT_FILE
        with as_resume_error(path):
            content = read_tensors(path)
            self._model.load_state_dict(content["model"])
            self._optimizer.load_state_dict(content["optimizer"])
            # By name, as `_save` wrote them: a missing or a further field is an error.
            self.log = [TaskEpoch(**line) for line in content["log"]]
            self.best = BestEpoch(**content["best"])


def is_lower_loss(loss: float, other: float) -> bool:
    """Whether a loss is lower than another one; both must be finite."""
    return math.isfinite(loss) and math.isfinite(other) and loss < other


def _new_optimizer(
    settings: TaskSettings, parameters: Iterable[nn.Parameter]
) -> torch.optim.Optimizer:
    rate = settings.learning_rate
    if settings.optimizer == "adadelta":
        return torch.optim.Adadelta(parameters, lr=rate, rho=0.95)
    return torch.optim.Adam(parameters, lr=rate, fused=True)


def _batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Return batches of examples of similar length, shuffled with torch's global generator."""
    order = torch.randperm(len(lengths)).tolist()
    pool_size = batch_size * _POOL_BATCHES
    batches: list[list[int]] = []
    for pool_start in range(0, len(order), pool_size):
        pool = order[pool_start : pool_start + pool_size]
        pool.sort(key=lengths.__getitem__)
        for start in range(0, len(pool), batch_size):
            batches.append(pool[start : start + batch_size])
    shuffled = torch.randperm(len(batches)).tolist()
    return [batches[number] for number in shuffled]
