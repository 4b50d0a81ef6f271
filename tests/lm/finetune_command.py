"""Runs of `elmo finetune` in tests: the command, and what is compared afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import Done, elmo
from tiny_run import log

from elmo_cli.lm.finetune import fit_softmax
from elmo_cli.lm.language_model import load_language_model

NOUNS = ["cat", "dog", "bird", "fish", "cow"]
VERBS = ["sees", "hears", "likes", "fears"]
N_TYPES = 14  # of the vocabulary of `source`, which lacks cows
_SHORT = ["--batch-size", "4", "--max-steps", "8", "--learning-rate", "0.02"]
_MACHINE = ["--threads", "1", "--device", "cpu"]
TOKENS = 8 * 4 * 20  # steps, streams, tokens of each
Facts = dict[str, Any]
Tune = Callable[..., Facts]


def command(domain: Path, model: Path, out: Path, *more: object) -> list[str]:
    """A short run; a later option replaces an earlier one."""
    paths = ["--domain", domain, "-m", model, "-o", out]
    words = ["finetune", *paths, "--json", *_SHORT, *_MACHINE, *more]
    return [str(word) for word in words]


@contextmanager
def short_fit() -> Iterator[None]:
    """The fit of a softmax ends after a few passes at a high learning rate, also in a fork."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit_softmax, "_MAX_PASSES", 3)
        patch.setattr(fit_softmax, "_LEARNING_RATE", 0.05)
        yield


def run(words: list[str]) -> Done:
    """Run a command with a short fit."""
    with short_fit():
        return elmo(*words)


def digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def is_same_model(folder: Path, other: Path) -> bool:
    """Whether biLM and softmax are equal, bit for bit."""
    parameters = []
    for path in (folder, other):
        model = load_language_model(path)
        parameters.append([*model.bilm.parameters(), *model.softmax.parameters()])
    return all(torch.equal(a, b) for a, b in zip(*parameters, strict=True))


def losses(folder: Path) -> list[tuple[int, float]]:
    """The log without times."""
    return [(line["step"], line.get("loss") or line["heldout"]["average"]) for line in log(folder)]
