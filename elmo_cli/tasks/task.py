"""Task: the interface of a task, with its examples, data splits, models and scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from torch import Tensor, nn

from elmo_cli.errors import UsageError
from elmo_cli.tasks.inputs import Inputs, Tokens
from elmo_cli.tasks.representation import TokenRepresentation
from elmo_cli.tasks.settings import TASKS, TaskSettings
from elmo_cli.text.input import InputSettings, read_sentences


@dataclass(frozen=True)
class Example:
    """An input of a prediction. Tasks add the field to predict, None where it is unknown.

    Attributes:
        sentences: indices into `Split.sentences`.
        where: its file and line, for messages.
    """

    sentences: tuple[int, ...]
    where: str


E = TypeVar("E", bound=Example)
P = TypeVar("P")


@dataclass(frozen=True)
class Split(Generic[E]):
    """The content of a data file.

    Attributes:
        path: name of the file.
        sentences: its sentences, in an order that the task chooses.
        examples: its examples, in the order of the file.
        note: message about skipped content; "" for none.
    """

    path: str
    sentences: Sequence[Tokens]
    examples: Sequence[E]
    note: str = ""

    def n_tokens(self, example: E) -> int:
        """The total number of tokens in the sentences of an example."""
        return sum(len(self.sentences[number]) for number in example.sentences)


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


class TaskModel(nn.Module, ABC, Generic[E, P]):
    """A model of a task.

    Random choices use only torch's global generator, so that a resumed run repeats them.

    Attributes:
        representation: computes the token vectors.
    """

    def __init__(self, representation: TokenRepresentation) -> None:
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
        settings: the dataclass of its settings.
        presets: name -> changes of the default settings, as for `with_settings`.
        formats: output formats of predictions; the first is the default.
        reads_text: whether the task defines `read_text`.
    """

    name: ClassVar[str]
    settings: ClassVar[type[TaskSettings]] = TaskSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    formats: ClassVar[tuple[str, ...]] = ("jsonl",)
    reads_text: ClassVar[bool] = False

    @abstractmethod
    def read(self, path: str, settings: TaskSettings, *, labelled: bool = True) -> Split[E]:
        """Read a data file.

        Args:
            labelled: whether the labels must be in the file; otherwise they may be missing.
        Raises:
            InputError: the file or a line in it is invalid; the message names both.
        """

    def read_text(self, paths: Sequence[str], text: InputSettings) -> Split[E]:
        """Read the text formats of `elmo embed` for prediction.

        Only tasks with `reads_text` define this method.

        Raises:
            InputError: a file cannot be read.
        """
        raise NotImplementedError(self.name)

    @abstractmethod
    def labels(self, train: Split[E]) -> Any:
        """Collect what the model must know about the labels of the training data, such as names.

        Returns:
            a value that JSON can represent.
        Raises:
            InputError: the data are unsuitable for training.
        """

    def check_labels(self, labels: Any, split: Split[E]) -> None:
        """Raise an InputError for a label that is missing from the training data."""

    @abstractmethod
    def model(
        self, settings: TaskSettings, labels: Any, representation: TokenRepresentation
    ) -> TaskModel[E, P]:
        """Build a model with random weights."""

    @abstractmethod
    def score(self, examples: Sequence[E], predictions: Sequence[P]) -> Scores:
        """Score predictions against the labels of the examples."""

    @abstractmethod
    def lines(self, split: Split[E], predictions: Sequence[P], output_format: str) -> Iterator[str]:
        """Yield the lines of a file of predictions, without line ends.

        Args:
            output_format: one of `formats`.
        """


def load_task(name: str) -> Task[Any, Any]:
    """Return the task of this name; UsageError if there is none."""
    if name not in TASKS:
        near = get_close_matches(name, TASKS, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"choose one of {', '.join(TASKS)}"
        raise UsageError(f"`{name}`: no such task", hint)
    task: Task[Any, Any] = import_module(f"{__package__}.{name}").TASK
    return task


def split_of_text(
    paths: Sequence[str], text: InputSettings, make: Callable[[tuple[int, ...], str], E]
) -> Split[E]:
    """Read text files with one example per sentence that is not empty.

    Args:
        make: builds an example without labels from the fields of `Example`.
    """
    found = [sentence for sentence in read_sentences(paths, text) if sentence.tokens]
    examples = [make((number,), sentence.where) for number, sentence in enumerate(found)]
    return Split(", ".join(paths), [sentence.tokens for sentence in found], examples)
