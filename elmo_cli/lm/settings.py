"""TrainSettings: how to train."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from elmo_cli.errors import UsageError

RATES = {"adagrad": 0.2, "adamw": 2.5e-3}  # of the original; from short runs
_FULL_SOFTMAX = 8192  # types up to which the full softmax is the default
_NEGATIVES = 2048

# What may change when a run is resumed, and leaves what was trained so far as it is.
FREE = frozenset(
    (
        "max_seconds",
        "max_steps",
        "max_epochs",
        "learning_rate",
        "log_steps",
        "eval_seconds",
        "eval_steps",
        "patience",
        "keep_best",
        "precision",
        "dtype",
    )
)
PRECISIONS = ("float32", "bf16")
DTYPES = ("float32", "float16")
SHUFFLED = ("sentences", "documents")
LIMITS = ("max_seconds", "max_steps", "max_epochs")


@dataclass(frozen=True)
class TrainSettings:
    """How to train; checked when it is made.

    A *step* is one weight update; a run ends at the first of its limits. An *evaluation* measures
    the perplexity of the held-out text and saves a checkpoint.

    Attributes:
        batch_size: streams of text that each process reads in parallel, in each direction.
        gradient_accumulation_steps: batches per weight update. Each has `batch_size` streams of its
            own, so that a step is that of as many times the streams, computed in parts: it takes
            the memory of one batch.
        bptt: length of truncated backpropagation through time, in tokens.
        shuffle: "sentences", as bilm-tf does, or "documents", whose sentences stay together.
        optimizer: "adamw", with warmup and decay, or "adagrad", as in bilm-tf.
        learning_rate: peak learning rate; None for the default of the optimizer.
        warmup_steps: steps in which AdamW's learning rate rises from zero.
        dropout: dropout probability, where the originals have it.
        max_grad_norm: maximum norm of the gradient, for the loss times 20 as in the originals.
        negative_samples: types sampled for the softmax; 0 for the full softmax; None for the full
            softmax of at most 8,192 types and 2,048 samples of more. The softmax of a vocabulary
            of no more types than would be sampled is full.
        max_seconds: time for training, the last evaluation and the export among it.
        max_steps: steps.
        max_epochs: how often the text is read, 1.5 being one and a half times.
        patience: stop after so many evaluations in a row without a better held-out perplexity.
        keep_best: export the weights of the evaluation with the best held-out perplexity, the one
            before the first batch included.
        precision: "float32", or "bf16": products in bfloat16; weights, cells and sums in float32.
        dtype: of the exported weights; float16 halves their files.
        seed: random seed.
        log_steps: steps between two lines of the log.
        eval_seconds: seconds between two evaluations, or with `eval_steps` two checkpoints.
        eval_steps: steps between two evaluations, so that they do not depend on the machine; None
            where time decides.
    Raises:
        UsageError: a value that makes no sense, or no limit.
    """

    batch_size: int = 32
    gradient_accumulation_steps: int = 1
    bptt: int = 20
    shuffle: str = "sentences"
    optimizer: str = "adamw"
    learning_rate: float | None = None
    warmup_steps: int = 200
    dropout: float = 0.1
    max_grad_norm: float = 10.0
    negative_samples: int | None = None
    max_seconds: float | None = None
    max_steps: int | None = None
    max_epochs: float | None = None
    patience: int | None = None
    keep_best: bool = False
    precision: str = "float32"
    dtype: str = "float32"
    seed: int = 0
    log_steps: int = 100
    eval_seconds: float = 600.0
    eval_steps: int | None = None

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
        for name in ("learning_rate", "max_grad_norm", "eval_seconds", *LIMITS):
            _check_positive(name, getattr(self, name))
        for name in (
            "batch_size",
            "gradient_accumulation_steps",
            "bptt",
            "log_steps",
            "eval_steps",
            "patience",
        ):
            _check_at_least(name, getattr(self, name), 1)
        for name in ("warmup_steps", "negative_samples"):
            _check_at_least(name, getattr(self, name), 0)
        if not 0 <= self.dropout < 1:
            raise UsageError(
                f"--dropout: {self.dropout:g}, not a probability from 0 to less than 1",
                "the originals have 0.1",
            )

    def n_negatives(self, n_types: int) -> int:
        """Number of types sampled for the softmax of a vocabulary; 0 for the full softmax."""
        n_sampled = self.negative_samples
        if n_sampled is None:
            n_sampled = 0 if n_types <= _FULL_SOFTMAX else _NEGATIVES
        return n_sampled if n_types > n_sampled else 0

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
        return RATES[self.optimizer] if self.learning_rate is None else self.learning_rate


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
    return "--" + name.replace("_", "-")
