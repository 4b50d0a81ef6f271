"""A tiny language with a tiny biLM to learn it, for tests of training."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.initialize import new_bilm
from elmo_cli.lm.log import FILE_NAME
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.options import Options

OPTIONS = Options(filters=((1, 8), (2, 8), (3, 16)), projection_dim=16, lstm_dim=32, char_dim=8)
NOUNS, VERBS = ["cat", "dog", "bird", "fish"], ["sees", "hears", "likes", "fears"]
SENTENCES = [
    ["the", NOUNS[i % 4], VERBS[(i + j) % 4], "a", NOUNS[(i + 2 * j) % 4], "."]
    for i in range(4)
    for j in range(10)
]
SETTINGS = TrainSettings(batch_size=4, bptt=10, max_steps=12, learning_rate=0.01, log_steps=4)


def trainer(
    folder: Path,
    settings: TrainSettings = SETTINGS,
    *,
    heldout: Corpus | None = None,
    **options: Any,
) -> Trainer:
    """A run at its start; its text is the held-out text too where none is given."""
    corpus = Corpus.read(SENTENCES)
    vocabulary = corpus.vocabulary()
    counts = corpus.predicted_counts(vocabulary)
    bilm, head = new_bilm(replace(OPTIONS, **options), counts, seed=3)
    return Trainer(bilm, head, vocabulary, corpus, heldout or corpus, settings, folder)


def weights(trained: Trainer) -> list[torch.Tensor]:
    """Of biLM and softmax."""
    return [*trained.bilm.parameters(), *trained.head.parameters()]


def log(folder: Path) -> list[dict[str, Any]]:
    """The lines of the log."""
    return [json.loads(line) for line in (folder / FILE_NAME).read_text().splitlines()]
