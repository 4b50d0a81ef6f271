"""Fine-tuning: measure a biLM on a domain, train it, measure it again, write model and card."""

from __future__ import annotations

import json
import math
import time
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
from elmo_cli.lm.language_model import LanguageModel, load_language_model, new_softmax
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.perplexity import Perplexity, perplexity
from elmo_cli.lm.run_folder import FITTED_FILE, RECORD_FILE, RunFolder
from elmo_cli.lm.settings import SILENT, Reporter
from elmo_cli.lm.softmax import fit_softmax
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import check_long_enough
from elmo_cli.model.bilm import NextTokenSoftmax
from elmo_cli.pretrained.catalogue import WEIGHTS_FILE
from elmo_cli.pretrained.load import locate
from elmo_cli.pretrained.model_files import (
    CARD_FILE,
    CHECKPOINT_FILE,
    STATE_FILE,
    VOCABULARY_FILE,
)
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
        started_with = {"model": f"sha256 {files.sha256}", **job.settings.fixed()}
        started_with["batch_size"] = job.settings.n_streams
        record = None
        if job.mode == "resume":
            record = FinetuneRecord.read(record_file := folder.path / RECORD_FILE)
            record.check_same(started_with, record_file)
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
        record = record or FinetuneRecord(started_with, list(texts.train))
        run = _Run(job, source, domain, folder, record, reporter)
        run.start()
        return run.finish(run.train())


class _Run:
    """A run of which all text is read; its clock starts now."""

    def __init__(
        self,
        job: FinetuneJob,
        source: Source,
        domain: Domain,
        folder: RunFolder,
        record: FinetuneRecord,
        reporter: Reporter,
    ) -> None:
        self._job, self._source, self._domain = job, source, domain
        self._folder, self._record, self._reporter = folder, record, reporter
        self._noted_at_s = time.monotonic()
        self._settings = finetune_settings(job.settings, domain.train)
        self._is_fitted = job.fit_softmax or source.softmax is None
        self._vocabulary = source.vocabulary or domain.train.vocabulary(
            min_count=job.min_count or _MIN_COUNT,
            max_types=job.vocabulary_size or _VOCABULARY_SIZE,
            warn=reporter.message,
        )
        if source.softmax is not None:
            self._model = self._with_softmax(source.softmax)

    def _with_softmax(self, softmax: NextTokenSoftmax) -> LanguageModel:
        model = LanguageModel(self._source.bilm, softmax, self._vocabulary)
        return model.to(self._job.device)

    def start(self) -> None:
        """Complete or continue the record, and measure the model before training."""
        kind = "fitted" if self._is_fitted else "model"
        softmax = f"{kind}, of {self._vocabulary.fingerprint}"
        found = {"text": self._domain.fingerprint, "softmax": softmax}
        if self._job.mode == "resume":
            self._record.check_same(found, self._folder.path / RECORD_FILE)
        else:
            check_long_enough(self._domain.train, self._settings)
            self._folder.start()
            self._record.run |= found
            self._note()
            self._vocabulary.write(self._folder.path / VOCABULARY_FILE)
        samples = self._record.samples or self._sample_sizes()
        self._domain = replace(
            self._domain,
            validation=self._domain.validation.sample_evenly(samples["validation"]),
            test=self._domain.test.sample_evenly(samples["test"]),
        )
        if self._record.before is None:
            self._note(samples=samples)
            self._measure_before()
        elif self._is_fitted:
            self._read_fitted()

    def _sample_sizes(self) -> dict[str, int]:
        """Tokens to measure of each half, so that it takes a small part of the time limit."""
        test, limit = self._domain.test, self._settings.max_seconds
        sizes = {"validation": _EVALUATED_TOKENS, "test": test.n_tokens}
        if limit is not None:
            # Not kept where a fit is to come: a softmax of many types may take gigabytes.
            counts = self._domain.train.predicted_counts(self._vocabulary)
            projection = self._source.bilm.options.projection_dim
            softmax = self._source.softmax or new_softmax(counts, projection, seed=0)
            probe, start_s = test.sample_evenly(_MIN_TOKENS), time.monotonic()
            perplexity(self._with_softmax(softmax), probe)
            rate = probe.n_tokens / (time.monotonic() - start_s)
            for name, fraction in _SAMPLE_FRACTIONS.items():
                sizes[name] = min(sizes[name], max(_MIN_TOKENS, round(rate * limit * fraction)))
        return sizes

    def _measure_before(self) -> None:
        if self._is_fitted:
            if self._source.softmax is not None:
                measured = self._measure("the model's own softmax")
                self._note(before_model_softmax=figures_of(measured))
            self._fit()
        start_s = time.monotonic()
        measured = self._measure("before")
        figures, unknown = figures_of(measured), measured.unknown_fraction
        seconds = time.monotonic() - start_s
        self._note(before=figures, unknown_fraction=unknown, measuring_s=seconds)

    def _fit(self) -> None:
        n_types, limit = len(self._vocabulary), self._settings.max_seconds
        self._reporter.message(f"fitting a softmax of {n_types:,} types to the frozen biLM")
        settings = replace(self._settings, max_seconds=limit and limit * _FIT_FRACTION)
        n_tokens = self._job.softmax_tokens or _SOFTMAX_TOKENS
        bilm = self._source.bilm.to(self._job.device)
        report = self._reporter.log_line
        softmax = fit_softmax(bilm, self._vocabulary, self._domain, settings, n_tokens, report)
        write_softmax(softmax, self._folder.path / FITTED_FILE)
        self._model = self._with_softmax(softmax)

    def _read_fitted(self) -> None:
        path, projection = self._folder.path / FITTED_FILE, self._source.bilm.options.projection_dim
        if not path.exists():
            raise ResumeError(f"{path}: is missing, so the run cannot continue", START_OVER)
        softmax = read_softmax(path, n_types=len(self._vocabulary), projection=projection)
        self._model = self._with_softmax(softmax)

    def train(self) -> TrainingProgress:
        """Train biLM and softmax; the folder then contains the best model of all evaluations."""
        path, record, domain = self._folder.path, self._record, self._domain
        settings = replace(self._settings, max_seconds=self._seconds_to_train())
        group = ProcessGroup(device=self._job.device)
        step = TrainStep(self._model, domain.train, settings, group)
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
            n_steps = left_s * estimate.rate / (settings.n_streams * settings.bptt)
            interval = max(interval, math.ceil(n_steps / _MAX_EVALUATIONS))
        self._note()
        max_seconds = self._seconds_to_train()
        trainer.settings = replace(settings, eval_steps=interval, max_seconds=max_seconds)
        trainer.train()
        self._noted_at_s = time.monotonic()  # the checkpoint counts the time of training
        return trainer.progress

    def _seconds_to_train(self) -> float | None:
        """The limit without the time of everything else; the model is measured at the end."""
        if (limit := self._settings.max_seconds) is None:
            return None
        return max(1e-3, limit - self._seconds() - self._record.measuring_s)

    def finish(self, progress: TrainingProgress) -> FinetuneResult:
        """Measure the model in the folder, which is the source if no step was better."""
        record, path = self._record, self._folder.path
        assert record.before is not None
        improved = progress.best_step > 0
        if progress.best_step < 0:  # nothing is exported, and the model is unchanged
            self._model.write(self._folder.path, self._settings.dtype)
        # The same weights have the same figures, except in float16.
        after = record.before
        if improved or self._settings.dtype != "float32":
            self._model = load_language_model(path).to(self._job.device)
            after = figures_of(self._perplexity())
        write_warm_state(path)
        counted = "counted in the domain" if self._source.vocabulary is None else ""
        vocabulary = counted or self._job.vocabulary or "that of the model"
        best = progress.best if progress.best_step >= 0 else None
        result = FinetuneResult(
            model=self._source.files.name,
            output=str(path),
            softmax="fitted" if self._is_fitted else "model",
            before=record.before,
            before_model_softmax=record.before_model_softmax,
            after=after,
            chosen={"step": max(0, progress.best_step), "perplexity": best, "text": "validation"},
            unknown_fraction=record.unknown_fraction,
            vocabulary={"types": len(self._vocabulary), "source": vocabulary},
            heldout=self._domain.describe(),
            tokens=progress.tokens,
            epochs=progress.epochs,
            learning_rate=self._settings.peak_rate,
            seconds=round(self._seconds() + progress.seconds, 1),
            improved=improved if progress.step else None,
        )
        self._note(result=asdict(result))
        write_card(path / CARD_FILE, result, self._source.files.weights_sha256, record.train)
        return result

    def _measure(self, what: str) -> Perplexity:
        measured = self._perplexity()
        self._reporter.message(
            f"{what}: perplexity {measured.average:.2f} (forward {measured.forward:.2f}, "
            f"backward {measured.backward:.2f}), {measured.unknown_fraction:.2%} unknown"
        )
        return measured

    def _perplexity(self) -> Perplexity:
        """Measure the model on the test text."""
        test, n_done = self._domain.test, 0

        def on_progress(n: int) -> None:
            nonlocal n_done
            n_done += n
            self._reporter.progress("measuring on the test text", n_done, test.n_predictions)

        return perplexity(self._model, test, on_progress=on_progress)

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
