"""A tiny language with a tiny biLM to learn it, for tests of training."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.language_model import LanguageModel, load_language_model, new_bilm
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.step import TrainStep
from elmo_cli.model.options import Options
from elmo_cli.training.reporter import Reporter
from elmo_cli.training.run_folder import LOG_FILE, RunFolder

OPTIONS = Options(filters=((1, 8), (2, 8), (3, 16)), projection_dim=16, lstm_dim=32, char_dim=8)
NOUNS = ["cat", "dog", "bird", "fish"]
VERBS = ["sees", "hears", "likes", "fears"]
SENTENCES = [
    ["the", NOUNS[i % 4], VERBS[(i + j) % 4], "a", NOUNS[(i + 2 * j) % 4], "."]
    for i in range(4)
    for j in range(10)
]
SETTINGS = TrainSettings(batch_size=4, bptt=10, max_steps=12, learning_rate=0.01, log_steps=4)


class LogReporter(Reporter):
    """Calls a function with each line of the log."""

    def __init__(self, on_line: Callable[[dict[str, Any]], None]) -> None:
        self.log_line = on_line  # type: ignore[method-assign]


def new_model(
    corpus: Corpus, options: Options = OPTIONS, seed: int = 3, min_count: int = 1
) -> LanguageModel:
    """An untrained model whose vocabulary has all types of a text, or the frequent ones."""
    vocabulary = corpus.vocabulary(min_count=min_count)
    bilm, softmax = new_bilm(options, corpus.predicted_counts(vocabulary), seed=seed)
    return LanguageModel(bilm, softmax, vocabulary)


def trainer(
    folder: Path,
    settings: TrainSettings = SETTINGS,
    *,
    heldout: Corpus | None = None,
    **options: Any,
) -> Trainer:
    """A run at its start; without `heldout` it is evaluated on the text that it is trained on."""
    folder.mkdir(parents=True, exist_ok=True)
    corpus = Corpus.read(SENTENCES)
    model = new_model(corpus, replace(OPTIONS, **options))
    step = TrainStep(model, corpus, settings, ProcessGroup())
    return Trainer(step, heldout or corpus, RunFolder(folder, "pretrain"))


def weights(run: Trainer) -> list[torch.Tensor]:
    """Copies of the weights of biLM and softmax."""
    model = run.step.model
    parameters = (*model.bilm.parameters(), *model.softmax.parameters())
    return [parameter.detach().clone() for parameter in parameters]


def exported(run: Trainer) -> list[torch.Tensor]:
    """The weights in the folder of a run."""
    model = load_language_model(run.folder.path)
    parameters = (*model.bilm.parameters(), *model.softmax.parameters())
    return [parameter.detach() for parameter in parameters]


def equal(found: list[torch.Tensor], expected: list[torch.Tensor]) -> bool:
    """Whether weights agree bit by bit."""
    pairs = zip(found, expected, strict=True)
    return all(torch.equal(weight, expected_weight) for weight, expected_weight in pairs)


def log(folder: Path) -> list[dict[str, Any]]:
    """The lines of the log."""
    lines = (folder / LOG_FILE).read_text().splitlines()
    return [json.loads(line) for line in lines]


def losses(folder: Path) -> list[float]:
    """The losses in the log."""
    return [line["loss"] for line in log(folder) if "loss" in line]


def evaluations(folder: Path) -> list[tuple[int, float]]:
    """Step and average held-out perplexity of each evaluation."""
    return [(line["step"], line["heldout"]["average"]) for line in log(folder) if "heldout" in line]


def write_texts(folder: Path, n_lines: int) -> Path:
    """Write the same lines to text.txt and dev.txt; return the name of the former."""
    lines = [
        f"the cat number {i % 7} sees {'the dog ' * (i % 4)}and {i % 13} more .\n"
        for i in range(n_lines)
    ]
    for name in ("text.txt", "dev.txt"):
        (folder / name).write_text("".join(lines))
    return folder / "text.txt"
