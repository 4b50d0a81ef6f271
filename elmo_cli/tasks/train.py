"""train_task: train a task model, and keep the weights of its best epoch on dev."""

from __future__ import annotations

import copy
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import nn

from elmo_cli.engine.runtime import select_device
from elmo_cli.errors import InputError, ModelError, ResumeError, TrainingError
from elmo_cli.files import write_text
from elmo_cli.regular_files import check_regular, read_json, sha256_of_file
from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder
from elmo_cli.tasks.inputs import Inputs, WordVectors
from elmo_cli.tasks.settings import SCORES_FILE, as_flat
from elmo_cli.tasks.task import Scores, Task, check_labels
from elmo_cli.tasks.trained_task import MODEL_FILE, TrainedTask, read_config
from elmo_cli.training.reporter import Reporter
from elmo_cli.training.run_folder import LOG_FILE, RunFolder
from elmo_cli.training.tensors import as_resume_error, read_tensors, write_tensors

CHECKPOINT_FILE = "checkpoint.pt"
_POOL_BATCHES = 40  # number of batches whose examples are sorted by length together
_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": partial(torch.optim.Adam, fused=True),
    "adadelta": partial(torch.optim.Adadelta, rho=0.95),
}

Data = tuple[Sequence[Any], Inputs]  # examples, and the inputs for their sentences


@dataclass(frozen=True)
class TaskData:
    """The data files of a run, the folder of their embeddings, and a file of word vectors."""

    train: str
    dev: str
    embeddings: EmbeddingsFolder
    word_vectors: str | None = None

    def identity(self) -> dict[str, Any]:
        """Return the path and the SHA-256 of each file."""
        files = {"train": self.train, "dev": self.dev, "word_vectors": self.word_vectors}
        named = {name: path for name, path in files.items() if path is not None}
        for path in named.values():
            check_regular(path, InputError)
        return {name: {"path": one, "sha256": sha256_of_file(one)} for name, one in named.items()}


class TaskTrainer:
    """The training loop of a task model, with one checkpoint and one line of the log per epoch.

    Random numbers depend only on the seed and the epoch, so that a resumed run ends with the
    weights of an uninterrupted one.

    Args:
        trained: the model, which is trained in place.
        resume: continue from the checkpoint, if there is one; ResumeError if it is corrupt.
    Attributes:
        best: the number, weights, layer weights and dev scores of the best epoch.
    """

    def __init__(
        self, trained: TrainedTask, train: Data, dev: Data, folder: Path, *, resume: bool = False
    ) -> None:
        self._trained, self._model, self._settings = trained, trained.model, trained.task.settings
        (self._examples, self._inputs), self._dev, self._folder = train, dev, folder
        parameters, rate = trained.model.parameters(), self._settings.learning_rate
        self._optimizer = _OPTIMIZERS[self._settings.optimizer](parameters, lr=rate)
        self.log: list[dict[str, Any]] = []
        self.best: dict[str, Any] = {}
        if resume and (path := folder / CHECKPOINT_FILE).exists():  # not in the first epoch
            with as_resume_error(path):
                content = read_tensors(path)
                self._model.load_state_dict(content["model"])
                self._optimizer.load_state_dict(content["optimizer"])
                self.log, self.best = content["log"], content["best"]

    def run(self, reporter: Reporter) -> None:
        """Train until a limit is reached, and restore the weights of the best epoch."""
        settings = self._settings
        while len(self.log) < settings.epochs and self._n_worse() < settings.patience:
            start_s = time.monotonic()
            loss = self._train_epoch(reporter)
            examples, inputs = self._dev
            scores = self._trained.task.score(examples, self._trained.predict(examples, inputs))
            self._count(loss, scores, time.monotonic() - start_s)
            self._save()
            reporter.log_line(self.log[-1])
        self._model.load_state_dict(self.best["model"])

    def _train_epoch(self, reporter: Reporter) -> float:
        """Train for one epoch, and return the mean loss; TrainingError if it is not finite."""
        settings, epoch = self._settings, len(self.log)
        torch.manual_seed((settings.seed * 1_000_003 + epoch) % 2**63)
        lengths = [example.n_tokens(self._inputs.sentences) for example in self._examples]
        total, n_read = 0.0, epoch * sum(lengths)
        self._model.train()
        for numbers in _batches(lengths, settings.batch_size):
            total += len(numbers) * self._step([self._examples[n] for n in numbers])
            n_read += sum(lengths[number] for number in numbers)
            what = f"training for at most {settings.epochs} epochs"
            reporter.progress(what, n_read, settings.epochs * sum(lengths))
        return total / len(self._examples)

    def _step(self, examples: Sequence[Any]) -> float:
        """Update the weights, and return the loss before."""
        model = self._model
        self._optimizer.zero_grad()
        loss = model.loss(examples, self._inputs) + model.representation.penalty()
        if not math.isfinite(value := loss.item()):
            what = f"epoch {len(self.log) + 1}: the loss is {value} ({examples[0].where})"
            raise TrainingError(what, "choose a lower `learning_rate`")
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), self._settings.max_grad_norm)
        self._optimizer.step()
        return value

    def _n_worse(self) -> int:
        """Return the number of epochs since the best one; 0 until a model has learned anything."""
        best = self.best
        return len(self.log) - best["epoch"] if best and best["score"] > 0 else 0

    def _count(self, loss: float, scores: Scores, seconds: float) -> None:
        """Log an epoch; keep its weights if it is the best, else halve the learning rate if due."""
        score, group = scores.values[scores.main], self._optimizer.param_groups[0]
        line = {
            "epoch": len(self.log) + 1,
            "loss": loss,
            "dev": dict(scores.values),
            "seconds": seconds,
            "learning_rate": group["lr"],
            "mix": self._model.representation.layer_weights(),
        }
        self.log.append(line)
        patience = self._settings.lr_patience
        if not self.best or score > self.best["score"]:
            weights = copy.deepcopy(self._model.state_dict())
            facts = {"epoch": line["epoch"], "mix": line["mix"], "dev": scores.to_dict()}
            self.best = {"score": score, "model": weights, **facts}
        elif patience and self._n_worse() and self._n_worse() % patience == 0:
            group["lr"] /= 2

    def _save(self) -> None:
        """Write the log, then the checkpoint, so that a resumed run repeats what either lacks."""
        write_text(self._folder / LOG_FILE, (json.dumps(line) + "\n" for line in self.log))
        content = {
            "model": self._model.state_dict(),
            "best": self.best,
            "optimizer": self._optimizer.state_dict(),
            "log": self.log,
        }
        write_tensors(self._folder / CHECKPOINT_FILE, content)


def train_task(
    task: Task, data: TaskData, output: str, reporter: Reporter, *, mode: str, device: str = "cpu"
) -> dict[str, Any]:
    """Train a task model, or resume its training, in a folder; return the content of scores.json.

    Args:
        mode: "new", "resume" or "overwrite", as in `RunFolder.open`.
    Raises:
        InputError: the data are invalid, or dev has a label that is missing from train.
        EmbeddingsFileError: embeddings do not fit the data.
        ResumeError: the run cannot be resumed with these settings or data.
        TrainingError: the loss is not finite.
    """
    train, dev = task.read(data.train), task.read(data.dev)
    labels = task.collect_labels(train)
    check_labels(task, train, dev)
    words = None
    if data.word_vectors is not None:
        tokens = dict.fromkeys(chain.from_iterable([*train.sentences, *dev.sentences]))
        words = WordVectors.read(data.word_vectors, tokens).with_first(tokens)
    settings, identity = task.settings, data.identity()
    train.examples = sample_examples(train.examples, settings.fraction, settings.seed)
    with RunFolder(Path(output), "train") as folder, torch.random.fork_rng():
        folder.open(mode)
        if mode == "resume":  # fail before embeddings are computed
            _check_same(folder.path, {"settings": as_flat(settings), "data": identity})
        layers = settings.elmo_layers
        readers = [data.embeddings.find(split, layers, reporter) for split in (train, dev)]
        bilm = None if layers == "none" else data.embeddings.bilm
        torch.manual_seed(settings.seed)
        trained = TrainedTask(task, labels, words, bilm)
        trained.model.to(select_device(device))
        config = trained.config(identity)
        if mode == "resume":
            _check_same(folder.path, config)
            if (scores_file := folder.path / SCORES_FILE).exists():
                reporter.message(f"{folder.path}: the run is finished")
                finished: dict[str, Any] = read_json(scores_file, ModelError, "train again")
                return finished
        else:
            folder.start()
            trained.write_config(folder.path, config)
        inputs = map(trained.inputs, (train.sentences, dev.sentences), readers)
        on_train, on_dev = zip((train.examples, dev.examples), inputs, strict=True)
        trainer = TaskTrainer(trained, on_train, on_dev, folder.path, resume=mode == "resume")
        n = sum(one.numel() for one in trained.model.parameters())
        n_examples = f"{len(train.examples):,} examples, dev {len(dev.examples):,}"
        reporter.message(f"{task.name}: {n_examples}; {n:,} parameters")
        trainer.run(reporter)
        return _finish(folder.path, trained, trainer)


def _finish(folder: Path, trained: TrainedTask, trainer: TaskTrainer) -> dict[str, Any]:
    """Write the model of the best epoch and its scores, and remove the checkpoint."""
    best = trainer.best
    facts = {
        "best_epoch": best["epoch"],
        "epochs": len(trainer.log),
        "seconds": sum(line["seconds"] for line in trainer.log),
        "mix": best["mix"],
        "dev": best["dev"],
    }
    write_tensors(folder / MODEL_FILE, trained.model.state_dict())
    write_text(folder / SCORES_FILE, [json.dumps(facts, indent=1) + "\n"])
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    return facts


def _check_same(folder: Path, config: dict[str, Any]) -> None:
    """Raise a ResumeError if settings or data differ from those of the run in the folder."""
    before, now = map(_flat, (read_config(folder), json.loads(json.dumps(config))))
    for name, value in now.items():
        if before.get(name) != value:
            change = f"{name}: {before.get(name)}, now {value}"
            hint = "use the settings and data of the first run, or another folder"
            raise ResumeError(f"{folder}: the run has other settings or data ({change})", hint)


def _flat(config: dict[str, Any]) -> dict[str, Any]:
    """Return by name the values that a resumed run must share; its files may have moved."""
    names = ("version", "task", "labels", "word_vector_dim", "bilm")
    known: dict[str, Any] = {name: config[name] for name in names if name in config}
    if known.get("bilm"):
        known["bilm"] = {**known["bilm"], "source": ""}
    digests = {name: file["sha256"] for name, file in config["data"].items()}
    return {**known, **config["settings"], **digests}


def sample_examples(examples: Sequence[Any], fraction: float, seed: int) -> list[Any]:
    """Sample a fraction of the examples at random, and keep their order."""
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
