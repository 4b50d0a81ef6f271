"""FinetuneJob: what to fine-tune, on what, and how; and the model that it starts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from elmo_cli.errors import SettingError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.language_model import language_model_of, softmax_of
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.pretrained.load import ModelSource, load_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.text.input import InputSettings
from elmo_cli.text.vocabulary import Vocabulary

# From short runs. bilm-tf continues Adagrad at 0.2 with its sums of squared gradients, which no
# weight file contains; with new sums 0.2 would undo what the model has learned.
LEARNING_RATES = {"adamw": 1e-3, "adagrad": 0.05}
VOCABULARY_SIZE, MIN_COUNT, SOFTMAX_TOKENS = 25_000, 2, 300_000
_EVALUATIONS_PER_EPOCH = 10
_MIN_STEPS = 25  # between two evaluations
_MAX_WARMUP = 200


@dataclass(frozen=True)
class FinetuneJob:
    """What to fine-tune, on what, and how.

    Attributes:
        domain: folders and files of text.
        output: folder of the new model.
        settings: of training; see `finetune_settings`.
        heldout: files to measure on; by default part of the domain, see `find_texts`.
        model: the biLM.
        softmax: file of its softmax; None for its own, if it has one.
        vocabulary: file of the types to predict; None for that of the model, else counted.
        fit_softmax: fit a softmax to the frozen biLM even if the model has one.
        softmax_tokens: maximum number of tokens to fit it on; None for 300,000.
        vocabulary_size, min_count: limits of a vocabulary that is counted in the domain; None for
            25,000 and 2.
        reading: settings of the readers.
        mode: "new", "resume" or "overwrite", as of `RunFolder.open`.
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
    reading: InputSettings | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    mode: str = "new"


@dataclass(frozen=True)
class Source:
    """The model to fine-tune: its own softmax, unless another vocabulary is to be predicted."""

    files: ModelFiles
    bilm: BiLM
    softmax: NextTokenSoftmax | None
    vocabulary: Vocabulary | None
    warning: str = ""


def load_source(job: FinetuneJob, files: ModelFiles) -> Source:
    """Load the model to fine-tune; errors as in `load_language_model`."""
    softmax = job.softmax or softmax_of(files)
    vocabulary = job.vocabulary or files.vocabulary
    is_other = job.fit_softmax and job.softmax is None and (job.vocabulary or not vocabulary)
    if softmax is not None and not is_other:
        found = language_model_of(files, softmax=job.softmax, vocabulary=job.vocabulary)
        return Source(files, found.bilm, found.softmax, found.vocabulary, found.warning)
    types = None if vocabulary is None else Vocabulary.read(Path(vocabulary))
    return Source(files, load_files(files), None, types)


def check_effect(job: FinetuneJob, source: Source) -> None:
    """Refuse settings that have no effect with this model (SettingError)."""
    if source.vocabulary is not None:
        for name in ("vocabulary_size", "min_count"):
            if getattr(job, name) is not None:
                whose = job.vocabulary or "the model"
                problem = f"has no effect, because the vocabulary is that of {whose}"
                raise SettingError(name, problem, "leave it out")
    if job.softmax_tokens is not None and source.softmax is not None and not job.fit_softmax:
        problem = "has no effect, because the model has a softmax"
        raise SettingError("softmax_tokens", problem, "leave it out, or add `fit_softmax`")


def finetune_settings(settings: TrainSettings, corpus: Corpus) -> TrainSettings:
    """Settings for a trained model: a lower learning rate, the best weights kept.

    There are ten evaluations per epoch, but at least 25 steps apart, and at least one. They are
    counted in steps, so that a resumed run evaluates where an uninterrupted one does. The warmup is
    a twentieth of an epoch, at most 200 steps.
    """
    tokens_per_step = settings.batch_size * settings.bptt * settings.gradient_accumulation_steps
    n_steps = (corpus.n_tokens + corpus.n_sentences) // tokens_per_step
    interval = max(n_steps // _EVALUATIONS_PER_EPOCH, min(_MIN_STEPS, n_steps), 1)
    return replace(
        settings,
        learning_rate=settings.learning_rate or LEARNING_RATES[settings.optimizer],
        warmup_steps=min(_MAX_WARMUP, n_steps // 20 + 1),
        keep_best=True,
        eval_steps=settings.eval_steps or interval,
    )
