"""train_task: train a task model, and keep the weights of its best epoch on dev."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from elmo_cli.engine.runtime import select_device
from elmo_cli.errors import InputError, ModelError, ResumeError
from elmo_cli.files import write_text
from elmo_cli.regular_files import check_regular, read_json, sha256_of_file
from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder
from elmo_cli.tasks.inputs import WordVectors
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.settings import SCORES_FILE, TaskSettings, as_flat
from elmo_cli.tasks.task import Json, Task, check_labels
from elmo_cli.tasks.trained_task import MODEL_FILE, TrainedTask, read_config
from elmo_cli.tasks.trainer import (
    CHECKPOINT_FILE,
    BestEpoch,
    PreparedSplit,
    TaskEpoch,
    TaskTrainer,
)
from elmo_cli.training.reporter import Reporter
from elmo_cli.training.run_folder import RunFolder
from elmo_cli.training.tensors import write_tensors


@dataclass(frozen=True)
class TaskData:
    """The data files of a run, the folder of their embeddings, and a file of word vectors."""

    train: str
    dev: str
    embeddings: EmbeddingsFolder
    word_vectors: str | None = None

    def identity(self) -> Json:
        """Return the path and the SHA-256 of each file."""
        paths = {"train": self.train, "dev": self.dev}
        if self.word_vectors is not None:
            paths["word_vectors"] = self.word_vectors
        for path in paths.values():
            check_regular(path, InputError)
        return {
            name: {"path": path, "sha256": sha256_of_file(path)} for name, path in paths.items()
        }


def train_task(
    task: Task, data: TaskData, output: str, reporter: Reporter, *, mode: str, device: str = "cpu"
) -> Json:
    """Train a task model, or resume its training, in a folder; return the content of scores.json.

    Args:
        mode: "new", "resume" or "overwrite", as in `RunFolder.open`.
    Raises:
        InputError: the data are invalid, or dev has a label that is missing from train.
        EmbeddingsFileError: embeddings do not fit the data.
        ResumeError: the run cannot be resumed with these settings or data.
        TrainingError: the loss is not finite.
    """
    is_resumed = mode == "resume"
    settings: TaskSettings = task.settings
    layers = settings.elmo_layers
    train = task.read(data.train)
    dev = task.read(data.dev)
    labels = task.collect_labels(train)
    check_labels(task, train, dev)
    words = _read_word_vectors(data.word_vectors, train, dev)
    identity = data.identity()
    train.examples = sample_examples(train.examples, settings.fraction, settings.seed)

    with RunFolder(Path(output), "train") as folder, torch.random.fork_rng():
        folder.open(mode)
        if is_resumed:  # fail before embeddings are computed
            _check_same(folder.path, {"settings": as_flat(settings), "data": identity})
        read_train_layers = data.embeddings.find(train, layers, reporter)
        read_dev_layers = data.embeddings.find(dev, layers, reporter)
        bilm = None if layers == "none" else data.embeddings.bilm

        torch.manual_seed(settings.seed)
        trained = TrainedTask(task, labels, words, bilm)
        trained.model.to(select_device(device))
        config = trained.config(identity)
        if is_resumed:
            _check_same(folder.path, config)
            scores_file = folder.path / SCORES_FILE
            if scores_file.exists():
                reporter.message(f"{folder.path}: the run is finished")
                finished: Json = read_json(scores_file, ModelError, "train again")
                return finished
        else:
            folder.clear()
            trained.write_config(folder.path, config)

        trainer = TaskTrainer(
            trained,
            PreparedSplit(train.examples, trained.inputs(train.sentences, read_train_layers)),
            PreparedSplit(dev.examples, trained.inputs(dev.sentences, read_dev_layers)),
            folder.path,
            resume=is_resumed,
        )
        n_examples = f"{len(train.examples):,} examples, dev {len(dev.examples):,}"
        n_parameters = sum(parameter.numel() for parameter in trained.model.parameters())
        reporter.message(f"{task.name}: {n_examples}; {n_parameters:,} parameters")
        best = trainer.run(reporter)
        return _finish(folder.path, trained, trainer.log, best)


def _read_word_vectors(path: str | None, train: Split, dev: Split) -> WordVectors | None:
    """Read word vectors, with the words of the data first; InputError if that fails."""
    if path is None:
        return None
    tokens = dict.fromkeys(chain.from_iterable([*train.sentences, *dev.sentences]))
    return WordVectors.read(path, tokens).with_first(tokens)


def _finish(folder: Path, trained: TrainedTask, log: Sequence[TaskEpoch], best: BestEpoch) -> Json:
    """Write the model of the best epoch and its scores, and remove the checkpoint."""
    facts = {
        "best_epoch": best.epoch,
        "epochs": len(log),
        "seconds": sum(result.seconds for result in log),
        "mix": best.mix,
        "dev": best.dev,
    }
    write_tensors(folder / MODEL_FILE, trained.model.state_dict())
    write_text(folder / SCORES_FILE, [json.dumps(facts, indent=1) + "\n"])
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    return facts


def _check_same(folder: Path, config: Json) -> None:
    """Raise a ResumeError if settings or data differ from those of the run in the folder."""
    recorded = _values_to_keep(read_config(folder))
    present = _values_to_keep(json.loads(json.dumps(config)))  # as it would be read
    for name, value in present.items():
        if recorded.get(name) != value:
            change = f"{name}: {recorded.get(name)}, now {value}"
            problem = f"the run has other settings or data ({change})"
            hint = "use the settings and data of the first run, or another folder"
            raise ResumeError(problem, hint, where=folder)


def _values_to_keep(config: Json) -> Json:
    """Return by name the values that a resumed run must share; its files may have moved."""
    values: Json = {}
    for name in ("version", "task", "labels", "word_vector_dim", "bilm"):
        if name in config:
            values[name] = config[name]
    if values.get("bilm"):
        values["bilm"] = {**values["bilm"], "source": ""}
    values.update(config["settings"])
    for name, file in config["data"].items():
        values[name] = file["sha256"]
    return values


def sample_examples(examples: Sequence[Any], fraction: float, seed: int) -> list[Any]:
    """Sample a fraction of the examples at random, and keep their order."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(examples), generator=generator).tolist()
    n_kept = max(1, round(len(examples) * fraction))
    return [examples[number] for number in sorted(order[:n_kept])]
