"""Fine-tuning: measure a biLM on a domain, train it, measure it again, write model and card."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

from elmo_cli.errors import ResumeError
from elmo_cli.files import write_text
from elmo_cli.lm.checkpoint import TrainingProgress
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.finetune.domain import Domain, find_texts, read_domain
from elmo_cli.lm.finetune.fit_softmax import fit_softmax
from elmo_cli.lm.finetune.job import (
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
from elmo_cli.lm.language_model import LanguageModel, load_language_model
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.perplexity import Perplexity, perplexity
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
from elmo_cli.text.input import InputReport, InputSettings, check_inputs
from elmo_cli.training.reporter import SILENT, Reporter
from elmo_cli.training.run_folder import FITTED_FILE, RECORD_FILE, RunFolder
from elmo_cli.weightfile.read import read_softmax
from elmo_cli.weightfile.write import write_softmax

_VOCABULARY_SIZE = 25_000  # of a vocabulary that is counted in the domain
_MIN_COUNT = 2
_SOFTMAX_TOKENS = 300_000  # that a softmax is fitted on
_EVALUATED_TOKENS = 20_000  # of the validation text; the test text is measured as a whole


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
        reading = replace(job.reading or InputSettings(), max_characters=width)
        domain = read_domain(texts, reading, seed=job.settings.seed, report=report)
        reporter.input_notes(report)
        halves = [describe_text(domain.describe()[half]) for half in ("validation", "test")]
        held_out = f"{halves[0]}, choose the weights, and {halves[1]}, only measure them"
        reporter.message(f"{domain.train.n_tokens:,} tokens to train on; held out: {held_out}")
        record = record or FinetuneRecord(started_with, list(texts.train))
        run = FinetuneRun(
            job=job,
            source=source,
            domain=domain,
            folder=folder,
            record=record,
            reporter=reporter,
        )
        run.start()
        model = run.model_before_training()
        progress = run.train(model)
        return run.finish(model, progress)


class FinetuneRun:
    """The phases of a run, in the order of its methods; what changes goes from one to the next."""

    def __init__(
        self,
        *,
        job: FinetuneJob,
        source: Source,
        domain: Domain,
        folder: RunFolder,
        record: FinetuneRecord,
        reporter: Reporter,
    ) -> None:
        self._job = job
        self._source = source
        self._folder = folder
        self._record = record
        self._reporter = reporter
        self._text_fingerprint = domain.fingerprint
        validation = domain.validation.sample_evenly(_EVALUATED_TOKENS)
        self._domain = replace(domain, validation=validation)
        self._settings = finetune_settings(job.settings, domain.train)
        self._fits_softmax = job.fit_softmax or source.softmax is None
        self._vocabulary = source.vocabulary or domain.train.vocabulary(
            min_count=job.min_count or _MIN_COUNT,
            max_types=job.vocabulary_size or _VOCABULARY_SIZE,
            warn=reporter.message,
        )

    def start(self) -> None:
        """Complete the record of a new run, or compare that of a run to resume."""
        kind = "fitted" if self._fits_softmax else "model"
        facts = {
            "text": self._text_fingerprint,
            "softmax": f"{kind}, of {self._vocabulary.fingerprint}",
        }
        if self._job.mode == "resume":
            self._record.check_same(facts, self._folder.path / RECORD_FILE)
            return
        check_long_enough(self._domain.train, self._settings)
        self._folder.start()
        self._record.run |= facts
        self._save_record()
        self._vocabulary.write(self._folder.path / VOCABULARY_FILE)

    def model_before_training(self) -> LanguageModel:
        """The biLM with a softmax, which is fitted if need be; measure it, unless that is done."""
        is_measured = self._record.before is not None
        own_softmax = self._source.softmax
        if own_softmax is not None and not self._job.fit_softmax:
            softmax = own_softmax
        elif is_measured:
            softmax = self._read_fitted_softmax()
        else:
            self._measure_own_softmax()
            softmax = self._fit_softmax()
        model = self._with_softmax(softmax)
        if not is_measured:
            measured = self._measure(model, "before")
            self._record.before = figures_of(measured)
            self._record.unknown_fraction = measured.unknown_fraction
            self._save_record()
        return model

    def _with_softmax(self, softmax: NextTokenSoftmax) -> LanguageModel:
        model = LanguageModel(self._source.bilm, softmax, self._vocabulary)
        return model.to(self._job.device)

    def _measure_own_softmax(self) -> None:
        if self._source.softmax is None:
            return
        model = self._with_softmax(self._source.softmax)
        measured = self._measure(model, "the model's own softmax")
        self._record.before_model_softmax = figures_of(measured)
        self._save_record()

    def _fit_softmax(self) -> NextTokenSoftmax:
        n_types = len(self._vocabulary)
        self._reporter.message(f"fitting a softmax of {n_types:,} types to the frozen biLM")
        softmax = fit_softmax(
            self._source.bilm.to(self._job.device),
            self._vocabulary,
            self._domain,
            replace(self._settings, max_seconds=None),
            self._job.softmax_tokens or _SOFTMAX_TOKENS,
            self._reporter.log_line,
        )
        write_softmax(softmax, self._folder.path / FITTED_FILE)
        return softmax

    def _read_fitted_softmax(self) -> NextTokenSoftmax:
        path = self._folder.path / FITTED_FILE
        if not path.exists():
            raise ResumeError(f"{path}: is missing, so the run cannot continue", START_OVER)
        projection_dim = self._source.bilm.options.projection_dim
        return read_softmax(path, n_types=len(self._vocabulary), projection=projection_dim)

    def train(self, model: LanguageModel) -> TrainingProgress:
        """Train biLM and softmax; the folder then contains the best model of all evaluations."""
        path = self._folder.path
        group = ProcessGroup(device=self._job.device)
        step = TrainStep(model, self._domain.train, self._settings, group)
        trainer = Trainer(step, self._domain.validation, self._folder, self._reporter)
        if (path / CHECKPOINT_FILE).exists() or (path / WEIGHTS_FILE).exists():
            trainer.resume()
            # These belong to the weights of an earlier part of the run.
            (path / STATE_FILE).unlink(missing_ok=True)
            (path / CARD_FILE).unlink(missing_ok=True)
        self._reporter.estimate(trainer.estimate())
        trainer.train()
        return trainer.progress

    def finish(self, model: LanguageModel, progress: TrainingProgress) -> FinetuneResult:
        """Measure the model in the folder, which is the source if no step was better."""
        path = self._folder.path
        is_improved = progress.best_step > 0
        before = self._record.before
        assert before is not None
        after = before  # the same weights have the same figures, except in float16
        if is_improved or self._settings.dtype != "float32":
            written = load_language_model(path).to(self._job.device)
            after = figures_of(self._perplexity(written))
        write_warm_state(path)
        result = FinetuneResult(
            model=self._source.files.name,
            output=str(path),
            softmax="fitted" if self._fits_softmax else "model",
            before=before,
            before_model_softmax=self._record.before_model_softmax,
            after=after,
            chosen={
                "step": progress.best_step,
                "perplexity": progress.best,
                "text": "validation",
            },
            unknown_fraction=self._record.unknown_fraction,
            vocabulary={"types": len(self._vocabulary), "source": self._vocabulary_source()},
            heldout=self._domain.describe(),
            tokens=progress.tokens,
            epochs=progress.epochs,
            learning_rate=self._settings.peak_rate,
            seconds=round(progress.seconds, 1),
            improved=is_improved if progress.step else None,
        )
        self._record.result = asdict(result)
        self._save_record()
        write_card(path / CARD_FILE, result, self._source.files.weights_sha256, self._record.train)
        return result

    def _vocabulary_source(self) -> str:
        if self._source.vocabulary is None:
            return "counted in the domain"
        return self._job.vocabulary or "that of the model"

    def _measure(self, model: LanguageModel, what: str) -> Perplexity:
        measured = self._perplexity(model)
        self._reporter.message(
            f"{what}: perplexity {measured.average:.2f} (forward {measured.forward:.2f}, "
            f"backward {measured.backward:.2f}), {measured.unknown_fraction:.2%} unknown"
        )
        return measured

    def _perplexity(self, model: LanguageModel) -> Perplexity:
        """Measure a model on the test text."""
        test = self._domain.test
        n_done = 0

        def on_progress(n: int) -> None:
            nonlocal n_done
            n_done += n
            self._reporter.progress("measuring on the test text", n_done, test.n_predictions)

        return perplexity(model, test, on_progress=on_progress)

    def _save_record(self) -> None:
        text = json.dumps(asdict(self._record), indent=2)
        write_text(self._folder.path / RECORD_FILE, [text, "\n"])
