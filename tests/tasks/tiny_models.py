"""Task models of tiny sizes, with random word vectors and layers of a biLM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_cli.errors import ElmoError
from elmo_cli.tasks.data_files import read_data_file
from elmo_cli.tasks.inputs import Inputs, TokenRepresentation
from elmo_cli.tasks.readers import Split
from elmo_cli.tasks.settings import with_settings
from elmo_cli.tasks.task import Example, Task, TaskModel, load_task
from elmo_cli.tasks.word_vectors import WordVectors
from elmo_cli.text.input import InputSettings, read_sentences

N_LAYERS = 3
DIM = 6
SIZES = {"hidden": 8, "char_filters": 4, "elmo.projection": 5}


def read(task: str, path: str, text: str, *, labelled: bool = True, **settings: object) -> Split:
    """Write a data file and read it."""
    Path(path).write_text(text, encoding="utf-8")
    return read_data_file(load_task(task, settings), path, labelled=labelled)


def read_text(task: Task, path: str) -> Split:
    """Read a text as `elmo predict` does."""
    split = Split(path)
    for _ in task.fill_text(split, read_sentences(path, InputSettings())):
        pass
    return split


def assert_refused(task: str, path: str, text: str, words: str, **settings: object) -> None:
    """Assert that reading the file raises an error with these words, a regex, and a hint.

    The hint must not name the options `format` or `column`, which `elmo train` does not have.
    """
    with pytest.raises(ElmoError, match=words) as caught:
        read(task, path, text, **settings)
    assert caught.value.hint
    assert "`format=" not in caught.value.hint
    assert "`column" not in caught.value.hint


def build(task: Task, train: Split, **settings: object) -> tuple[TaskModel, Inputs]:
    """A model for the labels of a split, and the inputs of its sentences."""
    torch.manual_seed(0)
    random = np.random.default_rng(0)
    types = list(dict.fromkeys(word for tokens in train.sentences for word in tokens))
    words = WordVectors(types, random.normal(size=(len(types), 4)))
    layers = [random.normal(size=(N_LAYERS, len(s), DIM)).astype("f4") for s in train.sentences]
    chosen = with_settings(task.settings_class(), SIZES | settings)
    representation = TokenRepresentation(chosen, words.table(), N_LAYERS, DIM)
    task.labels = task.collect_labels(train)
    model = task.model_class(chosen, task.labels, representation)
    return model, Inputs(train.sentences, layers.__getitem__, words)


def train_on(
    model: TaskModel,
    examples: list[Example],
    inputs: Inputs,
    *,
    steps: int,
    learning_rate: float = 0.03,
    is_enough: Callable[[], bool] | None = None,
) -> None:
    """Take steps of Adam on all examples; the model is then in evaluation mode.

    Args:
        steps: the largest number of steps.
        is_enough: whether no more steps are needed; called after every tenth, in evaluation mode.
    """
    optimizer = torch.optim.Adam(model.parameters(), learning_rate)
    for step in range(steps):
        if is_enough is not None and step and step % 10 == 0:
            model.eval()
            if is_enough():
                return
        model.train()
        optimizer.zero_grad()
        model.loss(examples, inputs).backward()
        optimizer.step()
    model.eval()
