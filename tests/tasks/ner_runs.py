"""Runs of task `ner` on the data of the fixture `folder`, without ELMo."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from elmo_cli.tasks.embeddings_folder import EmbeddingsFolder
from elmo_cli.tasks.task import load_task
from elmo_cli.tasks.train import TaskData, train_task
from elmo_cli.training.reporter import Reporter

_SETTINGS = {"hidden": 5, "char_filters": 4, "batch_size": 2, "elmo.layers": "none", "epochs": 5}


class StoppingReporter(Reporter):
    """A reporter that collects messages, and stops the run as Ctrl-C would after some epochs."""

    def __init__(self, n_epochs: int = 10**9) -> None:
        self.n_left = n_epochs
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def log_line(self, line: dict[str, Any]) -> None:
        self.n_left -= 1
        if not self.n_left:
            raise KeyboardInterrupt


def train_ner(
    output: str, *, mode: str = "new", reporter: Reporter | None = None, **settings: Any
) -> Any:
    """Train in a folder, and return the content of scores.json."""
    task = load_task("ner", {**_SETTINGS, **settings})
    data = TaskData("train.conll", "dev.conll", EmbeddingsFolder("vectors"))
    return train_task(task, data, output, reporter or StoppingReporter(), mode=mode)


def weights_of(folder: str) -> dict[str, torch.Tensor]:
    """The weights of the best epoch, by name."""
    weights: dict[str, torch.Tensor] = torch.load(Path(folder) / "model.pt", weights_only=True)
    return weights


def epochs_of(folder: str) -> list[dict[str, Any]]:
    """The lines of the log, without times."""
    lines = Path(folder, "log.jsonl").read_text().splitlines()
    return [{**json.loads(line), "seconds": 0} for line in lines]
