"""Batches and optimizers of the training loop, and what identifies the data of a run."""

from __future__ import annotations

from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder
from elmo_cli.tasks.settings import TaskSettings
from elmo_cli.tasks.train import TaskData
from elmo_cli.tasks.trainer import _batches, _new_optimizer


def test_each_example_is_in_one_batch() -> None:
    """In another order in each epoch; 80 examples are sorted by length together."""
    lengths = np.random.default_rng(0).integers(1, 1000, 85).tolist()
    torch.manual_seed(0)
    batches = _batches(lengths, 2)
    assert sorted(chain.from_iterable(batches)) == list(range(85))
    assert sorted(map(len, batches)) == [1, *[2] * 42]
    assert _batches(lengths, 2) != batches


def test_the_examples_of_a_batch_have_similar_lengths() -> None:
    lengths = np.random.default_rng(0).integers(1, 1000, 120).tolist()
    torch.manual_seed(0)
    of_batches = [sorted(lengths[number] for number in batch) for batch in _batches(lengths, 3)]
    assert len(of_batches) == 40
    assert all(batch[-1] <= following[0] for batch, following in pairwise(sorted(of_batches)))
    assert of_batches != sorted(of_batches)


@pytest.mark.parametrize(
    ("name", "kind"), [("adam", torch.optim.Adam), ("adadelta", torch.optim.Adadelta)]
)
def test_the_optimizer_is_that_of_the_settings(
    name: str, kind: type[torch.optim.Optimizer]
) -> None:
    settings = TaskSettings(optimizer=name, learning_rate=0.5)
    optimizer = _new_optimizer(settings, [nn.Parameter(torch.zeros(1))])
    assert type(optimizer) is kind
    assert optimizer.param_groups[0]["lr"] == 0.5


def test_data_are_identified_by_the_content_of_each_file() -> None:
    for name in ("a", "b", "c"):
        Path(name).write_text(f"content of {name}")
    folder = EmbeddingsFolder("vectors")
    expected = {}
    for kind, name in (("train", "a"), ("dev", "b"), ("word_vectors", "c")):
        digest = sha256(f"content of {name}".encode()).hexdigest()
        expected[kind] = {"path": name, "sha256": digest}
    assert TaskData("a", "b", folder, "c").identity() == expected
    del expected["word_vectors"]
    assert TaskData("a", "b", folder).identity() == expected
