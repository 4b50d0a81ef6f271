"""Task: the interface of a task, with its examples, data splits, models and scores."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from torch import Tensor, nn

from elmo_cli.errors import ElmoError, InputError, UsageError
from elmo_cli.tasks.inputs import Inputs, SentenceBatch, TokenRepresentation
from elmo_cli.tasks.layers import BiLSTM, SequenceDropout
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.settings import TASKS, TaskSettings, suggest, with_settings
from elmo_cli.text.input import InputReport, InputSettings, read_sentences
from elmo_cli.text.sentence import Tokens

Json = dict[str, Any]  # an object, as `json.dumps` takes it
# Settings of the readers of texts, which `elmo train` does not have.
_READER_SETTINGS = {"format", "column", "encoding"}


@dataclass(frozen=True)
class Example:
    """An input of a prediction, and what should be predicted. Tasks may add fields.

    Attributes:
        sentences: indices into `Split.sentences`.
        where: its file and line, for messages.
        target: what the model should predict, such as a label; None where it is unknown.
    """

    sentences: tuple[int, ...]
    where: str
    target: Any

    def n_tokens(self, sentences: Sequence[Tokens]) -> int:
        """Return the total number of tokens in its sentences, given those of the split."""
        return sum(len(sentences[number]) for number in self.sentences)


@dataclass(frozen=True)
class Scores:
    """The scores of predictions, in percent except for errors such as "mse".

    Attributes:
        main: name of the score that selects the best epoch.
        by_type: scores and counts of each label; empty for tasks without labels.
        note: what is counted, where that is not obvious.
    """

    main: str
    values: Mapping[str, float]
    by_type: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""

    @property
    def main_value(self) -> float:
        """The score that selects the best epoch."""
        return self.values[self.main]

    def to_dict(self) -> Json:
        """Return the content of scores.json."""
        return {"main": self.main, **self.values, "by_type": self.by_type, "note": self.note}


class TaskModel(nn.Module, ABC):
    """A model of a task.

    Random choices use only torch's global generator, so that a resumed run repeats them.

    Args:
        labels: from `Task.collect_labels`.
    Attributes:
        state_dim: dimension of the states that `encode` returns.
    """

    encoder: Any

    def __init__(self, settings: Any, labels: Any, representation: TokenRepresentation) -> None:
        super().__init__()
        self.settings = settings
        self.labels = labels
        self.representation = representation
        self.encoder = self.build_encoder(representation.dim)
        self.dropout = SequenceDropout(settings.dropout)
        self.state_dim: int = self.encoder.dim + representation.output_dim
        self.build()

    def build_encoder(self, dim: int) -> nn.Module:
        """Return the encoder of token vectors of this dimension, by default a biLSTM."""
        settings = self.settings
        return BiLSTM(dim, settings.hidden, settings.layers, settings.dropout)

    @abstractmethod
    def build(self) -> None:
        """Add the modules that follow the encoder."""

    def encode(self, x: Tensor, batch: SentenceBatch) -> Tensor:
        """Encode token vectors, (batch, token, dim), and append ELMo if it is used there."""
        states = self.dropout(self.encoder(x, batch.lengths))
        return self.representation.at_output(states, batch)

    @abstractmethod
    def loss(self, examples: Sequence[Any], inputs: Inputs) -> Tensor:
        """Return the mean loss of a batch of examples, a scalar."""

    @abstractmethod
    def predict(self, examples: Sequence[Any], inputs: Inputs) -> list[Any]:
        """Return one prediction per example."""


class Task(ABC):
    """A task: how its files are read, its model, its scores and the format of its predictions.

    Attributes:
        name: name of the task, as in `elmo train NAME`.
        presets: name -> changes of the default settings, NAME=VALUE separated by spaces.
        formats: output formats of predictions; the first is the default.
        reads_text: whether `elmo predict` reads text with `read_text`.
        settings: the settings; by default those of `settings_class`.
        labels: the result of `collect_labels`; None until a model is built or loaded.
    """

    name: ClassVar[str]
    settings_class: ClassVar[type[TaskSettings]] = TaskSettings
    model_class: ClassVar[type[TaskModel]]
    presets: ClassVar[Mapping[str, str]] = {}
    formats: ClassVar[tuple[str, ...]] = ("jsonl",)
    reads_text: ClassVar[bool] = False
    labels: Any = None

    def __init__(self, settings: TaskSettings | None = None) -> None:
        self.settings: Any = settings or self.settings_class()

    @property
    def format_hint(self) -> str:
        """The hint for errors in a data file."""
        return f"docs/train.md describes the data format of {self.name}"

    def read(self, path: str, *, labelled: bool = True) -> Split:
        """Read a data file, where `labelled` requires targets.

        InputError if it is invalid or contains no example.
        """
        split = Split(path, where=path)
        try:
            self.fill(split, labelled=labelled)
            if not split.examples:
                split.where = path
                raise ValueError("contains no example")
        except InputError as error:
            if _READER_SETTINGS.isdisjoint(error.parameters):
                raise
            raise InputError(error.problem, self.format_hint, where=error.where) from error
        except ElmoError:
            raise
        except ValueError as error:
            raise InputError(str(error), self.format_hint, where=split.where) from error
        except (AttributeError, KeyError, TypeError) as error:  # JSON with another structure
            problem = f"a field is missing or of the wrong type ({error})"
            raise InputError(problem, self.format_hint, where=split.where) from error
        return split

    @abstractmethod
    def fill(self, split: Split, *, labelled: bool) -> None:
        """Add the sentences and examples of `split.path`; `labelled` requires targets.

        ValueError, KeyError or TypeError if the data at `split.where` is invalid.
        """

    def read_text(
        self, paths: Sequence[str], text: InputSettings, report: InputReport | None = None
    ) -> Split:
        """Read text as `elmo embed` does: one example per sentence; InputError if that fails."""
        split = Split(", ".join(paths))
        for sentence in read_sentences(paths, text, report):
            if sentence.tokens:
                numbers = split.add(sentence.tokens)
                split.examples.append(Example(numbers, sentence.where, target=None))
        return split

    def labels_of(self, example: Any) -> Iterable[str]:
        """Return the labels of an example that the training data must contain."""
        return ()

    def collect_labels(self, train: Split) -> Any:
        """Return what the model must know about the training data, by default the label names.

        The result is plain JSON. InputError if the data are unsuitable for training.
        """
        names = sorted(_labels_of_split(self, train))
        if len(names) < 2:
            problem = f"fewer than two labels ({', '.join(names) or 'none'})"
            hint = "train on examples with at least two labels"
            raise InputError(problem, hint, where=train.path)
        return names

    @abstractmethod
    def score(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Scores:
        """Score predictions against the targets of the examples."""

    def to_json(self, example: Any, sentences: list[Tokens], prediction: Any) -> Json:
        """Return a prediction as a JSON object, given the sentences of its example."""
        raise NotImplementedError

    def to_text(self, example: Any, sentences: list[Tokens], prediction: Any) -> str:
        """Return a prediction in the format that is not JSON Lines, if the task has one."""
        raise NotImplementedError

    def format_lines(self, split: Split, predictions: Sequence[Any], form: str) -> Iterator[str]:
        """Yield the lines of a file of predictions in one of `formats`."""
        for example, prediction in zip(split.examples, predictions, strict=True):
            sentences = [split.sentences[number] for number in example.sentences]
            if form == "jsonl":
                line = self.to_json(example, sentences, prediction)
                yield json.dumps(line, ensure_ascii=False) + "\n"
            else:
                yield self.to_text(example, sentences, prediction) + "\n"


def load_task(
    name: str, changes: Mapping[str, Any] | None = None, preset: str | None = None
) -> Task:
    """Return the task of this name.

    Args:
        changes: changes of the default settings, as for `with_settings`.
        preset: name of a group of settings, which `changes` override.
    Raises:
        UsageError: there is no such task or preset, or the task needs a package that is missing.
        SettingError: a setting is unknown or invalid.
    """
    if name not in TASKS:
        raise UsageError("no such task", suggest(name, TASKS), where=f"`{name}`")
    try:
        module = import_module(f"{__package__}.{name}")
    except ImportError as error:
        hint = "`pip install '.[tasks]'` in a clone"
        raise UsageError(f"{error.name} is not installed", hint, where=name) from None
    task: type[Task] = getattr(module, f"{name.capitalize()}Task")
    chosen = _preset_settings(task, preset) if preset is not None else {}
    chosen.update(changes or {})
    return task(with_settings(task.settings_class(), chosen))


def _preset_settings(task: type[Task], preset: str) -> dict[str, Any]:
    """Return the settings of a preset, by name, as text."""
    if preset not in task.presets:
        problem = "no such preset for this task"
        raise UsageError(problem, suggest(preset, task.presets), where=f"`preset={preset}`")
    settings = {}
    for pair in task.presets[preset].split():
        name, value = pair.split("=")
        settings[name] = value
    return settings


def check_labels(task: Task, train: Split, split: Split) -> None:
    """Raise an InputError for a label that is missing from the training data."""
    known = _labels_of_split(task, train)
    for example in split.examples:
        for label in task.labels_of(example):
            if label not in known:
                problem = f"label `{label}` does not occur in the training data"
                hint = "correct it, or move the example to the training data"
                raise InputError(problem, hint, where=example.where)


def _labels_of_split(task: Task, split: Split) -> set[str]:
    return {label for example in split.examples for label in task.labels_of(example)}
