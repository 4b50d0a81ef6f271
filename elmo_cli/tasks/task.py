"""Task: what every task defines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
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
    """What a task predicts something for. Tasks add what is predicted, None where it is unknown.

    Attributes:
        sentences: indices into `Split.sentences`.
        where: file and line, for messages.
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
        sentences: its sentences in the order that the reader of the task defines.
        examples: its examples in the order of the file.
        note: what was left out of the file, for a message; "" for nothing.
    """

    path: str
    sentences: Sequence[Tokens]
    examples: Sequence[E]
    note: str = ""

    def n_tokens(self, example: E) -> int:
        """The number of tokens of the sentences of an example."""
        return sum(len(self.sentences[number]) for number in example.sentences)


@dataclass(frozen=True)
class Scores:
    """The scores of predictions, in percent.

    Attributes:
        main: name of the score that selects the best epoch.
        values: score by name, such as "f1".
        by_type: for each label, scores and counts by name; empty for tasks without labels.
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


class TaskModel(nn.Module, ABC, Generic[E, P]):
    """A model of a task.

    Random choices use torch's global generator alone, so that a resumed run repeats them.

    Attributes:
        representation: of tokens.
    """

    def __init__(self, representation: TokenRepresentation) -> None:
        super().__init__()
        self.representation = representation

    @abstractmethod
    def loss(self, examples: Sequence[E], inputs: Inputs) -> Tensor:
        """The mean loss of a batch of examples, ()."""

    @abstractmethod
    def predict(self, examples: Sequence[E], inputs: Inputs) -> list[P]:
        """One prediction per example."""


class Task(ABC, Generic[E, P]):
    """One task: how its files are read, its model, its scores and the form of its predictions.

    `E` is its type of example, `P` that of a prediction. Predictions are in the form of what is
    predicted, such as one label per token.

    Attributes:
        name: as in `elmo train NAME`.
        settings: the dataclass of its settings.
        presets: name -> settings that differ from the defaults, as of `with_settings`.
        formats: formats of predictions; the first is the default.
        reads_text: whether the task can predict on plain text, by `read_text`.
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
            labelled: whether what is to be predicted must be in the file; otherwise it may lack.
        Raises:
            InputError: the file cannot be read, or a line in it; it names file and line.
        """

    def read_text(self, paths: Sequence[str], text: InputSettings) -> Split[E]:
        """Read plain text, or whatever `elmo embed` reads, to predict on; one example per sentence.

        Only tasks with `reads_text` define it.

        Raises:
            InputError: a file cannot be read.
        """
        raise NotImplementedError(self.name)

    @abstractmethod
    def labels(self, train: Split[E]) -> Any:
        """What the model must know of the labels of the training data, such as their names.

        Returns:
            lists, dicts, strings and numbers, as JSON keeps them.
        Raises:
            InputError: the data cannot be trained on.
        """

    def check_labels(self, labels: Any, split: Split[E]) -> None:
        """Raise an InputError for an example of dev with a label that the training data lack."""

    @abstractmethod
    def model(
        self, settings: TaskSettings, labels: Any, representation: TokenRepresentation
    ) -> TaskModel[E, P]:
        """A new model with random weights."""

    @abstractmethod
    def score(self, examples: Sequence[E], predictions: Sequence[P]) -> Scores:
        """Compare predictions with the examples."""

    @abstractmethod
    def lines(self, split: Split[E], predictions: Sequence[P], form: str) -> Iterator[str]:
        """Yield the predictions for all examples as lines of a file, without line ends.

        Args:
            form: one of `formats`.
        """


def load_task(name: str) -> Task[Any, Any]:
    """The task of this name; UsageError with "did you mean" for others."""
    if name not in TASKS:
        near = get_close_matches(name, TASKS, 1)
        hint = f"did you mean `{near[0]}`?" if near else f"choose one of {', '.join(TASKS)}"
        raise UsageError(f"`{name}`: no such task", hint)
    task: Task[Any, Any] = import_module(f"{__package__}.{name}").TASK
    return task


def sentences_of_text(paths: Sequence[str], text: InputSettings) -> Iterator[tuple[Tokens, str]]:
    """Yield the tokens of the sentences of text files that have any, and where they are."""
    for sentence in read_sentences(paths, text):
        if sentence.tokens:
            yield sentence.tokens, sentence.where
