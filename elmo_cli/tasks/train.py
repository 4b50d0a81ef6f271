"""train_task: train a task model, and keep the weights of its best epoch on dev."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from elmo_cli.engine.runtime import select_device
from elmo_cli.errors import InputError, ModelError, ResumeError
from elmo_cli.files import write_text
from elmo_cli.fit import FitPoint, fit_facts
from elmo_cli.messages import plural
from elmo_cli.regular_files import check_regular, read_json, sha256_of_file
from elmo_cli.tasks.data_files import read_data_file
from elmo_cli.tasks.data_fit import fit_of_training_data
from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder
from elmo_cli.tasks.label_names import find_variants
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.settings import TaskSettings, as_flat
from elmo_cli.tasks.task import Json, Task
from elmo_cli.tasks.trained_task import TrainedTask, has_valid_parts, read_config
from elmo_cli.tasks.trainer import (
    CHECKPOINT_FILE,
    BestEpoch,
    PreparedSplit,
    TaskEpoch,
    TaskTrainer,
)
from elmo_cli.tasks.word_vectors import WordVectors
from elmo_cli.text.input import require_files
from elmo_cli.training.reporter import Reporter, SkippedRow
from elmo_cli.training.run_folder import SCORES_FILE, RunFolder

_FEWEST_STEPS = 4  # per epoch; with one, 30 epochs may end in a model that knows one label only
_LIMITS = ("epochs", "patience")  # settings that a resumed run may raise


@dataclass(frozen=True)
class TaskData:
    """The data files of a run, the folder of their embeddings, and a file of word vectors.

    Attributes:
        on_error: "stop" at an invalid example, or "skip" and report such examples.
    """

    train: str
    dev: str
    embeddings: EmbeddingsFolder
    word_vectors: str | None = None
    on_error: str = "stop"

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
        UsageError: a data file is a pipe.
        InputError: the data are invalid, or dev cannot be scored.
        EmbeddingsFileError: embeddings do not fit the data.
        ResumeError: the run cannot be resumed with these settings or data.
        TrainingError: the loss is not finite.
    """
    for parameter, path in (("train", data.train), ("dev", data.dev)):
        require_files(f"`{parameter}`", [path])  # their digests are computed too
    is_resumed = mode == "resume"
    settings: TaskSettings = task.settings
    layers = settings.elmo_layers
    train = read_data_file(task, data.train, on_error=data.on_error)
    dev = read_data_file(task, data.dev, on_error=data.on_error)
    labels = task.collect_labels(train)
    task.labels = labels
    _leave_out_invalid(task, train)
    _check_loadable(task, labels, data.train)
    words = _read_word_vectors(data.word_vectors, train, dev)
    if words is not None and words.warning:
        reporter.message(f"warning: {words.warning}")
    fit = fit_of_training_data(task, train, dev, words)
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
            if _has_higher_limits(folder.path, settings):
                _reopen(folder.path, reporter)
            elif _has_valid_scores(folder.path):
                return _finished_scores(folder.path, reporter)
            else:
                _discard_scores(folder.path, reporter)
        else:
            folder.clear()
        # Again in a resumed run: nothing has verified the file of word vectors so far.
        trained.write_start(folder.path, config)

        trainer = TaskTrainer(
            trained,
            PreparedSplit(train.examples, trained.inputs(train.sentences, read_train_layers)),
            PreparedSplit(dev.examples, trained.inputs(dev.sentences, read_dev_layers)),
            folder.path,
            resume=is_resumed,
        )
        n_examples = f"{plural(len(train.examples), 'example')}, dev {len(dev.examples):,}"
        n_parameters = sum(parameter.numel() for parameter in trained.model.parameters())
        reporter.message(f"{task.name}: {n_examples}; {n_parameters:,} parameters")
        _report_data(task, train, dev, fit, reporter)
        _warn_of_few_steps(len(train.examples), settings.batch_size, reporter)
        best = trainer.run(reporter)
        return _finish(folder.path, trained, trainer.log, best, fit)


def _leave_out_invalid(task: Task, train: Split) -> None:
    """Leave out examples that cannot be learned; an InputError if they are invalid.

    Those with a `training_problem` are invalid. The others lack labels.
    """
    learnable = []
    problems = []
    for example in train.examples:
        problem = task.training_problem(example)
        if problem:
            problems.append(SkippedRow(example.where, problem))
        elif task.is_learnable(example):
            learnable.append(example)
        else:
            train.unlabelled.append(example.where)
    if problems and train.on_error == "stop":
        first = problems[0]
        counts = f"{len(problems):,} of {len(train.examples):,} examples are invalid"
        hint = f"correct {task.name} data, or leave invalid examples out: `on_error='skip'`"
        raise InputError(f"{first.problem} ({counts})", hint, where=first.where)
    train.skipped += problems
    if not learnable:
        raise InputError("no example can be learned", task.format_hint, where=train.path)
    train.examples = learnable


def _report_data(
    task: Task, train: Split, dev: Split, fit: Sequence[FitPoint], reporter: Reporter
) -> None:
    """Report which examples are left out, and how the others fit."""
    for split in (train, dev):
        for warning in split.report.warnings:
            reporter.message(f"warning: {warning}")
        if split.unlabelled:
            n_examples = plural(len(split.unlabelled), "example")
            first = split.unlabelled[0]
            reporter.message(
                f"warning: {split.path}: left out {n_examples} without a label, the first: {first}"
            )
    variants = find_variants(task.known_labels())
    if variants is not None:
        first, second = variants
        problem = f"the labels {first!r} and {second!r} differ only in case or white space"
        reporter.message(f"warning: {train.path}: {problem}; they are learned apart")
    for warning in task.warnings(train):
        reporter.message(f"warning: {warning}")
    reporter.fit(fit)
    skipped = [*train.skipped, *dev.skipped]
    if skipped:
        reporter.skipped(skipped)


def _warn_of_few_steps(n_examples: int, batch_size: int, reporter: Reporter) -> None:
    """Warn if an epoch has so few steps that the model can hardly learn."""
    n_steps = math.ceil(n_examples / batch_size)
    sufficient_size = max(1, n_examples // _FEWEST_STEPS)
    if n_steps < _FEWEST_STEPS and sufficient_size < batch_size:
        reporter.message(
            f"warning: only {plural(n_steps, 'step')} per epoch, with which a model may learn to "
            f"give one label to everything; `batch_size={sufficient_size}` gives more"
        )


def _check_loadable(task: Task, labels: Any, path: str) -> None:
    """Raise an InputError for labels with which no model can be loaded."""
    try:
        task.check_model_labels(labels)
    except ValueError as error:
        hint = "correct the labels, or merge those that are rare"
        raise InputError(str(error), hint, where=path) from None


def _read_word_vectors(path: str | None, train: Split, dev: Split) -> WordVectors | None:
    """Read word vectors, with the words of the data first; InputError if that fails."""
    if path is None:
        return None
    tokens = dict.fromkeys(chain.from_iterable([*train.sentences, *dev.sentences]))
    return WordVectors.read(path, tokens).with_first(tokens)


def _finish(
    folder: Path,
    trained: TrainedTask,
    log: Sequence[TaskEpoch],
    best: BestEpoch,
    fit: Sequence[FitPoint],
) -> Json:
    """Write the model of the best epoch and its scores, and remove the checkpoint."""
    facts = {
        "best_epoch": best.epoch,
        "epochs": len(log),
        "seconds": sum(result.seconds for result in log),
        "mix": best.mix,
        "dev": best.dev,
        "fit": fit_facts(fit),
    }
    trained.write_weights(folder)
    write_text(folder / SCORES_FILE, [json.dumps(facts, indent=1) + "\n"], durable=True)
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    return facts


def _has_valid_scores(folder: Path) -> bool:
    """Whether a run is finished, and no file of its model has changed since then."""
    return (folder / SCORES_FILE).exists() and has_valid_parts(folder)


def _discard_scores(folder: Path, reporter: Reporter) -> None:
    """Remove the scores of a model that has changed, if there are any: the run continues."""
    scores_file = folder / SCORES_FILE
    if scores_file.exists():
        problem = "a file of the finished model has changed"
        reporter.message(f"warning: {folder}: {problem}; training again")
        scores_file.unlink()


def _reopen(folder: Path, reporter: Reporter) -> None:
    """Remove the scores of a run whose limits are raised, so that it continues.

    This must be before task.json has the new limits: with these, the old scores would look final.
    """
    scores_file = folder / SCORES_FILE
    if scores_file.exists() and not (folder / CHECKPOINT_FILE).exists():
        reporter.message(
            "the run is finished; its epochs are repeated, with the same results, before further "
            "ones follow"
        )
    scores_file.unlink(missing_ok=True)


def _finished_scores(folder: Path, reporter: Reporter) -> Json:
    """Return the content of scores.json, and remove the checkpoint that a killed run has left."""
    reporter.message(f"{folder}: the run is finished")
    scores: Json = read_json(folder / SCORES_FILE, ModelError, "train again")
    (folder / CHECKPOINT_FILE).unlink(missing_ok=True)
    return scores


def _check_same(folder: Path, config: Json) -> None:
    """Raise a ResumeError if settings or data differ from those of the run in the folder.

    `epochs` and `patience` may be higher.
    """
    recorded = _values_to_keep(read_config(folder))
    present = _values_to_keep(json.loads(json.dumps(config)))  # as it would be read
    for name, value in present.items():
        before = recorded.get(name)
        is_raised = name in _LIMITS and isinstance(before, int) and value > before
        if before != value and not is_raised:
            change = f"{name}: {before}, now {value}"
            problem = f"the run has other settings or data ({change})"
            hint = "use the settings and data of the first run, or another folder"
            raise ResumeError(problem, hint, where=folder)


def _has_higher_limits(folder: Path, settings: TaskSettings) -> bool:
    """Whether the limits of the run in the folder are lower than those of the settings."""
    recorded = read_config(folder)["settings"]
    present = as_flat(settings)
    return any(present[name] > recorded[name] for name in _LIMITS)


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
