"""train_task: read the data of a task, find its embeddings, and train a model in a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import torch

from elmo_cli.engine.runtime import select_device
from elmo_cli.errors import InputError, ModelError, ResumeError
from elmo_cli.files import write_text
from elmo_cli.lm.checkpoint import write_tensors
from elmo_cli.lm.run_folder import RunFolder
from elmo_cli.regular_files import check_regular, read_json, sha256_of_file
from elmo_cli.tasks.elmo_vectors import EmbeddingsFolder, SentenceVectors
from elmo_cli.tasks.inputs import WordVectors
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.task import Scores, Split, Task, check_labels
from elmo_cli.tasks.task_trainer import CHECKPOINT_FILE, TaskTrainer
from elmo_cli.tasks.trained_task import (
    MODEL_FILE,
    SCORES_FILE,
    TrainedTask,
    config_of,
    read_config,
    read_split,
    write_config,
    write_words,
)


class TrainingReporter(Protocol):
    """Receives what a training run reports."""

    def message(self, text: str) -> None:
        """Report a line of text about the run."""

    def warn(self, text: str) -> None:
        """Report a warning."""

    def embedding(self, done: int, total: int | None) -> None:
        """Report the number of tokens embedded so far, and their total if it is known."""

    def training(self, done: int, total: int) -> None:
        """Report the number of tokens trained on so far, and their total without early stopping."""

    def epoch(self, line: dict[str, Any]) -> None:
        """Report an epoch by its line of the log."""


@dataclass(frozen=True)
class TaskData:
    """The data files of a run.

    Attributes:
        train, dev: data files of the task.
        word_vectors: a file of word vectors, or None.
        embeddings: folder of the embeddings; None without ELMo.
    """

    train: str
    dev: str
    word_vectors: str | None = None
    embeddings: EmbeddingsFolder | None = None

    def identity(self) -> dict[str, Any]:
        """Return the path and the SHA-256 of each file."""
        files = {"train": self.train, "dev": self.dev, "word_vectors": self.word_vectors}
        found = {}
        for name, path in files.items():
            if path is not None:
                check_regular(path, InputError)
                found[name] = {"path": path, "sha256": sha256_of_file(path)}
        return found


def train_task(
    task: Task[Any, Any],
    data: TaskData,
    output: str | Path,
    reporter: TrainingReporter,
    *,
    mode: str = "new",
    device: str = "cpu",
) -> dict[str, Any]:
    """Train a task model, or resume its training, and write it to a folder.

    Args:
        output: folder of the run.
        mode: "new", "resume" or "overwrite", as in `RunFolder.open`.
    Returns:
        the content of scores.json.
    Raises:
        InputError: the data are invalid, or dev has a label that is missing from train.
        EmbeddingsFileError: embeddings do not fit the data.
        ResumeError: the run cannot be resumed with these settings or data.
        TrainingError: the loss is not finite.
    """
    train, dev = (read_split(task, path) for path in (data.train, data.dev))
    for split in (train, dev):
        if split.note:
            reporter.message(f"{split.path}: {split.note}")
    labels = task.collect_labels(train)
    check_labels(task, train, dev)
    sentences = [*train.sentences, *dev.sentences]
    words = None
    if data.word_vectors is not None:
        words = WordVectors.read(data.word_vectors, chain.from_iterable(sentences))
    with RunFolder(Path(output), "train") as folder, torch.random.fork_rng():
        folder.open(mode)
        found = [_vectors(data, split, task.settings, reporter) for split in (train, dev)]
        bilm = None if data.embeddings is None else data.embeddings.bilm
        torch.manual_seed(task.settings.seed)
        trained = TrainedTask.new(task, labels, words, bilm, sentences)
        trained.model.to(select_device(device))
        config = config_of(trained, data.identity())
        if mode == "resume":
            _check_same(folder.path, config)
            if (scores := read_scores(folder.path)) is not None:
                reporter.message(f"{folder.path}: the run is finished")
                return scores
        else:
            folder.start()
            write_words(folder.path, trained)
            write_config(folder.path, config)
        pairs = zip((train, dev), found, strict=True)
        inputs = [trained.inputs(split.sentences, vectors) for split, vectors in pairs]
        is_resumed = mode == "resume"
        trainer = TaskTrainer(
            trained, (train, dev), (inputs[0], inputs[1]), folder.path, resume=is_resumed
        )
        reporter.message(_summary(trained, trainer.n_examples, len(dev.examples)))
        best = trainer.run(reporter.training, reporter.epoch)
        return _finish(folder.path, trainer, best)


def _finish(folder: Path, trainer: TaskTrainer, best: dict[str, Any]) -> dict[str, Any]:
    """Write the model of the best epoch and its scores, and remove the checkpoint."""
    facts = {
        "best_epoch": best["epoch"],
        "epochs": trainer.progress.epoch,
        "seconds": trainer.progress.seconds,
        "mix": best["mix"],
        "dev": scores_as_dict(trainer.score_dev()),
    }
    write_tensors(folder / MODEL_FILE, trainer.trained.model.state_dict())
    write_text(folder / SCORES_FILE, [json.dumps(facts, indent=1) + "\n"])
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    return facts


def read_scores(folder: Path) -> dict[str, Any] | None:
    """Read scores.json; None before the end of the run, ModelError if the file is corrupt."""
    try:
        facts: dict[str, Any] = read_json(folder / SCORES_FILE, ModelError, "train again")
    except FileNotFoundError:
        return None
    return facts


def scores_as_dict(scores: Scores) -> dict[str, Any]:
    """Return scores in the form of scores.json."""
    by_type = {name: dict(one) for name, one in scores.by_type.items()}
    return {"main": scores.main, **scores.values, "by_type": by_type, "note": scores.note}


def _vectors(
    data: TaskData, split: Split[Any], settings: TaskSettings, reporter: TrainingReporter
) -> SentenceVectors | None:
    if data.embeddings is None:
        return None
    return data.embeddings.find(
        split,
        settings.elmo.layers,
        reporter.embedding,
        reporter.warn,
    )


def _check_same(folder: Path, config: dict[str, Any]) -> None:
    """Raise a ResumeError if settings or data differ from those of the run in the folder."""
    old = read_config(folder)
    for name in ("task", "settings", "labels", "bilm", "word_vector_dim", "data"):
        before, now = old.get(name), json.loads(json.dumps(config[name]))
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            name = next(one for one in {**before, **now} if before.get(one) != now.get(one))
            before, now = before.get(name), now.get(name)
        what = f"{folder}: the run has other settings or data ({name}: {before}, now {now})"
        raise ResumeError(what, "use the settings and data of the first run, or another folder")


def _summary(trained: TrainedTask, n_train: int, n_dev: int) -> str:
    n = sum(one.numel() for one in trained.model.parameters() if one.requires_grad)
    reads = [] if trained.bilm is None else [f"ELMo layers ({trained.settings.elmo.layers})"]
    if trained.word_vectors is not None:
        reads.append(f"word vectors of {trained.word_vectors.dim} dimensions")
    if trained.settings.char_filters:
        reads.append("characters")
    examples = f"{n_train:,} examples, dev {n_dev:,}"
    return f"{trained.task.name}: {examples}; {n:,} parameters; reads {', '.join(reads)}"
