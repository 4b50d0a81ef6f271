"""TrainSettings: how to train."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from elmo_cli.errors import UsageError

RATES = {"adagrad": 0.2, "adamw": 2.5e-3}  # of the original; from short runs

# What may change when a run is resumed, and leaves what was trained so far as it is.
FREE = frozenset(
    (
        "max_seconds",
        "max_steps",
        "max_epochs",
        "rate",
        "log_steps",
        "checkpoint_s",
        "look_steps",
        "patience",
        "keep_best",
        "precision",
        "dtype",
    )
)
PRECISIONS = ("float32", "bf16")
DTYPES = ("float32", "float16")
SHUFFLED = ("sentences", "documents")
_OPTIONS = {"checkpoint_s": "look_seconds"}  # where the command has another name for it
LIMITS = ("max_seconds", "max_steps", "max_epochs")


@dataclass(frozen=True)
class TrainSettings:
    """How to train; checked when it is made.

    A *step* is one change of the weights; a run ends at the first of its limits. A *look* is a
    checkpoint with a measurement on the held-out text.

    Attributes:
        rows: rows of the stream that are read side by side, in each direction and by each process.
        accumulate: windows in a step. Each has `rows` rows of its own, so that a step is that of
            `accumulate` times as many rows, computed in parts: it takes the memory of one.
        steps: tokens of a row in one window.
        shuffle: "sentences", as bilm-tf does, or "documents", whose sentences stay together.
        optimizer: "adamw", with warm-up and decay, or "adagrad", as bilm-tf has it.
        rate: learning rate; None for the usual one of the optimizer.
        warm_up_steps: steps in which AdamW's rate rises from zero.
        dropout: share of values dropped, where the originals do.
        clip: bound of the gradient's norm, counted for the loss times 20 as in the originals.
        negatives: types drawn for the sampled softmax.
        full_softmax: vocabularies of at most so many types are not sampled, nor are those of no
            more types than would be drawn.
        max_seconds: time for training, the last look and the export among it.
        max_steps: steps.
        max_epochs: times that the text is read, 1.5 being one and a half.
        patience: stop after so many looks in a row without a better held-out perplexity.
        keep_best: what is exported are the weights of the look with the best held-out perplexity,
            the one before the first window among them.
        precision: "float32", or "bf16": products in bfloat16; weights, cells and sums in float32.
        dtype: of the exported weights; float16 halves their files.
        seed: of all random numbers.
        log_steps: steps between two lines of the log.
        checkpoint_s: seconds between two looks, or where they go by steps two checkpoints.
        look_steps: steps between two looks, so that they do not depend on the machine; None where
            time decides.
    Raises:
        UsageError: a value that makes no sense, or no limit.
    """

    rows: int = 32
    accumulate: int = 1
    steps: int = 20
    shuffle: str = "sentences"
    optimizer: str = "adamw"
    rate: float | None = None
    warm_up_steps: int = 200
    dropout: float = 0.1
    clip: float = 10.0
    negatives: int = 2048
    full_softmax: int = 8192
    max_seconds: float | None = None
    max_steps: int | None = None
    max_epochs: float | None = None
    patience: int | None = None
    keep_best: bool = False
    precision: str = "float32"
    dtype: str = "float32"
    seed: int = 0
    log_steps: int = 100
    checkpoint_s: float = 600.0
    look_steps: int | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> TrainSettings:
        """The settings among named values, such as those of a command's options."""
        return cls(
            **{field.name: values[field.name] for field in fields(cls) if field.name in values}
        )

    def __post_init__(self) -> None:
        if all(getattr(self, name) is None for name in LIMITS):
            raise UsageError(
                "neither --max-seconds nor --max-steps or --max-epochs is given",
                "`--max-seconds 3600` trains for an hour",
            )
        for name, choices in (
            ("optimizer", tuple(RATES)),
            ("precision", PRECISIONS),
            ("shuffle", SHUFFLED),
            ("dtype", DTYPES),
        ):
            _check_choice(name, getattr(self, name), choices)
        for name in ("rate", "clip", "checkpoint_s", *LIMITS):
            _check_positive(name, getattr(self, name))
        for name in (
            "rows",
            "accumulate",
            "steps",
            "negatives",
            "log_steps",
            "look_steps",
            "patience",
        ):
            _check_at_least(name, getattr(self, name), 1)
        _check_at_least("warm_up_steps", self.warm_up_steps, 0)
        if not 0 <= self.dropout < 1:
            raise UsageError(
                f"--dropout: {self.dropout:g}, not a share from 0 to less than 1",
                "the originals have 0.1",
            )

    def samples(self, n_types: int) -> bool:
        """Whether the softmax of a vocabulary is sampled."""
        return n_types > max(self.full_softmax, self.negatives)

    def check_heldout(self, *, is_there: bool) -> None:
        """Refuse settings that need a held-out text where there is none.

        Raises:
            UsageError: `patience` or `keep_best` without one.
        """
        if not is_there and (self.patience or self.keep_best):
            name = "--patience" if self.patience else "--keep-best"
            raise UsageError(f"{name}: there is no held-out text", "`--heldout FILE` gives one")

    @property
    def peak_rate(self) -> float:
        """The learning rate before any schedule."""
        return RATES[self.optimizer] if self.rate is None else self.rate


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"{_option(name)}: no {value!r}", f"choose one of {', '.join(choices)}")


def _check_positive(name: str, value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise UsageError(
            f"{_option(name)}: {value}, not a positive number", "give one, or leave it out"
        )


def _check_at_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{_option(name)}: {value}, less than {least}", f"give {least} or more")


def _option(name: str) -> str:
    return "--" + _OPTIONS.get(name, name).replace("_", "-")
