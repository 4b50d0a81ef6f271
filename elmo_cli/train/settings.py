"""TrainSettings: how to train."""

from __future__ import annotations

from dataclasses import dataclass

from elmo_cli.errors import UsageError

RATES = {"adagrad": 0.2, "adamw": 2.5e-3}  # of the original; from short runs


@dataclass(frozen=True)
class TrainSettings:
    """How to train; checked when it is made.

    Attributes:
        rows: rows of the stream in each direction.
        steps: tokens of a row in one window.
        optimizer: "adamw", with warm-up and decay, or "adagrad", as bilm-tf has it.
        rate: learning rate; None for the usual one of the optimizer.
        dropout: share of values dropped, where the originals do.
        clip: bound of the gradient's norm, counted for the loss times 20 as in the originals.
        negatives: types drawn for the sampled softmax.
        full_softmax: vocabularies of at most so many types are not sampled.
        max_seconds: time for training, with all checkpoints but the last; None for no limit.
        max_steps: windows; None for no limit.
        seed: of all random numbers.
        log_steps: windows between two lines of the log.
        checkpoint_s: seconds between two checkpoints, each with a look at the held-out text.
    Raises:
        UsageError: a value that makes no sense, or neither limit.
    """

    rows: int = 32
    steps: int = 20
    optimizer: str = "adamw"
    rate: float | None = None
    dropout: float = 0.1
    clip: float = 10.0
    negatives: int = 2048
    full_softmax: int = 8192
    max_seconds: float | None = None
    max_steps: int | None = None
    seed: int = 0
    log_steps: int = 100
    checkpoint_s: float = 600.0

    def __post_init__(self) -> None:
        if self.max_seconds is None and self.max_steps is None:
            raise UsageError(
                "pretrain: neither --max-seconds nor --max-steps is given",
                "`--max-seconds 3600` trains for an hour",
            )
        if self.optimizer not in RATES:
            raise UsageError(
                f"--optimizer: no {self.optimizer!r}", f"choose one of {', '.join(RATES)}"
            )
        if self.rate is not None and not 0 < self.rate < float("inf"):
            raise UsageError(
                f"--rate: {self.rate}, not a positive number",
                f"leave it out for {RATES[self.optimizer]:g}",
            )

    @property
    def peak_rate(self) -> float:
        """The learning rate before any schedule."""
        return RATES[self.optimizer] if self.rate is None else self.rate
