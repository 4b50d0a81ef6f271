"""TrainSettings and TextSettings: the settings of language model training and of its text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from elmo_cli.errors import SettingError, UsageError
from elmo_cli.fields import MOST_SEED, at_least, bounded, check_fields, one_of, positive
from elmo_cli.text.input_settings import InputSettings

LEARNING_RATES = {"adamw": 2.5e-3, "adagrad": 0.2}  # chosen in short runs; that of bilm-tf
LIMITS = ("max_seconds", "max_steps", "max_epochs")
# Bounds of these limits: estimates divide by them, or multiply them by tokens and speeds.
_LEAST_LIMIT = 1e-9
_MOST_LIMIT = 10**15
_FULL_SOFTMAX = 8192  # number of types up to which the full softmax is the default
_NEGATIVE_SAMPLES = 2048
NOT_FIXED = (  # settings that a resumed run may change
    *LIMITS,
    "learning_rate",
    "patience",
    "precision",
    "log_steps",
    "eval_seconds",
    "eval_steps",
    "batch_size",  # the product of these two is fixed, see `checkpoint`
    "gradient_accumulation_steps",
)


def _limit() -> Any:
    """Declare a dataclass field with a limit of training in seconds or epochs, None by default."""
    allowed = f"a number from {_LEAST_LIMIT:g} to {_MOST_LIMIT:g}"
    return bounded(None, allowed, lambda value: _LEAST_LIMIT <= value <= _MOST_LIMIT)


@dataclass(frozen=True)
class TrainSettings:
    """Settings of training; a value out of bounds raises a SettingError.

    A *step* is one weight update; a run ends at the first of its limits. An *evaluation* measures
    the perplexity of the held-out text and saves a checkpoint and the model.

    Attributes:
        batch_size: streams of text that each process reads in parallel, in each direction.
        gradient_accumulation_steps: batches per weight update, each of `batch_size` other streams.
        bptt: length of truncated backpropagation through time, in tokens.
        shuffle: "sentences", as in bilm-tf, or "documents", whose sentences stay in order.
        optimizer: "adamw", with warmup and cosine decay, or "adagrad", as in bilm-tf.
        learning_rate: peak learning rate; None for the default of the optimizer.
        warmup_steps: steps in which the learning rate of AdamW rises from zero.
        dropout: dropout probability, applied where bilm-tf applies it.
        max_grad_norm: maximum norm of the gradient, for the loss summed over 20 tokens.
        negative_samples: types sampled for the softmax; 0 for the full softmax; None for the full
            softmax with up to 8,192 types and 2,048 samples with more.
        max_seconds: time for training, including the last evaluation.
        max_epochs: number of passes over the text, possibly fractional.
        patience: evaluations in a row without a better held-out perplexity before the run stops.
        keep_best: export the weights of the best evaluation, or the initial ones.
        precision: "float32", or "bf16" for matrix products in bfloat16.
        dtype: dtype of the exported weights.
        log_steps: steps between two lines of the log.
        eval_seconds: seconds between two evaluations; with `eval_steps`, between two checkpoints.
        eval_steps: steps between two evaluations; None to evaluate by time.
    """

    batch_size: int = at_least(1, 32)
    gradient_accumulation_steps: int = at_least(1, 1)
    bptt: int = at_least(1, 20)
    shuffle: str = one_of("sentences", "documents")
    optimizer: str = one_of("adamw", "adagrad")
    learning_rate: float | None = positive()
    warmup_steps: int = at_least(0, 200)
    dropout: float = bounded(0.1, "a number from 0 to below 1", lambda value: 0 <= value < 1)
    max_grad_norm: float = positive(10.0)
    negative_samples: int | None = at_least(0)
    max_seconds: float | None = _limit()
    max_steps: int | None = bounded(
        None, f"a number from 1 to {_MOST_LIMIT:g}", lambda value: 1 <= value <= _MOST_LIMIT
    )
    max_epochs: float | None = _limit()
    patience: int | None = at_least(1)
    keep_best: bool = False
    precision: str = one_of("float32", "bf16")
    dtype: str = one_of("float32", "float16")
    seed: int = bounded(0, f"a number from 0 to {MOST_SEED}", lambda value: 0 <= value <= MOST_SEED)
    log_steps: int = at_least(1, 100)
    eval_seconds: float = positive(600.0)
    eval_steps: int | None = at_least(1)

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, *, has_heldout: bool) -> None:
        """Check that training has a limit, and a held-out text if it needs one.

        Raises:
            UsageError: one of them is missing.
        """
        if self.max_seconds is None and self.max_steps is None and self.max_epochs is None:
            problem = "no limit is given: the training would never end"
            raise UsageError(problem, "`max_seconds=3600` trains for an hour")
        if has_heldout:
            return
        if self.patience is not None:
            raise SettingError("patience", "there is no held-out text", "`heldout` names one")
        if self.keep_best:
            raise SettingError("keep_best", "there is no held-out text", "`heldout` names one")

    def n_negatives(self, n_types: int) -> int:
        """Return the number of types to sample for the softmax; 0 for the full softmax."""
        n_sampled = self.negative_samples
        if n_sampled is None:
            n_sampled = 0 if n_types <= _FULL_SOFTMAX else _NEGATIVE_SAMPLES
        return n_sampled if n_sampled < n_types else 0

    @property
    def peak_rate(self) -> float:
        """The learning rate before any schedule."""
        return self.learning_rate or LEARNING_RATES[self.optimizer]

    @property
    def n_streams(self) -> int:
        """Number of streams that each process reads in a step."""
        return self.batch_size * self.gradient_accumulation_steps

    def fixed(self) -> dict[str, Any]:
        """Return the settings that a resumed run may not change."""
        return {name: value for name, value in vars(self).items() if name not in NOT_FIXED}


@dataclass(frozen=True)
class TextSettings:
    """Settings of the text files that a run reads.

    Attributes:
        texts: files to train on, except those that are also in `heldout`.
        heldout: files that are used only for evaluation.
        train_tokens_per_file, heldout_tokens_per_file: number of tokens to read from each file;
            the last sentence is read to its end.
    """

    texts: tuple[str, ...] = ()
    heldout: tuple[str, ...] = ()
    reading: InputSettings = field(default_factory=InputSettings)
    train_tokens_per_file: int | None = at_least(1)
    heldout_tokens_per_file: int | None = at_least(1)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.heldout_tokens_per_file and not self.heldout:
            raise SettingError(
                "heldout_tokens_per_file", "there is no held-out text", "`heldout` names one"
            )
