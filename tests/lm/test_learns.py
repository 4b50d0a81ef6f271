"""Training learns from text, and nothing from shuffled words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_run import new_model

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.run_folder import RunFolder
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.model.options import Options
from elmo_cli.text.vocabulary import Vocabulary

OPTIONS = Options(filters=((1, 16), (2, 32), (3, 64)), projection_dim=32, lstm_dim=64, char_dim=16)
Lines = list[list[str]]


@pytest.fixture(scope="module")
def lines(golden: Path) -> Lines:
    text = (golden / "novel.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines()]


def unigram(vocabulary: Vocabulary, train: Corpus, heldout: Corpus) -> float:
    """Held-out perplexity of the type frequencies of both texts: a lower bound without context."""
    counts = heldout.predicted_counts(vocabulary)
    frequencies = train.predicted_counts(vocabulary) + counts
    logs = np.log(np.maximum(frequencies, 1) / frequencies.sum())
    return float(np.exp(-(counts * logs).sum() / counts.sum()))


def shuffled(lines: Lines) -> Lines:
    """All tokens and all ends of sentences in random order."""
    symbols = [symbol for line in lines for symbol in (*line, "\n")]
    order = np.random.default_rng(0).permutation(len(symbols))
    return [line.split() for line in " ".join(symbols[k] for k in order).split("\n")]


@pytest.mark.parametrize(("change", "least", "most"), [(shuffled, 1.0, 1.1), (list, 0.1, 0.9)])
def test_shuffled_words_teach_only_type_frequencies(
    change: type, least: float, most: float, lines: Lines, tmp_path: Path
) -> None:
    """A direction that reads what it predicts would do better; real text teaches more."""
    changed = change(lines)
    train, heldout = Corpus.read(changed[:230]), Corpus.read(changed[230:])
    model = new_model(train, OPTIONS, seed=0, min_count=2)
    ends = {"max_steps": 100, "eval_steps": 50, "keep_best": True}
    settings = TrainSettings(batch_size=4, learning_rate=0.01, warmup_steps=10, **ends)
    step = TrainStep(model, train, settings, ProcessGroup())
    trainer = Trainer(step, heldout, RunFolder(tmp_path, "pretrain"))
    trainer.train()
    ratio = trainer.progress.best / unigram(model.vocabulary, train, heldout)
    assert least < ratio < most
