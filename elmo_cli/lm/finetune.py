"""Fine-tuning: measure a biLM on a domain, train it, measure it again, write model and card."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from elmo_cli.errors import ResumeError
from elmo_cli.files import write_text
from elmo_cli.lm.checkpoint import TrainingProgress
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.domain import Domain, find_texts, read_domain
from elmo_cli.lm.finetune_job import (
    START_OVER,
    FinetuneJob,
    FinetuneRecord,
    FinetuneResult,
    Source,
    describe_text,
    figures_of,
    finetune_settings,
    load_source,
    write_card,
)
from elmo_cli.lm.fit_softmax import fit_softmax
from elmo_cli.lm.language_model import (
    LanguageModel,
    load_language_model,
    new_softmax,
)
from elmo_cli.lm.log import SILENT, Reporter
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.perplexity import Perplexity, perplexity
from elmo_cli.lm.run_folder import CHECKPOINT_FILE, FITTED_FILE, RECORD_FILE, RunFolder
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import check_long_enough
from elmo_cli.model.bilm import NextTokenSoftmax
from elmo_cli.pretrained.catalogue import WEIGHTS_FILE
from elmo_cli.pretrained.load import locate
from elmo_cli.pretrained.model_files import CARD_FILE, STATE_FILE, VOCABULARY_FILE
from elmo_cli.pretrained.warm_state import write_warm_state
from elmo_cli.text.input import InputReport, check_inputs
from elmo_cli.weightfile.read import read_softmax
from elmo_cli.weightfile.write import write_softmax

_VOCABULARY_SIZE, _MIN_COUNT, _SOFTMAX_TOKENS = 25_000, 2, 300_000
_EVALUATED_TOKENS = 20_000  # of the validation text; the test text is measured as a whole
# With a time limit, most of it goes to training. Fractions of the limit for the fit, for
# an evaluation, and for each of the measurements before and after; others share the processor.
_FIT_FRACTION, _SAMPLE_FRACTIONS = 0.2, {"validation": 0.025, "test": 0.05}
_MAX_EVALUATIONS = 4  # within the time limit, after the one of step 0
_MIN_TOKENS = 500  # of a sample, and to measure how fast the biLM reads


def finetune(job: FinetuneJob, *, reporter: Reporter = SILENT) -> FinetuneResult:
    """Fine-tune a biLM on a domain and write it as a model folder; the source stays unchanged.

    Args:
        reporter: also receives a line for each pass of a fit, see `fit_softmax`.
    Raises:
        UsageError, OutputError, ResumeError: as `RunFolder.open`, or settings without effect.
        ModelError, OptionsError, WeightFileError, InputError: as `load_language_model`.
        TrainingError, StoppedError: as `read_domain` and `Trainer.train`.
    """
    files = locate(job.model)
    named = [Path(name) for name in (job.softmax, job.vocabulary) if name is not None]
    with RunFolder(job.output, "finetune") as folder:
        folder.open(job.mode, reads=[*files.paths, *named])
        texts = find_texts(job.domain, job.heldout)
        names = check_inputs([*texts.train, *texts.heldout, *texts.test], job.reading)
        source = load_source(job, files)
        if source.warning:
            reporter.message(f"warning: {source.warning}")
        if texts.not_read:
            reporter.message(f"not read: {', '.join(texts.not_read)}")
        report, width = InputReport(), source.bilm.options.max_characters
        reporter.reading(names, report)
        domain = read_domain(texts, job.reading, max_characters=width, report=report)
        reporter.input_notes(report)
        halves = [describe_text(domain.describe()[half]) for half in ("validation", "test")]
        held_out = f"{halves[0]}, choose the weights, and {halves[1]}, only measure them"
        reporter.message(f"{domain.train.n_tokens:,} tokens to train on; held out: {held_out}")
        run = _Run(job, source, domain, folder, reporter)
        softmax = run.start(texts.train)
        return run.finish(run.train(softmax))


class _Run:
    """A run of which all text is read; its clock starts now."""

    def __init__(
        self, job: FinetuneJob, source: Source, domain: Domain, folder: RunFolder, report: Reporter
    ) -> None:
        self._job, self._source, self._domain, self._whole = job, source, domain, domain
        self._folder, self._reporter = folder, report
        self._noted_at_s = time.monotonic()
        self._settings = finetune_settings(job.settings, domain.train)
        self._bilm = source.bilm.to(job.device)
        self._is_fitted = job.fit_softmax or source.softmax is None
        self._softmax_kind = "fitted" if self._is_fitted else "model"
        self._vocabulary = source.vocabulary or domain.train.vocabulary(
            min_count=job.min_count or _MIN_COUNT,
            max_types=job.vocabulary_size or _VOCABULARY_SIZE,
            warn=report.message,
        )

    def start(self, texts: Sequence[str]) -> NextTokenSoftmax:
        """Create or continue the record, and measure the model; the softmax to train."""
        run = {
            "model": f"sha256 {self._source.files.sha256}",
            "text": self._whole.fingerprint,
            "softmax": f"{self._softmax_kind}, of {self._vocabulary.fingerprint}",
        }
        self._record = self._resumed(run) if self._job.mode == "resume" else self._new(run, texts)
        if self._record.samples is None:
            self._note(samples=self._sample_sizes())
        samples = {
            name: getattr(self._whole, name).sample_evenly(n_tokens)
            for name, n_tokens in (self._record.samples or {}).items()
        }
        self._domain = replace(self._whole, **samples)
        if self._record.before is not None:
            return self._softmax(self._source.softmax)
        if self._is_fitted and self._source.softmax is not None:
            measured = self._measure("the model's own softmax", self._source.softmax)
            self._note(before_model_softmax=figures_of(measured))
        softmax = self._fit() if self._is_fitted else self._softmax(self._source.softmax)
        start_s = time.monotonic()
        measured = self._measure("before", softmax)
        figures, unknown = figures_of(measured), measured.unknown_fraction
        seconds = time.monotonic() - start_s
        self._note(before=figures, unknown_fraction=unknown, measuring_s=seconds)
        return softmax

    def _sample_sizes(self) -> dict[str, int]:
        """Tokens to measure of each half, so that it takes a small part of the time limit."""
        domain, limit = self._whole, self._settings.max_seconds
        sizes = {"validation": _EVALUATED_TOKENS, "test": domain.test.n_tokens}
        if limit is not None:
            probe = domain.test.sample_evenly(_MIN_TOKENS)
            counts, size = domain.train.predicted_counts(self._vocabulary), self._bilm.options
            softmax = self._source.softmax or new_softmax(counts, size.projection_dim, seed=0)
            model = self._model(softmax)
            start_s = time.monotonic()
            perplexity(model, probe)
            rate = probe.n_tokens / (time.monotonic() - start_s)
            for name, fraction in _SAMPLE_FRACTIONS.items():
                sizes[name] = min(sizes[name], max(_MIN_TOKENS, round(rate * limit * fraction)))
        return sizes

    def _new(self, run: dict[str, str], texts: Sequence[str]) -> FinetuneRecord:
        settings = self._settings
        n_streams = settings.batch_size * settings.gradient_accumulation_steps
        check_long_enough(self._domain.train, batch_size=n_streams, bptt=settings.bptt)
        self._folder.start()
        self._record = FinetuneRecord(run, list(texts))
        self._note()
        self._vocabulary.write(self._folder.path / VOCABULARY_FILE)
        return self._record

    def _resumed(self, run: dict[str, str]) -> FinetuneRecord:
        path = self._folder.path
        record = FinetuneRecord.read(path / RECORD_FILE)
        for name, now in run.items():
            if (before := record.run.get(name)) != now:
                what = f"{path / RECORD_FILE}: the run started with {name} {before}, now {now}"
                raise ResumeError(what, f"use the same model, text and settings, or {START_OVER}")
        return record

    def train(self, softmax: NextTokenSoftmax) -> TrainingProgress:
        """Train biLM and softmax; the folder then contains the best model of all evaluations."""
        path, record, domain = self._folder.path, self._record, self._domain
        settings = replace(self._settings, max_seconds=self._seconds_to_train())
        group = ProcessGroup(device=self._job.device)
        step = TrainStep(self._model(softmax), domain.train, settings, group)
        trainer = Trainer(step, domain.validation, self._folder, self._reporter)
        is_begun = any((path / name).exists() for name in (CHECKPOINT_FILE, WEIGHTS_FILE))
        if is_begun:
            trainer.resume()
            for name in (STATE_FILE, CARD_FILE):  # of the weights of an earlier part
                (path / name).unlink(missing_ok=True)
        progress = trainer.progress
        evaluation_s = record.measuring_s * domain.validation.n_tokens / domain.test.n_tokens
        left_s = settings.max_seconds or math.inf
        if progress.step == 0 and left_s <= 2 * evaluation_s:  # before and after training
            if not is_begun:
                trainer.save()
            return progress
        progress.evaluation_seconds = max(evaluation_s, progress.evaluation_seconds)
        estimate = trainer.estimate()
        self._reporter.estimate(estimate)
        interval = self._settings.eval_steps or 1
        if settings.max_seconds is not None:
            n_steps = left_s * estimate.rate / settings.tokens_per_step
            interval = max(interval, math.ceil(n_steps / _MAX_EVALUATIONS))
        self._note(eval_steps=record.eval_steps or interval)
        trainer.settings = replace(
            settings, eval_steps=record.eval_steps, max_seconds=self._seconds_to_train()
        )
        trainer.train()
        self._noted_at_s = time.monotonic()  # the checkpoint counts the time of training
        return trainer.progress

    def _seconds_to_train(self) -> float | None:
        """The limit without the time of everything else; the model is measured at the end."""
        if (limit := self._settings.max_seconds) is None:
            return None
        return max(1e-3, limit - self._seconds() - self._record.measuring_s)

    def finish(self, progress: TrainingProgress) -> FinetuneResult:
        """Measure the model in the folder, replace it by the source if that is better."""
        record, path = self._record, self._folder.path
        assert record.before is not None
        before, improved = record.before, progress.best_step > 0
        if not improved:
            source = load_source(self._job, self._source.files)
            model = LanguageModel(source.bilm, self._softmax(source.softmax), self._vocabulary)
            self._folder.export(model, self._settings.dtype)
        # The same weights have the same figures, except in float16.
        is_same = not improved and self._settings.dtype == "float32"
        after = before
        if not is_same:  # the model as it was written, in its dtype
            model = load_language_model(path).to(self._job.device)
            after = figures_of(self._perplexity(model))
        write_warm_state(path)
        counted = "counted in the domain" if self._source.vocabulary is None else ""
        vocabulary = counted or self._job.vocabulary or "that of the model"
        best = progress.best if progress.best_step >= 0 else None
        chosen = {"step": max(0, progress.best_step), "perplexity": best, "text": "validation"}
        result = FinetuneResult(
            model=self._source.files.name,
            output=str(path),
            softmax=self._softmax_kind,
            before=before,
            before_model_softmax=record.before_model_softmax,
            after=after,
            chosen=chosen,
            unknown_fraction=record.unknown_fraction,
            vocabulary={"types": len(self._vocabulary), "source": vocabulary},
            heldout=self._domain.describe(),
            tokens=progress.tokens,
            epochs=progress.epochs,
            seconds=round(self._seconds() + progress.seconds, 1),
            improved=improved if progress.step else None,
        )
        self._note(result=asdict(result))
        write_card(path / CARD_FILE, result, self._source.files.weights_sha256, record.train)
        return result

    def _fit(self) -> NextTokenSoftmax:
        n_types, limit = len(self._vocabulary), self._settings.max_seconds
        self._reporter.message(f"fitting a softmax of {n_types:,} types to the frozen biLM")
        settings = replace(self._settings, max_seconds=limit and limit * _FIT_FRACTION)
        n_tokens, report = self._job.softmax_tokens or _SOFTMAX_TOKENS, self._reporter.log_line
        fit = fit_softmax(self._bilm, self._vocabulary, self._domain, settings, n_tokens, report)
        write_softmax(fit.softmax, self._folder.path / FITTED_FILE)
        seconds = round(fit.seconds, 1)
        self._note(fit={"tokens": fit.tokens, "passes": fit.passes, "seconds": seconds})
        return fit.softmax

    def _softmax(self, own: NextTokenSoftmax | None) -> NextTokenSoftmax:
        """The softmax at the start of training: the fitted one, or the model's own."""
        path = self._folder.path / FITTED_FILE
        if not self._is_fitted:
            assert own is not None
            return own.to(self._job.device)
        if not path.exists():
            raise ResumeError(f"{path}: is missing, so the run cannot continue", START_OVER)
        projection = self._bilm.options.projection_dim
        softmax = read_softmax(path, n_types=len(self._vocabulary), projection=projection)
        return softmax.to(self._job.device)

    def _measure(self, what: str, softmax: NextTokenSoftmax) -> Perplexity:
        measured = self._perplexity(self._model(softmax))
        self._reporter.message(
            f"{what}: perplexity {measured.average:.2f} (forward {measured.forward:.2f}, "
            f"backward {measured.backward:.2f}), {measured.unknown_fraction:.2%} unknown"
        )
        return measured

    def _model(self, softmax: NextTokenSoftmax) -> LanguageModel:
        return LanguageModel(self._bilm, softmax, self._vocabulary).to(self._job.device)

    def _perplexity(self, model: LanguageModel) -> Perplexity:
        """Measure a model on the test text."""
        test, n_done = self._domain.test, 0

        def on_progress(n: int) -> None:
            nonlocal n_done
            n_done += n
            self._reporter.progress("measuring on the test text", n_done, test.n_predictions)

        return perplexity(model, test, on_progress=on_progress)

    def _seconds(self) -> float:
        """Spent so far in all parts of the run, except on training."""
        return self._record.seconds + time.monotonic() - self._noted_at_s

    def _note(self, **facts: Any) -> None:
        """Add facts and the time to the record, and save it."""
        self._record.seconds, self._noted_at_s = self._seconds(), time.monotonic()
        for name, value in facts.items():
            setattr(self._record, name, value)
        text = json.dumps(asdict(self._record), indent=2)
        write_text(self._folder.path / RECORD_FILE, [text, "\n"])
