"""What fine-tuning is asked to do, and what comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from elmo_cli.errors import UsageError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.perplexity import BitsPerByte, Perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.source_model import SourceModel, SourceNames
from elmo_cli.text.input import InputSettings

# Of short runs. The originals' Adagrad with 0.2 goes on with the sums of squared gradients of the
# whole pretraining, which no weight file holds; with new sums 0.2 would undo what was learned.
RATES = {"adamw": 1e-3, "adagrad": 0.05}

_LOOKS_AN_EPOCH = 10
_FEWEST_STEPS = 25  # between two looks
_MOST_WARM_UP = 200


@dataclass(frozen=True)
class FinetuneJob:
    """What to fine-tune, on what, and how.

    Attributes:
        domain: folders and files of text.
        output: folder of the model that is made.
        settings: of training; `suited` says what becomes of them.
        heldout: files of text that is only measured; a share of the domain is set apart without.
        source: the model that is fine-tuned.
        fit_head: fit a softmax to the frozen biLM also where the model has one.
        head_tokens: of the domain that a softmax is fitted on, at most.
        max_types, min_count: of a vocabulary that has to be counted in the domain.
        reading: how texts are read.
        device: that computes.
        resume: go on with the run in `output`.
        overwrite: begin anew where `output` holds a run.
        named: fields that a user has named, which `check` refuses where they decide nothing.
    """

    domain: Sequence[str]
    output: Path
    settings: TrainSettings
    heldout: Sequence[str] = ()
    source: SourceNames = field(default_factory=SourceNames)
    fit_head: bool = False
    head_tokens: int = 300_000
    max_types: int | None = 25_000
    min_count: int = 2
    reading: InputSettings | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    resume: bool = False
    overwrite: bool = False
    named: frozenset[str] = frozenset()

    def check(self, source: SourceModel) -> None:
        """Refuse what is named and decides nothing with this model.

        Raises:
            UsageError: bounds of a vocabulary that is not counted, or of a fit that is not made.
        """
        for name, option in (("max_types", "--vocabulary-size"), ("min_count", "--min-count")):
            if name in self.named and source.vocabulary is not None:
                whose = self.source.vocabulary or "the model"
                raise UsageError(
                    f"{option}: has no meaning, as the types are those of {whose}", "leave it out"
                )
        if "head_tokens" in self.named and source.head is not None and not self.fit_head:
            raise UsageError(
                "--softmax-tokens: has no meaning with the softmax of the model",
                "leave it out, or `--fit-softmax` fits a new one",
            )


def suited(settings: TrainSettings, corpus: Corpus) -> TrainSettings:
    """Settings for going on with a trained model: a lower rate, looks by steps, the best kept.

    An epoch has ten looks, or fewer where they would be less than 25 steps apart, and at least one.
    They go by steps, so that a run that was stopped looks where an undisturbed one does. The rate
    rises in a twentieth of an epoch at most.
    """
    a_step = settings.batch_size * settings.bptt * settings.gradient_accumulation_steps
    n_steps = (corpus.n_tokens + corpus.n_sentences) // a_step
    between_looks = max(n_steps // _LOOKS_AN_EPOCH, min(_FEWEST_STEPS, n_steps), 1)
    return replace(
        settings,
        learning_rate=(
            RATES[settings.optimizer] if settings.learning_rate is None else settings.learning_rate
        ),
        warmup_steps=min(_MOST_WARM_UP, n_steps // 20 + 1),
        keep_best=True,
        eval_steps=settings.eval_steps or between_looks,
    )


@dataclass(frozen=True)
class Figures:
    """What a model was measured to be worth on the held-out text.

    Attributes:
        perplexity: "forward", "backward" and "average".
        bits_per_byte: the same, and "spelling".
    """

    perplexity: dict[str, float]
    bits_per_byte: dict[str, float]

    @classmethod
    def of(cls, measured: Perplexity) -> Figures:
        """The figures of a measurement."""
        bits: BitsPerByte = measured.bits_per_byte
        directions = ("forward", "backward", "average")
        return cls({name: getattr(measured, name) for name in directions}, asdict(bits))


@dataclass(frozen=True)
class FineTuned:
    """What came of fine-tuning.

    Attributes:
        model: name of the source model.
        output: folder of the fine-tuned one.
        softmax: "model", the model's own softmax, or "fitted".
        before: the frozen biLM with that softmax, on the whole held-out text.
        before_model_softmax: the frozen biLM with its own softmax, where another one was fitted.
        after: the model in `output`, on the same text with the same vocabulary.
        unknown_fraction: fraction of the held-out tokens that the vocabulary lacks.
        vocabulary: `types`, their number, and `source`, where it was taken from.
        heldout: `source`, `tokens`, `sentences`, and `overlap`, the fraction of its sentences that
            are in the training text too.
        tokens: trained on in each direction; those of a fit are not among them.
        epochs: times that the training text was read.
        seconds: of fitting, training and measuring, which the time limit is of; an earlier part of
            the run counts up to its last checkpoint.
        improved: False where nothing was gained, and `output` holds the source model as it was.
    """

    model: str
    output: str
    softmax: str
    before: Figures
    before_model_softmax: Figures | None
    after: Figures
    unknown_fraction: float
    vocabulary: dict[str, Any]
    heldout: dict[str, Any]
    tokens: int
    epochs: float
    seconds: float
    improved: bool

    @property
    def ratio(self) -> float:
        """The average perplexity after, as a share of the one before."""
        return self.after.perplexity["average"] / self.before.perplexity["average"]

    def as_object(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)
