"""Task: the interface of a task, with its examples, data splits, models and scores."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

from torch import Tensor, nn

from elmo_cli.errors import InputError, UsageError
from elmo_cli.tasks.inputs import Inputs, SentenceBatch, TokenRepresentation
from elmo_cli.tasks.label_names import check_names
from elmo_cli.tasks.layers import BiLSTM, SequenceDropout
from elmo_cli.tasks.readers import NO_TOKENS, Split
from elmo_cli.tasks.settings import TASKS, TaskSettings, suggest, suggest_task, with_settings
from elmo_cli.text.sentence import OtherLine, Sentence, Tokens

Json = dict[str, Any]  # an object, as `json.dumps` takes it


@dataclass(frozen=True)
class Example:
    """An input of a prediction, and what should be predicted. Tasks may add fields.

    Attributes:
        sentences: indices into `Split.sentences`; `NO_TOKENS` for a sentence without tokens.
        where: its file and line, for messages.
        target: what the model should predict, such as a label; None where it is unknown.
        key: zero-based number of its row, as the keys of embeddings files are counted.
        other_lines: lines of columns that are not tokens, as in `Sentence`.
    """

    sentences: tuple[int, ...]
    where: str
    target: Any
    key: int = field(default=0, kw_only=True)
    other_lines: tuple[OtherLine, ...] = field(default=(), kw_only=True)

    @property
    def is_blank(self) -> bool:
        """Whether a sentence has no tokens, so that nothing can be predicted."""
        return NO_TOKENS in self.sentences

    def n_tokens(self, sentences: Sequence[Tokens]) -> int:
        """Return the total number of tokens in its sentences, given those of the split."""
        return sum(len(sentences[number]) for number in self.sentences if number != NO_TOKENS)

    def texts(self, sentences: Sequence[Tokens]) -> list[Tokens]:
        """Return the tokens of its sentences, given those of the split."""
        return [() if number == NO_TOKENS else sentences[number] for number in self.sentences]


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
    """A task: the rows of its data files, its model, its scores and the format of its predictions.

    Attributes:
        name: name of the task, as in `elmo train NAME`.
        presets: name -> changes of the default settings, NAME=VALUE separated by spaces.
        formats: output formats of predictions; the first is the default.
        reads_text: whether `elmo predict` reads text with `fill_text`.
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
        return f"docs/reference/data-formats.md describes the data format of {self.name}"

    def no_label_problem(self, split: Split) -> str:
        """Return what is missing in a data file in which no example has a label."""
        return "no example has a label"

    def no_label_hint(self, split: Split) -> str:
        """Return the hint for a data file in which no example has a label."""
        return self.format_hint

    @abstractmethod
    def fill(self, split: Split, *, labelled: bool) -> Iterator[None]:
        """Add the sentences and examples of each row of `split.path`; yield after each row.

        The caller may cut the split between rows, or take rows out of it. A row that is read inside
        of `Split.row` is left out if it is invalid and `split.on_error` is "skip".

        Args:
            labelled: require targets.
        Raises:
            ValueError, KeyError, TypeError, AttributeError: the data at `split.where` are invalid.
        """

    def fill_text(self, split: Split, sentences: Iterable[Sentence]) -> Iterator[None]:
        """Add the sentences of a text as examples, one by one; yield after each, as `fill`."""
        for sentence in sentences:
            example = Example(
                sentences=split.add(sentence.tokens, allow_blank=True),
                where=sentence.where,
                target=None,
                key=sentence.key,
                other_lines=sentence.other_lines,
            )
            split.examples.append(example)
            yield

    def labels_of(self, example: Any) -> Iterable[str]:
        """Return the labels of an example, which a model must know to learn it."""
        return ()

    def scored_labels_of(self, example: Any) -> Iterable[str]:
        """Return the labels of an example that are scored, by default all."""
        return self.labels_of(example)

    def collect_labels(self, train: Split) -> Any:
        """Return what the model must know about the training data, by default the label names.

        The result is plain JSON. InputError if the data are unsuitable for training.
        """
        names = sorted({label for example in train.examples for label in self.labels_of(example)})
        if len(names) < 2:
            problem = f"fewer than two labels ({', '.join(names) or 'none'})"
            hint = "train on examples with at least two labels"
            raise InputError(problem, hint, where=train.path)
        return names

    def warnings(self, train: Split) -> Iterator[str]:
        """Yield warnings about training data that can be used, once their labels are collected."""
        yield from ()

    def known_labels(self) -> Collection[str]:
        """Return the labels that the model knows, as `labels_of` names them."""
        return set(self.labels or ())

    def is_labelled(self, example: Any) -> bool:
        """Whether an example has a target that can be scored."""
        return example.target is not None

    def is_learnable(self, example: Any) -> bool:
        """Whether the model has a loss for an example; it may lack labels of dev."""
        if not self.is_labelled(example):
            return False
        known = self.known_labels()
        return all(label in known for label in self.labels_of(example))

    def training_problem(self, example: Any) -> str:
        """Return what is wrong with a training example, though it can be scored; "" for nothing."""
        return ""

    def answers_at_tokens(self, split: Split) -> Iterator[tuple[str, bool]]:
        """Yield the text of each answer, and whether it begins and ends at tokens."""
        yield from ()

    def n_to_score(self, examples: Sequence[Any]) -> int:
        """Return how many examples can show whether a model has learned something.

        InputError for an example that cannot be scored: training does not start then.
        """
        return sum(self.is_labelled(example) for example in examples)

    def check_model_labels(self, labels: Any) -> None:
        """Raise a ValueError for labels that `collect_labels` cannot have returned.

        The labels of a model that is loaded may come from anywhere.
        """
        check_names(labels)

    @abstractmethod
    def score(self, examples: Sequence[Any], predictions: Sequence[Any]) -> Scores:
        """Score predictions against the targets of the examples."""

    def to_json(self, example: Any, sentences: list[Tokens], prediction: Any) -> Json:
        """Return a prediction as a JSON object, given the sentences of its example.

        The prediction is None if the example is blank.
        """
        raise NotImplementedError

    def to_text(self, example: Any, sentences: list[Tokens], prediction: Any) -> str:
        """Return a prediction in the format that is not JSON Lines, if the task has one."""
        raise NotImplementedError

    def format_lines(
        self, split: Split, predictions: Sequence[Any], output_format: str
    ) -> Iterator[str]:
        """Yield the lines of a part of a file of predictions in one of `formats`."""
        for example, prediction in zip(split.examples, predictions, strict=True):
            sentences = example.texts(split.sentences)
            if output_format == "jsonl":
                line = {"key": example.key, **self.to_json(example, sentences, prediction)}
                yield json.dumps(line, ensure_ascii=False) + "\n"
            else:
                yield self.to_text(example, sentences, prediction) + "\n"

    def format_file(
        self, parts: Iterable[tuple[Split, Sequence[Any]]], output_format: str
    ) -> Iterator[Iterable[str]]:
        """Yield the lines of each part of a file of predictions, in order."""
        for split, predictions in parts:
            yield self.format_lines(split, predictions, output_format)


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
        raise UsageError("no such task", suggest_task(name), where=repr(name))
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
