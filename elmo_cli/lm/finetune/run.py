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
from elmo_cli.lm.export import export_model
from elmo_cli.lm.finetune.domain import Domain, find_texts, read_domain
from elmo_cli.lm.finetune.fit_softmax import fit_softmax
from elmo_cli.lm.finetune.job import (
    MIN_COUNT,
    SOFTMAX_TOKENS,
    VOCABULARY_SIZE,
    FinetuneJob,
    Source,
    check_effect,
    finetune_settings,
    load_source,
)
from elmo_cli.lm.finetune.result import (
    START_OVER,
    FinetuneRecord,
    FinetuneResult,
    Measurement,
    model_card,
)
from elmo_cli.lm.language_model import LanguageModel, load_language_model
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

_EVALUATED_TOKENS = 20_000  # of the held-out text in each evaluation; all of it before and after
_FIT_FRACTION = 1 / 3  # of the time limit


def finetune(job: FinetuneJob, *, reporter: Reporter = SILENT) -> FinetuneResult:
    """Fine-tune a biLM on a domain and write it as a model folder; the source stays unchanged.

    Args:
        reporter: also receives a line for each pass of a fit, see `fit_softmax`.
    Raises:
        UsageError, OutputError, ResumeError: as `RunFolder.open`, or settings without effect.
        ModelError, OptionsError, WeightFileError, InputError: as `load_language_model`.
        TrainingError, InputError: as `find_texts`, `read_domain` and `Trainer.train`.
        StoppedError: as `Trainer.train`.
    """
    files = locate(job.model)
    named = [Path(name) for name in (job.softmax, job.vocabulary) if name is not None]
    with RunFolder(job.output, "finetune") as folder:
        folder.open(job.mode, reads=[*files.paths, *named])
        texts = find_texts(job.domain, job.heldout)
        check_inputs([*texts.train, *texts.heldout], job.reading)
        source = load_source(job, files)
        check_effect(job, source)
        if source.warning:
            reporter.message(f"warning: {source.warning}")
        if texts.not_read:
            reporter.message(f"not read: {', '.join(texts.not_read)}")
        report, width = InputReport(), source.bilm.options.max_characters
        domain = read_domain(texts, job.reading, max_characters=width, report=report)
        reporter.input_notes(report)
        reporter.message(
            f"{domain.train.n_tokens:,} tokens to train on; "
            f"{domain.heldout.n_tokens:,} held out ({domain.source})"
        )
        run = _Run(job, source, domain, folder, reporter)
        softmax = run.start(texts.train)
        return run.finish(run.train(softmax))


class _Run:
    """A run of which all text is read; its clock starts now."""

    def __init__(
        self,
        job: FinetuneJob,
        source: Source,
        domain: Domain,
        folder: RunFolder,
        reporter: Reporter,
    ) -> None:
        self._job, self._source, self._domain = job, source, domain
        self._folder, self._reporter = folder, reporter
        self._noted_at_s = time.monotonic()
        self._settings = finetune_settings(job.settings, domain.train)
        self._sample = domain.heldout.sample_evenly(_EVALUATED_TOKENS)
        self._bilm = source.bilm.to(job.device)
        self._is_fitted = job.fit_softmax or source.softmax is None
        self._vocabulary = source.vocabulary or domain.train.vocabulary(
            min_count=job.min_count or MIN_COUNT,
            max_types=job.vocabulary_size or VOCABULARY_SIZE,
            warn=lambda warning: reporter.message(f"warning: {warning}"),
        )

    def start(self, texts: Sequence[str]) -> NextTokenSoftmax:
        """Create or continue the record, and measure the model; the softmax to train."""
        kind = "fitted" if self._is_fitted else "model"
        run = {
            "model": f"sha256 {self._source.files.sha256}",
            "text": self._domain.fingerprint,
            "softmax": f"{kind}, of {self._vocabulary.fingerprint}",
        }
        self._record = self._resumed(run) if self._job.mode == "resume" else self._new(run, texts)
        if self._record.before is not None:
            return self._fitted() if self._is_fitted else self._own_softmax()
        if not self._is_fitted:
            softmax = self._own_softmax()
        else:
            if self._source.softmax is not None:
                measured = self._measure("the model's own softmax", self._own_softmax())
                self._note(before_model_softmax=Measurement.of(measured))
            softmax = self._fit()
        start_s = time.monotonic()
        measured = self._measure("before", softmax)
        self._note(
            before=Measurement.of(measured),
            unknown_fraction=measured.unknown_fraction,
            measuring_s=time.monotonic() - start_s,
        )
        return softmax

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
        if (path / WEIGHTS_FILE).exists() and not (path / CHECKPOINT_FILE).exists():
            what = f"{path}: {CHECKPOINT_FILE} is missing, so the run cannot continue"
            hint = f"`model={path}` starts a new run with its weights; {START_OVER}"
            raise ResumeError(what, hint)
        return record

    def train(self, softmax: NextTokenSoftmax) -> TrainingProgress:
        """Train biLM and softmax; the folder then contains the best model of all evaluations."""
        path, settings, record = self._folder.path, self._settings, self._record
        model = LanguageModel(self._bilm, softmax, self._vocabulary)
        left_s = math.inf
        if settings.max_seconds is not None:  # the model in the folder is measured at the end
            left_s = settings.max_seconds - record.seconds - record.measuring_s
            settings = replace(settings, max_seconds=max(left_s, 1e-3))
        step = TrainStep(model, self._domain.train, settings, ProcessGroup(device=self._job.device))
        trainer = Trainer(step, self._sample, path, self._reporter.log_line)
        if has_checkpoint := (path / CHECKPOINT_FILE).exists():
            trainer.resume()
            for name in (STATE_FILE, CARD_FILE):  # of the weights of an earlier part
                (path / name).unlink(missing_ok=True)
        sizes = [text.n_tokens + text.n_sentences for text in (self._sample, self._domain.heldout)]
        evaluation_s = record.measuring_s * sizes[0] / sizes[1]
        if trainer.progress.step == 0 and left_s <= 2 * evaluation_s:  # before and after training
            if not has_checkpoint:
                trainer.save()
            return trainer.progress
        known_s = trainer.progress.evaluation_seconds  # of an earlier part
        trainer.progress.evaluation_seconds = max(evaluation_s, known_s)
        trainer.train()
        self._noted_at_s = time.monotonic()  # the checkpoint counts the time of training
        return trainer.progress

    def finish(self, progress: TrainingProgress) -> FinetuneResult:
        """Measure the model in the folder, replace it by the source if that is better."""
        record, path, heldout = self._record, self._folder.path, self._domain.heldout
        assert record.before is not None
        before = record.before
        after = self._measure_folder() if progress.best_step > 0 else before
        improved = after.perplexity["average"] < before.perplexity["average"]
        if not improved:
            self._export_source()
            # The same weights have the same figures, except in float16.
            after = before if self._settings.dtype == "float32" else self._measure_folder()
        write_warm_state(path)
        result = FinetuneResult(
            model=self._source.files.name,
            output=str(path),
            softmax="fitted" if self._is_fitted else "model",
            before=before,
            before_model_softmax=record.before_model_softmax,
            after=after,
            unknown_fraction=record.unknown_fraction,
            vocabulary={"types": len(self._vocabulary), "source": self._vocabulary_source()},
            heldout={
                "source": self._domain.source,
                "tokens": heldout.n_tokens,
                "sentences": heldout.n_sentences,
                "overlap": self._domain.overlap,
            },
            tokens=progress.tokens,
            epochs=progress.epochs,
            seconds=round(self._seconds() + progress.seconds, 1),
            improved=improved,
        )
        self._note(result=asdict(result))
        card = model_card(result, self._source.files.weights_sha256, record.train)
        write_text(path / CARD_FILE, [card], errors="backslashreplace")
        return result

    def _fit(self) -> NextTokenSoftmax:
        n_types, limit = len(self._vocabulary), self._settings.max_seconds
        self._reporter.message(f"fitting a softmax of {n_types:,} types to the frozen biLM")
        fit = fit_softmax(
            self._bilm,
            self._vocabulary,
            replace(self._domain, heldout=self._sample),
            replace(self._settings, max_seconds=limit and limit * _FIT_FRACTION),
            self._job.softmax_tokens or SOFTMAX_TOKENS,
            self._reporter.log_line,
        )
        write_softmax(fit.softmax, self._folder.path / FITTED_FILE)
        seconds = round(fit.seconds, 1)
        self._note(fit={"tokens": fit.tokens, "passes": fit.passes, "seconds": seconds})
        return fit.softmax

    def _own_softmax(self) -> NextTokenSoftmax:
        assert self._source.softmax is not None
        return self._source.softmax.to(self._job.device)

    def _fitted(self) -> NextTokenSoftmax:
        path = self._folder.path / FITTED_FILE
        if not path.exists():
            raise ResumeError(f"{path}: is missing, so the run cannot continue", START_OVER)
        projection = self._bilm.options.projection_dim
        softmax = read_softmax(path, n_types=len(self._vocabulary), projection=projection)
        return softmax.to(self._job.device)

    def _measure(self, what: str, softmax: NextTokenSoftmax) -> Perplexity:
        model = LanguageModel(self._bilm, softmax, self._vocabulary)
        measured = perplexity(model, self._domain.heldout)
        self._reporter.message(
            f"{what}: perplexity {measured.average:.2f} (forward {measured.forward:.2f}, "
            f"backward {measured.backward:.2f}), {measured.unknown_fraction:.2%} unknown"
        )
        return measured

    def _measure_folder(self) -> Measurement:
        """The model as it was written, in its dtype."""
        model, device = load_language_model(self._folder.path), self._job.device
        model = replace(model, bilm=model.bilm.to(device), softmax=model.softmax.to(device))
        return Measurement.of(perplexity(model, self._domain.heldout))

    def _export_source(self) -> None:
        source = load_source(self._job, self._source.files)
        softmax = self._fitted() if self._is_fitted else source.softmax
        assert softmax is not None
        dtype = self._settings.dtype
        export_model(self._folder.path, source.bilm, softmax, self._vocabulary, dtype=dtype)

    def _vocabulary_source(self) -> str:
        if self._source.vocabulary is None:
            return "counted in the domain"
        return self._job.vocabulary or "that of the model"

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
