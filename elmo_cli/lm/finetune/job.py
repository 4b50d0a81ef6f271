"""FinetuneJob and FinetuneResult: what to fine-tune and its outcome, with record and card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_cli.errors import ResumeError, SettingError
from elmo_cli.files import write_text
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.language_model import load_language_model, softmax_of
from elmo_cli.lm.perplexity import Perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.pretrained.load import ModelSource, load_files
from elmo_cli.pretrained.model_files import ModelFiles
from elmo_cli.regular_files import read_json
from elmo_cli.text.input import InputSettings
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.training.tensors import as_resume_error

# From short runs. bilm-tf continues Adagrad at 0.2 with its sums of squared gradients, which no
# weight file contains; with new sums 0.2 would undo what the model has learned.
LEARNING_RATES = {"adamw": 1e-3, "adagrad": 0.05}
_FULL_RATE_STEPS = 1000  # in fewer steps AdamW at the full rate spoils the model for other text
_EVALUATIONS_PER_EPOCH = 10
_MIN_STEPS = 25  # between two evaluations
_MAX_WARMUP = 200
START_OVER = "`overwrite=True` starts over"
_DIRECTIONS = ("forward", "backward", "average")
_MAX_FILES = 8  # named on the model card
Figures = dict[str, Any]


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
    reading: InputSettings | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    mode: str = "new"


class Source(NamedTuple):
    """The model to fine-tune, without its softmax if another vocabulary is to be predicted."""

    files: ModelFiles
    bilm: BiLM
    softmax: NextTokenSoftmax | None
    vocabulary: Vocabulary | None
    warning: str = ""


def load_source(job: FinetuneJob, files: ModelFiles) -> Source:
    """Load the model of `files`; raises a SettingError for a setting without effect."""
    softmax = job.softmax or softmax_of(files)
    vocabulary = job.vocabulary or files.vocabulary
    is_other = job.fit_softmax and job.softmax is None and (job.vocabulary or not vocabulary)
    if softmax is not None and not is_other:
        found = load_language_model(files, softmax=job.softmax, vocabulary=job.vocabulary)
        source = Source(files, found.bilm, found.softmax, found.vocabulary, found.warning)
    else:
        types = None if vocabulary is None else Vocabulary.read(Path(vocabulary))
        source = Source(files, load_files(files), None, types)
    without_effect: dict[str, str] = {}
    if source.vocabulary is not None:
        known = f"the vocabulary is that of {job.vocabulary or 'the model'}"
        without_effect = {"vocabulary_size": known, "min_count": known}
    if source.softmax is not None and not job.fit_softmax:
        without_effect["softmax_tokens"] = "no softmax is fitted without `fit_softmax`"
    for name, problem in without_effect.items():
        if getattr(job, name) is not None:
            raise SettingError(name, f"has no effect, because {problem}", "leave it out")
    return source


def finetune_settings(settings: TrainSettings, corpus: Corpus) -> TrainSettings:
    """Return settings for a trained model: a lower learning rate, the best weights kept.

    Evaluations are counted in steps, so that a resumed run evaluates where an uninterrupted one
    does. The warmup is a twentieth of an epoch. The default learning rate of AdamW is proportional
    to the square root of the number of steps, up to 1,000 steps.
    """
    n_steps = corpus.n_predictions // (settings.n_streams * settings.bptt)
    interval = max(n_steps // _EVALUATIONS_PER_EPOCH, min(_MIN_STEPS, n_steps), 1)
    rate = LEARNING_RATES[settings.optimizer]
    if settings.optimizer == "adamw":
        limits = (settings.max_steps, settings.max_epochs and settings.max_epochs * n_steps)
        n_planned = min(filter(None, limits), default=_FULL_RATE_STEPS)
        rate *= min(1.0, n_planned / _FULL_RATE_STEPS) ** 0.5
    return replace(
        settings,
        learning_rate=settings.learning_rate or rate,
        warmup_steps=min(_MAX_WARMUP, n_steps // 20 + 1),
        keep_best=True,
        eval_steps=settings.eval_steps or interval,
    )


def figures_of(measured: Perplexity) -> Figures:
    """Return `perplexity` ("forward", "backward", "average"), `bits_per_byte` (and "spelling") and
    the `text` that they were measured on, see `Domain`."""
    ways = {name: getattr(measured, name) for name in _DIRECTIONS}
    return {"perplexity": ways, "bits_per_byte": asdict(measured.bits_per_byte), "text": "test"}


@dataclass(frozen=True)
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
        seconds: of training, evaluations included, summed over all parts of the run.
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
        after, before = (each["perplexity"]["average"] for each in (self.after, self.before))
        return float(after / before)


@dataclass
class FinetuneRecord:
    """The contents of finetune.json.

    Attributes:
        run: what a resumed run must agree with: model, text, softmax, and settings.
        train: files to train on.
    """

    run: dict[str, Any]
    train: list[str]
    unknown_fraction: float = 0.0
    before: Figures | None = None
    before_model_softmax: Figures | None = None
    result: dict[str, Any] | None = None

    @classmethod
    def read(cls, path: Path) -> FinetuneRecord:
        """Read the record of a run to resume; raises ResumeError."""
        with as_resume_error(path):
            return cls(**read_json(path, ResumeError, START_OVER))

    def check_same(self, facts: Mapping[str, Any], path: Path) -> None:
        """Raise a ResumeError if the run started with something else."""
        for name, now in facts.items():
            if (before := self.run.get(name)) != now:
                what = f"{path}: the run started with {name} {before}, now {now}"
                raise ResumeError(what, f"use the same model, text and settings, or {START_OVER}")


def write_card(path: Path, result: FinetuneResult, sha256: str, texts: Sequence[str]) -> None:
    """Write the card of a fine-tuned model, in Markdown; raises OutputError.

    Args:
        sha256: of the weight file that was fine-tuned.
        texts: files that were trained on.
    """
    names = ", ".join(f"`{name}`" for name in texts[:_MAX_FILES])
    more = f" and {len(texts) - _MAX_FILES} more" if len(texts) > _MAX_FILES else ""
    softmax = {"model": "the model's own", "fitted": "fitted to the frozen biLM"}[result.softmax]
    heldout, vocabulary = result.heldout, result.vocabulary
    facts = {
        "fine-tuned from": f"{result.model}, weights with sha256 `{sha256}`",
        "on": names + more,
        "trained": f"{result.tokens:,} tokens in each direction, {result.epochs:.2f} epochs",
        "softmax": f"{softmax}, then trained",
        "vocabulary": f"{vocabulary['types']:,} types, {vocabulary['source']}",
        "validation text, which chose the weights": describe_text(heldout["validation"]),
        "test text, which chose nothing": f"{describe_text(heldout['test'])}; "
        f"{result.unknown_fraction:.2%} of its tokens are not in the vocabulary, and "
        f"{heldout['test']['overlap']:.1%} of its sentences are in the training text too",
        "held out as a whole": heldout["unit"],
    }
    lines = [
        *(f"# {result.model}, fine-tuned", ""),
        "Written by `elmo finetune`. The license of the source model and the rights in the text "
        "apply to it too.",
        *("", "| | |", "|---|---|"),
        *(f"| {name} | {fact} |" for name, fact in facts.items()),
        "",
        "Perplexity of the test text: full softmax, each sentence from zero states, the same "
        "vocabulary in all rows.",
        *("", "| | forward | backward | average | bits per byte |", "|---|---|---|---|---|"),
        *(f"| {' | '.join(row)} |" for row in comparison_table(result)),
    ]
    if not result.improved:
        lines += ["", f"{why_source(result)}: the weights are those of the source model."]
    write_text(path, [f"{line}\n" for line in lines], errors="backslashreplace")


def describe_text(facts: dict[str, Any]) -> str:
    """Describe a half of the held-out text in words, from `Domain.describe`."""
    return f"{facts['tokens']:,} tokens in {facts['sentences']:,} sentences, {facts['source']}"


def why_source(result: FinetuneResult) -> str:
    """Why the output folder contains the source model."""
    return "No step was made" if result.improved is None else "Fine-tuning did not help"


def comparison_table(result: FinetuneResult) -> list[tuple[str, ...]]:
    """Before and after: name, perplexity forward, backward and average, bits per byte."""
    own = "its own softmax"
    rows = [
        (f"frozen biLM, {own}", result.before_model_softmax),
        (f"frozen biLM, {'fitted softmax' if result.softmax == 'fitted' else own}", result.before),
        ("fine-tuned" if result.improved else "kept: the same", result.after),
    ]
    table = list[tuple[str, ...]]()
    for name, figures in rows:
        if figures is not None:
            ways = (f"{figures['perplexity'][direction]:.2f}" for direction in _DIRECTIONS)
            table.append((name, *ways, f"{figures['bits_per_byte']['average']:.4f}"))
    return table
