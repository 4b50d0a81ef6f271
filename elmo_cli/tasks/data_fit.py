"""How well data files fit a task model and each other, as FitPoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from elmo_cli.fit import (
    ANSWERS_AT_TOKENS,
    EXAMPLES_TO_SCORE,
    KNOWN_LABELS,
    REPEATED_LABELS,
    TOKENS_WITH_WORD_VECTOR,
    FitPoint,
    repeated_in,
)
from elmo_cli.messages import shortened
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.task import Task
from elmo_cli.tasks.word_vectors import WordVectors
from elmo_cli.text.sentence import Tokens


def fit_of_training_data(
    task: Task, train: Split, dev: Split, words: WordVectors | None
) -> list[FitPoint]:
    """Return how train and dev fit each other and the word vectors.

    The labels of train must be those of the task. An InputError if dev cannot be scored.
    """
    points = list(_fit(task, [train, dev], dev, words))
    labels = FitPoint.count_repeated(REPEATED_LABELS, _all_labels(task, train))
    if labels.n_all:  # the task has labels
        points.append(labels)
    points.append(_repeated_examples(train, dev))
    return points


def fit_of_test_data(task: Task, test: Split, words: WordVectors | None) -> list[FitPoint]:
    """Return how test data fit a task model; an InputError if they cannot be scored."""
    return list(_fit(task, [test], test, words))


def _fit(
    task: Task, splits: Sequence[Split], scored: Split, words: WordVectors | None
) -> Iterator[FitPoint]:
    """Yield the points of all splits, and those of the one that is scored."""
    if words is not None:
        yield FitPoint.count(TOKENS_WITH_WORD_VECTOR, _tokens(splits, words))
    answers = FitPoint.count(ANSWERS_AT_TOKENS, _answers(task, splits))
    if answers.n_all:  # the task has answers
        yield answers
    examples = [example for example in scored.examples if task.is_labelled(example)]
    to_score = FitPoint(EXAMPLES_TO_SCORE, task.n_to_score(examples), len(examples))
    to_score.check(scored.path)
    yield to_score
    labels = FitPoint.count(KNOWN_LABELS, _labels(task, examples))
    if labels.n_all:  # the task has labels
        labels.check(scored.path)
        yield labels


def _tokens(splits: Iterable[Split], words: WordVectors) -> Iterator[tuple[str, bool]]:
    """Yield each token, and whether it has a word vector."""
    for split in splits:
        for tokens in split.sentences:
            yield from zip(tokens, words.has_vectors(tokens), strict=True)


def _answers(task: Task, splits: Iterable[Split]) -> Iterator[tuple[str, bool]]:
    """Yield each answer, and whether it begins and ends at tokens."""
    for split in splits:
        yield from task.answers_at_tokens(split)


def _labels(task: Task, examples: Iterable[Any]) -> Iterator[tuple[str, bool]]:
    """Yield each label that is scored, and whether the model knows it."""
    known = task.known_labels()
    for example in examples:
        for label in task.scored_labels_of(example):
            yield shortened(label), label in known


def _all_labels(task: Task, split: Split) -> Iterator[str]:
    for example in split.examples:
        yield from task.labels_of(example)


def _repeated_examples(train: Split, dev: Split) -> FitPoint:
    in_train = set(_contents(train))
    n_repeated = sum(content in in_train for content in _contents(dev))
    return FitPoint(repeated_in("dev"), n_repeated, len(dev.examples))


def _contents(split: Split) -> Iterator[tuple[Tokens, ...]]:
    """Yield the sentences of each example."""
    for example in split.examples:
        yield tuple(example.texts(split.sentences))
