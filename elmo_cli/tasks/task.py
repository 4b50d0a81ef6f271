"""Task: the interface of a task, with its examples, data splits, models and scores."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from elmo_cli.errors import InputError, UsageError
from elmo_cli.tasks.inputs import Inputs, Tokens
from elmo_cli.tasks.representation import TokenRepresentation
from elmo_cli.tasks.settings import TASKS, TaskSettings, with_settings
from elmo_cli.text.input import InputSettings, read_sentences

T = TypeVar("T")


@dataclass(frozen=True)
class Example(Generic[T]):
    """An input of a prediction, and what should be predicted. Tasks may add fields.

    Attributes:
        sentences: indices into `Split.sentences`.
        where: its file and line, for messages.
        target: what the model should predict, such as a label; None where it is unknown.
    """

    sentences: tuple[int, ...]
    where: str
    target: T | None

    def n_tokens(self, sentences: Sequence[Tokens]) -> int:
        """Return the total number of tokens in its sentences, given those of the split."""
        return sum(len(sentences[number]) for number in self.sentences)


E = TypeVar("E", bound=Example[Any])
P = TypeVar("P")


@dataclass
class Split(Generic[E]):
    """The content of a data file.

    Attributes:
        path: name of the file.
        sentences: its sentences, in an order that the task chooses.
        examples: its examples, in the order of the file.
        note: message about skipped content; "" for none.
    """

    path: str
    sentences: list[Tokens] = field(default_factory=list)
    examples: list[E] = field(default_factory=list)
    note: str = ""

    def add(self, *sentences: Tokens) -> tuple[int, ...]:
        """Append sentences, and return their indices."""
        first = len(self.sentences)
        self.sentences += sentences
        return tuple(range(first, len(self.sentences)))


@dataclass(frozen=True)
class Scores:
    """The scores of predictions, in percent except for errors such as "mse".

    Attributes:
        main: name of the score that selects the best epoch.
        values: scores by name, such as "f1".
        by_type: scores and counts of each label; empty for tasks without labels.
        note: what is counted, where that is not obvious.
    """

    main: str
    values: Mapping[str, float]
    by_type: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    note: str = ""

    @property
    def main_value(self) -> float:
        """The value of the score that selects the best epoch."""
        return self.values[self.main]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of scores.json."""
        return {"main": self.main, **self.values, "by_type": self.by_type, "note": self.note}


class TaskModel(nn.Module, ABC, Generic[E, P]):
    """A model of a task.

    Random choices use only torch's global generator, so that a resumed run repeats them.

    Args:
        settings: those of the task.
        labels: from `Task.collect_labels`.
        representation: computes the token vectors.
    """

    def __init__(
        self, settings: TaskSettings, labels: Any, representation: TokenRepresentation
    ) -> None:
        super().__init__()
        self.representation = representation

    @abstractmethod
    def loss(self, examples: Sequence[E], inputs: Inputs) -> Tensor:
        """Return the mean loss of a batch of examples, a scalar."""

    @abstractmethod
    def predict(self, examples: Sequence[E], inputs: Inputs) -> list[P]:
        """Return one prediction per example."""


class Task(ABC, Generic[E, P]):
    """A task: how its files are read, its model, its scores and the format of its predictions.

    `E` is the type of its examples, `P` that of its predictions, such as one label per token.

    Attributes:
        name: name of the task, as in `elmo train NAME`.
        settings_class: the dataclass of its settings.
        model_class: the class of its models.
        presets: name -> changes of the default settings, as for `with_settings`.
        formats: output formats of predictions; the first is the default.
        reads_text: whether `read_text` is defined.
        settings: the settings; by default those of `settings_class`.
    """

    name: ClassVar[str]
    settings_class: ClassVar[type[TaskSettings]] = TaskSettings
    model_class: ClassVar[type[TaskModel[Any, Any]]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    formats: ClassVar[tuple[str, ...]] = ("jsonl",)
    reads_text: ClassVar[bool] = False
    settings: TaskSettings

    def __init__(self, settings: TaskSettings | None = None) -> None:
        self.settings = settings or self.settings_class()

    @abstractmethod
    def read(self, path: str, *, labelled: bool = True) -> Split[E]:
        """Read a data file.

        Args:
            labelled: whether the targets must be in the file; otherwise they may be missing.
        Raises:
            InputError: the file or a line in it is invalid; the message names both.
        """

    def read_text(self, paths: Sequence[str], text: InputSettings) -> Split[Any]:
        """Read the text formats of `elmo embed`: one example per sentence that is not empty.

        Raises:
            InputError: a file cannot be read.
        """
        split = Split[Any](", ".join(paths))
        for sentence in read_sentences(paths, text):
            if sentence.tokens:
                example = Example[Any](split.add(sentence.tokens), sentence.where, None)
                split.examples.append(example)
        return split

    def labels_of(self, example: E) -> Iterable[str]:
        """Return the labels of an example that the training data must contain."""
        return ()

    def collect_labels(self, train: Split[E]) -> Any:
        """Collect what the model must know about the training data, by default the label names.

        Returns:
            a value that JSON can represent.
        Raises:
            InputError: the data are unsuitable for training.
        """
        names = sorted({name for example in train.examples for name in self.labels_of(example)})
        if len(names) < 2:
            what = f"{train.path}: fewer than two labels ({', '.join(names) or 'none'})"
            raise InputError(what, "train on examples with at least two labels")
        return names

    @abstractmethod
    def score(self, examples: Sequence[E], predictions: Sequence[P]) -> Scores:
        """Score predictions against the targets of the examples."""

    @abstractmethod
    def format_example(
        self, example: E, sentences: list[Tokens], prediction: P, output_format: str
    ) -> dict[str, Any] | str:
        """Return a prediction as an object of JSON lines, or as the text of another format.

        Args:
            sentences: those of the example.
            output_format: one of `formats`.
        """

    def format_lines(
        self, split: Split[E], predictions: Sequence[P], output_format: str
    ) -> Iterator[str]:
        """Yield the lines of a file of predictions, without line ends."""
        for example, prediction in zip(split.examples, predictions, strict=True):
            sentences = [split.sentences[number] for number in example.sentences]
            found = self.format_example(example, sentences, prediction, output_format)
            yield found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def load_task(
    name: str, changes: Mapping[str, Any] | None = None, preset: str | None = None
) -> Task[Any, Any]:
    """Return the task of this name.

    Args:
        changes: changes of the default settings, as for `with_settings`.
        preset: name of a group of settings, which `changes` override.
    Raises:
        UsageError: there is no such task or preset.
        SettingError: a setting is unknown or invalid.
    """
    if name not in TASKS:
        near = get_close_matches(name, TASKS, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"choose one of {', '.join(TASKS)}"
        raise UsageError(f"`{name}`: no such task", hint)
    task: type[Task[Any, Any]] = getattr(
        import_module(f"{__package__}.{name}"), f"{name.capitalize()}Task"
    )
    if preset is not None and preset not in task.presets:
        hint = f"choose one of {', '.join(task.presets)}" if task.presets else "leave it out"
        raise UsageError(f"`preset={preset}`: no such preset for this task", hint)
    chosen = {**task.presets.get(preset or "", {}), **(changes or {})}
    return task(with_settings(task.settings_class(), chosen))


def check_labels(task: Task[E, Any], train: Split[E], split: Split[E]) -> None:
    """Raise an InputError for a label that is missing from the training data."""
    known = {label for example in train.examples for label in task.labels_of(example)}
    for example in split.examples:
        for label in task.labels_of(example):
            if label not in known:
                what = f"{example.where}: label `{label}` does not occur in the training data"
                raise InputError(what, "correct it, or move the example to the training data")
