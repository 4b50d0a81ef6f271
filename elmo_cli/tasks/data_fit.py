"""How well data files fit a task model and each other, as FitPoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from elmo_cli.fit import (
    ANSWERS_AT_TOKENS,
    EXAMPLES_TO_SCORE,
    KNOWN_LABELS,
    REPEATED_EXAMPLES,
    TOKENS_WITH_WORD_VECTOR,
    FitPoint,
)
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
        yield _tokens_with_word_vector(splits, words)
    yield from _answers_at_tokens(task, splits)
    examples = [example for example in scored.examples if task.is_labelled(example)]
    points = [
        FitPoint(EXAMPLES_TO_SCORE, task.n_to_score(examples), len(examples)),
        *_known_labels(task, examples),
    ]
    for point in points:
        point.check(scored.path)
    yield from points


def _answers_at_tokens(task: Task, splits: Iterable[Split]) -> Iterator[FitPoint]:
    """Yield how many answers begin and end at tokens, unless the task has no answers."""
    n_answers = 0
    n_fitting = 0
    first = ""
    for split in splits:
        for misplaced in task.answers_at_tokens(split):
            n_answers += 1
            if not misplaced:
                n_fitting += 1
            elif not first:
                first = misplaced
    if n_answers:
        yield FitPoint(ANSWERS_AT_TOKENS, n_fitting, n_answers, first)


def _tokens_with_word_vector(splits: Sequence[Split], words: WordVectors) -> FitPoint:
    n_tokens = 0
    n_fitting = 0
    first = ""
    for split in splits:
        for tokens in split.sentences:
            n_tokens += len(tokens)
            has_vector = words.has_vectors(tokens)
            n_fitting += sum(has_vector)
            if not first and not all(has_vector):
                first = tokens[has_vector.index(False)]
    return FitPoint(TOKENS_WITH_WORD_VECTOR, n_fitting, n_tokens, first)


def _known_labels(task: Task, examples: Iterable[Any]) -> Iterator[FitPoint]:
    """Yield how many labels the model knows, unless the task has no labels."""
    known = task.known_labels()
    n_labels = 0
    n_known = 0
    first = ""
    for example in examples:
        for label in task.scored_labels_of(example):
            n_labels += 1
            if label in known:
                n_known += 1
            elif not first:
                first = label
    if n_labels:
        yield FitPoint(KNOWN_LABELS, n_known, n_labels, first)


def _repeated_examples(train: Split, dev: Split) -> FitPoint:
    in_train = set(_contents(train))
    n_repeated = sum(content in in_train for content in _contents(dev))
    return FitPoint(REPEATED_EXAMPLES, n_repeated, len(dev.examples))


def _contents(split: Split) -> Iterator[tuple[Tokens, ...]]:
    """Yield the sentences of each example."""
    for example in split.examples:
        yield tuple(example.texts(split.sentences))
