"""The outcome of a fine-tuning run, and the record of it that a resumed run reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from elmo_cli.errors import ResumeError
from elmo_cli.files import write_text
from elmo_cli.lm.perplexity import Perplexity
from elmo_cli.messages import shorten_list
from elmo_cli.regular_files import read_json
from elmo_cli.training.tensors import as_resume_error

START_OVER = "`overwrite=True` starts over"
DIRECTIONS = ("forward", "backward", "average")
Figures = dict[str, Any]


def figures_of(measured: Perplexity) -> Figures:
    """Return `perplexity` ("forward", "backward", "average"), `bits_per_byte` (and "spelling") and
    the `text` that they were measured on, see `Domain`."""
    return {
        "perplexity": {name: getattr(measured, name) for name in DIRECTIONS},
        "bits_per_byte": asdict(measured.bits_per_byte),
        "text": "test",
    }


@dataclass(frozen=True, kw_only=True)
class FinetuneResult:
    """The outcome of fine-tuning; figures are those of `figures_of`.

    Attributes:
        model, output: name of the source model, and folder of the fine-tuned one.
        softmax: "model", the model's own softmax, or "fitted".
        before: the frozen biLM with this softmax, on the test text.
        before_model_softmax: the frozen biLM with its own softmax, if another one was fitted.
        after: the model in `output`, on the same text with the same vocabulary.
        chosen: `step` whose weights are in `output` (0 for the source model), the average
            `perplexity` that chose it, and the `text` that this was measured on.
        unknown_fraction: fraction of the tokens of the test text that are not in the vocabulary.
        vocabulary: number of `types`, and `source`.
        heldout: what was measured, as of `Domain.describe`.
        tokens, epochs: trained on in each direction, without those of the fit.
        learning_rate: the peak.
        seconds: of training, its evaluations included, summed over all parts of the run.
        improved: whether a step was chosen; else `output` contains the source model. None if no
            step was made.
    """

    model: str
    output: str
    softmax: str
    before: Figures
    before_model_softmax: Figures | None
    after: Figures
    chosen: dict[str, Any]
    unknown_fraction: float
    vocabulary: dict[str, Any]
    heldout: dict[str, Any]
    tokens: int
    epochs: float
    learning_rate: float
    seconds: float
    improved: bool | None

    @property
    def ratio(self) -> float:
        """The average perplexity after divided by the one before."""
        after: float = self.after["perplexity"]["average"]
        before: float = self.before["perplexity"]["average"]
        return after / before


@dataclass(kw_only=True)
class FinetuneRecord:
    """The contents of finetune.json.

    Attributes:
        run: what a resumed run must agree with: model, text, softmax, and settings.
        train: files to train on.
        before, before_model_softmax, unknown_fraction, result: as in `FinetuneResult`, once known.
    """

    run: dict[str, Any]
    train: list[str]
    unknown_fraction: float = 0.0
    before: Figures | None = None
    before_model_softmax: Figures | None = None
    result: dict[str, Any] | None = None

    @classmethod
    def read(cls, path: Path) -> FinetuneRecord:
        """Read the record of a run to resume; a ResumeError if it is not one of this version."""
        with as_resume_error(path):
            content = read_json(path, ResumeError, START_OVER)
            known = {field.name for field in fields(cls)}
            unknown = sorted(content.keys() - known)
            if unknown:
                raise ResumeError(
                    f"written by another version of elmo, with {shorten_list(unknown)}",
                    f"resume the run with that version; {START_OVER}",
                    where=path,
                )
            record = cls(**content)
            if not isinstance(record.run, dict) or not isinstance(record.train, list):
                raise ValueError("run is not an object, or train is not a list")
            return record

    def write(self, path: Path) -> None:
        """Replace the file; raises OutputError."""
        write_text(path, [json.dumps(asdict(self), indent=2), "\n"], durable=True)

    def check_same(self, facts: Mapping[str, Any], path: Path) -> None:
        """Raise a ResumeError if the run started with something else."""
        for name, now in facts.items():
            before = self.run.get(name)
            if before != now:
                raise ResumeError(
                    f"the run started with {name} {before}, now {now}",
                    f"use the same model, text and settings, or {START_OVER}",
                    where=path,
                )
