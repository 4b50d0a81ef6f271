"""FinetuneJob: what to fine-tune, on what and how; its source model, its plan, its settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from elmo_cli.errors import SettingError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.language_model import load_language_model, refuse_unicode, softmax_of
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.messages import plural
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.pretrained.load import ModelSource, load_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.input import InputSettings
from elmo_cli.text.vocabulary import Vocabulary

# From short runs. bilm-tf continues Adagrad at 0.2 with its sums of squared gradients, which only a
# checkpoint contains; with new sums 0.2 would undo what the model has learned.
LEARNING_RATES = {"adamw": 1e-3, "adagrad": 0.05}
_CONTINUED_RATE = 0.2  # of Adagrad, with the sums of a checkpoint
SOFTMAX_TOKENS = 300_000  # that a softmax is fitted on
_FULL_RATE_STEPS = 1000  # in fewer steps AdamW at the full rate spoils the model for other text
_EVALUATIONS_PER_EPOCH = 10
_EVALUATIONS_IN_TIME = 4  # within `max_seconds`, where a tenth of an epoch takes longer
_MIN_STEPS = 25  # between two evaluations
_MAX_WARMUP = 200


@dataclass(frozen=True)
class FinetuneJob:
    """What to fine-tune, on what, and how.

    Attributes:
        domain, heldout: see `find_texts`.
        output: folder of the new model.
        settings: of training; see `finetune_settings`.
        model, softmax, vocabulary: see `load_language_model`; a missing softmax is fitted, and a
            missing vocabulary is counted in the domain.
        fit_softmax: fit a softmax to the frozen biLM even if the model has one.
        softmax_tokens: maximum number of tokens to fit it on; None for 300,000.
        vocabulary_size, min_count: limits of a counted vocabulary; None for 25,000 and 2.
        mode: as of `RunFolder.open`.
    """

    domain: Sequence[str]
    output: Path
    settings: TrainSettings
    heldout: Sequence[str] = ()
    model: ModelSource = field(default_factory=ModelSource)
    softmax: str | None = None
    vocabulary: str | None = None
    fit_softmax: bool = False
    softmax_tokens: int | None = None
    vocabulary_size: int | None = None
    min_count: int | None = None
    reading: InputSettings = field(default_factory=InputSettings)
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    mode: str = "new"


@dataclass(frozen=True, kw_only=True)
class Source:
    """The model to fine-tune, without its softmax if another vocabulary is to be predicted."""

    files: ModelFiles
    bilm: BiLM
    softmax: NextTokenSoftmax | None
    vocabulary: Vocabulary | None
    warning: str = ""

    def continues_adagrad(self, job: FinetuneJob) -> bool:
        """Whether the run continues with the accumulators of Adagrad in the files of the model.

        They belong to the softmax layer of the model, so it must be used.
        """
        has_own_softmax = self.softmax is not None and job.softmax is None and not job.fit_softmax
        if not has_own_softmax or job.settings.optimizer != "adagrad":
            return False
        with self.files.open() as model:
            return model.optimizer == "adagrad"


def load_source(job: FinetuneJob, files: ModelFiles) -> Source:
    """Load the model of `files`; raises a SettingError for a setting without effect."""
    refuse_unicode(files)
    softmax = job.softmax or softmax_of(files)
    vocabulary = job.vocabulary or files.vocabulary
    predicts_other_types = (
        job.fit_softmax and job.softmax is None and (job.vocabulary or not vocabulary)
    )
    if softmax is not None and not predicts_other_types:
        model = load_language_model(files, softmax=job.softmax, vocabulary=job.vocabulary)
        source = Source(
            files=files,
            bilm=model.bilm,
            softmax=model.softmax,
            vocabulary=model.vocabulary,
            warning=model.warning,
        )
    else:
        types = None if vocabulary is None else Vocabulary.read(Path(vocabulary))
        source = Source(files=files, bilm=load_files(files), softmax=None, vocabulary=types)
    _refuse_without_effect(job, source)
    return source


def _refuse_without_effect(job: FinetuneJob, source: Source) -> None:
    """Raise a SettingError for a setting of a fit or a count that will not take place."""
    problems: dict[str, str] = {}
    if source.vocabulary is not None:
        known = f"the vocabulary is that of {job.vocabulary or 'the model'}"
        problems["vocabulary_size"] = known
        problems["min_count"] = known
    if source.softmax is not None and not job.fit_softmax:
        problems["softmax_tokens"] = "no softmax is fitted without `fit_softmax`"
    for name, problem in problems.items():
        if getattr(job, name) is not None:
            raise SettingError(name, f"has no effect, because {problem}", "leave it out")


def describe_plan(job: FinetuneJob, source: Source, *, is_measured: bool) -> str:
    """Name the phases of a run, and what ends the training and the fit of a softmax.

    Args:
        is_measured: a part of the run that is resumed has measured the model before training.
    """
    phases = []
    if not is_measured:
        if job.fit_softmax or source.softmax is None:
            if source.softmax is not None:
                phases.append("measure the model with its own softmax")
            n_tokens = job.softmax_tokens or SOFTMAX_TOKENS
            phases.append(f"fit a softmax to at most {n_tokens:,} tokens")
        phases.append("measure the model before training")
    phases.append(f"train {_limits_in_words(job.settings)}")
    phases.append("measure the trained model")
    return f"plan: {'; '.join(phases)}"


def _limits_in_words(settings: TrainSettings) -> str:
    """Such as "for at most 150 s, 9 steps or 3 epochs"."""
    limits: list[str] = []
    if settings.max_seconds is not None:
        limits.append(f"{settings.max_seconds:,.12g} s")
    if settings.max_steps is not None:
        limits.append(plural(settings.max_steps, "step"))
    if settings.max_epochs is not None:
        limits.append("1 epoch" if settings.max_epochs == 1 else f"{settings.max_epochs:g} epochs")
    if len(limits) > 1:
        last = limits.pop()
        limits[-1] += f" or {last}"
    return f"for at most {', '.join(limits)}"


def finetune_settings(
    settings: TrainSettings, corpus: Corpus, *, continues_adagrad: bool = False
) -> TrainSettings:
    """Return settings for a trained model: a lower learning rate, the best weights kept.

    Evaluations are counted in steps, so that a resumed run evaluates where an uninterrupted one
    does. With `max_seconds` it may not: `eval_steps_in_time` shortens a default interval by
    the speed, which each part of a run measures. The warmup is a twentieth of an epoch. The default
    learning rate of AdamW is proportional to the square root of the number of steps, up to 1,000
    steps.

    Args:
        continues_adagrad: as `Source.continues_adagrad`.
    """
    epoch_steps = corpus.n_predictions // (settings.n_streams * settings.bptt)
    interval = max(epoch_steps // _EVALUATIONS_PER_EPOCH, min(_MIN_STEPS, epoch_steps), 1)
    default_rate = _CONTINUED_RATE if continues_adagrad else _default_rate(settings, epoch_steps)
    return replace(
        settings,
        learning_rate=settings.learning_rate or default_rate,
        warmup_steps=min(_MAX_WARMUP, epoch_steps // 20 + 1),
        keep_best=True,
        eval_steps=settings.eval_steps or interval,
    )


def _default_rate(settings: TrainSettings, epoch_steps: int) -> float:
    rate = LEARNING_RATES[settings.optimizer]
    if settings.optimizer != "adamw":
        return rate
    n_steps: float = _FULL_RATE_STEPS
    if settings.max_steps is not None:
        n_steps = min(n_steps, settings.max_steps)
    if settings.max_epochs is not None and epoch_steps > 0:
        n_steps = min(n_steps, settings.max_epochs * epoch_steps)
    factor: float = (n_steps / _FULL_RATE_STEPS) ** 0.5
    return rate * factor


def eval_steps_in_time(settings: TrainSettings, tokens_per_s: float) -> int | None:
    """Return an interval with at least four evaluations within the time limit, if there is one.

    Args:
        settings: those of `finetune_settings`.
        tokens_per_s: speed of training.
    """
    if settings.max_seconds is None or settings.eval_steps is None:
        return settings.eval_steps
    tokens_per_step = settings.n_streams * settings.bptt
    n_steps = settings.max_seconds * tokens_per_s / tokens_per_step
    return min(settings.eval_steps, max(1, int(n_steps / _EVALUATIONS_IN_TIME)))
