"""train_task: read the data of a task, find its embeddings, and train a model in a folder."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from elmo_cli.engine.runtime import select_device
from elmo_cli.errors import InputError, ModelError, ResumeError
from elmo_cli.files import write_text
from elmo_cli.lm.checkpoint import write_tensors
from elmo_cli.lm.run_folder import RunFolder
from elmo_cli.regular_files import check_regular, read_json, sha256_of_file
from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder, Reporter
from elmo_cli.tasks.inputs import WordVectors
from elmo_cli.tasks.task import Task, check_labels
from elmo_cli.tasks.task_trainer import (
    CHECKPOINT_FILE,
    TaskTrainer,
    sample_examples,
)
from elmo_cli.tasks.trained_task import (
    MODEL_FILE,
    SCORES_FILE,
    TrainedTask,
    read_config,
    read_split,
)


@dataclass(frozen=True)
class TaskData:
    """The data files of a run.

    Attributes:
        train, dev: data files of the task.
        embeddings: folder of the embeddings.
        word_vectors: a file of word vectors, or None.
    """

    train: str
    dev: str
    embeddings: EmbeddingsFolder
    word_vectors: str | None = None

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
    reporter: Reporter,
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
    train, dev = (read_split(task, path, reporter) for path in (data.train, data.dev))
    labels = task.collect_labels(train)
    check_labels(task, train, dev)
    words, n_words = None, 0
    if data.word_vectors is not None:
        tokens = dict.fromkeys(chain.from_iterable([*train.sentences, *dev.sentences]))
        words, n_words = WordVectors.read(data.word_vectors, tokens).with_first(tokens)
    settings = task.settings
    with RunFolder(Path(output), "train") as folder, torch.random.fork_rng():
        folder.open(mode)
        find = data.embeddings.find
        layers = [find(split, settings.elmo.layers, reporter) for split in (train, dev)]
        bilm = None if settings.elmo.layers == "none" else data.embeddings.bilm
        torch.manual_seed(settings.seed)
        trained = TrainedTask.build(task, labels, words, bilm, n_words)
        trained.model.to(select_device(device))
        config = trained.config(data.identity())
        if mode == "resume":
            _check_same(folder.path, config)
            if (scores_file := folder.path / SCORES_FILE).exists():
                reporter.message(f"{folder.path}: the run is finished")
                finished: dict[str, Any] = read_json(scores_file, ModelError, "train again")
                return finished
        else:
            folder.start()
            trained.write_config(folder.path, config)
        examples = sample_examples(train.examples, settings.fraction, settings.seed)
        trainer = TaskTrainer(
            trained,
            (examples, trained.inputs(train.sentences, layers[0])),
            (dev.examples, trained.inputs(dev.sentences, layers[1])),
            folder.path,
            resume=mode == "resume",
        )
        n = sum(one.numel() for one in trained.model.parameters() if one.requires_grad)
        n_examples = f"{len(examples):,} examples, dev {len(dev.examples):,}"
        reporter.message(f"{task.name}: {n_examples}; {n:,} parameters")
        trainer.run(reporter)
        return _finish(folder.path, trained, trainer)


def _finish(folder: Path, trained: TrainedTask, trainer: TaskTrainer) -> dict[str, Any]:
    """Write the model of the best epoch and its scores, and remove the checkpoint."""
    progress = trainer.progress
    facts = {
        "best_epoch": progress.best_line["epoch"],
        "epochs": progress.epoch,
        "seconds": progress.seconds,
        "mix": progress.best_line["mix"],
        "dev": progress.best_scores,
    }
    write_tensors(folder / MODEL_FILE, trained.model.state_dict())
    write_text(folder / SCORES_FILE, [json.dumps(facts, indent=1) + "\n"])
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    return facts


def _check_same(folder: Path, config: dict[str, Any]) -> None:
    """Raise a ResumeError if settings or data differ from those of the run in the folder."""
    before, now = (
        {**one, **one["settings"], **one["data"], "settings": None, "data": None}
        for one in (read_config(folder), json.loads(json.dumps(config)))
    )
    for name in now:
        if name != "elmo_version" and before.get(name) != now[name]:
            what = f"{folder}: the run has other settings or data ({name}: {before.get(name)}, "
            hint = "use the settings and data of the first run, or another folder"
            raise ResumeError(f"{what}now {now[name]})", hint)
