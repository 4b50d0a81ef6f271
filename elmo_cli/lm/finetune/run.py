"""Fine-tuning: measure a biLM on a domain, train it, measure it again, write model and card.

A run has four phases, the methods of `FinetuneRun`:

1. `start` records what the run starts with. It fails if the text is shorter than one batch, or if
   the run to resume started with something else.
2. `model_before_training` fits a softmax if the model has none, and measures the frozen biLM on the
   test text. The fitted softmax is in `FITTED_FILE`, the figures are in the record.
3. `train` trains all weights. It fails if the training diverges, and stops after Ctrl-C.
4. `finish` measures the best weights on the test text and writes warm state, result and card.

Wherever a run ends after `start`, even by `kill -9`, mode "resume" continues it. If the record has
the figures of phase 2, it continues with phase 3, from the last checkpoint if there is one;
otherwise it repeats phase 2 from its beginning. A run that has diverged can be resumed with a lower
learning rate, which is not among the settings that a run must keep.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

from elmo_cli.errors import ResumeError
from elmo_cli.fit import TEST_IN_VOCABULARY, TRAIN_IN_VOCABULARY, VALIDATION_IN_VOCABULARY
from elmo_cli.lm.checkpoint import TrainingProgress
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.finetune.card import describe_text, write_card
from elmo_cli.lm.finetune.domain import Domain, DomainTexts, find_texts, read_domain
from elmo_cli.lm.finetune.fit_softmax import fit_softmax
from elmo_cli.lm.finetune.job import (
    SOFTMAX_TOKENS,
    FinetuneJob,
    Source,
    describe_plan,
    eval_steps_in_time,
    finetune_settings,
    load_source,
)
from elmo_cli.lm.finetune.result import START_OVER, FinetuneRecord, FinetuneResult, figures_of
from elmo_cli.lm.language_model import LanguageModel, load_language_model
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.perplexity import Perplexity, perplexity
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import check_long_enough
from elmo_cli.messages import plural, shorten_list
from elmo_cli.model.bilm import NextTokenSoftmax
from elmo_cli.model_folder import RECORD_FILE, STATE_FILE, VOCABULARY_FILE
from elmo_cli.pretrained.catalogue import find_model
from elmo_cli.pretrained.load import locate
from elmo_cli.pretrained.model_files import CARD_FILE, ModelFiles, check_parts
from elmo_cli.pretrained.warm_state import write_warm_state
from elmo_cli.text.input import InputReport, check_inputs
from elmo_cli.training.reporter import SILENT, Reporter
from elmo_cli.training.run_folder import FITTED_FILE, RunFolder
from elmo_cli.weightfile.read import read_softmax
from elmo_cli.weightfile.write import write_softmax

_VOCABULARY_SIZE = 25_000  # of a vocabulary that is counted in the domain
_MIN_COUNT = 2
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
    named_files = [Path(name) for name in (job.softmax, job.vocabulary) if name is not None]
    with RunFolder(job.output, "finetune") as folder:
        folder.open(job.mode, reads=[*files.paths, *named_files])
        texts = find_texts(job.domain, job.heldout)
        check_inputs(texts.to_read, job.reading)
        record = _new_or_saved_record(job, files, texts)
        source = load_source(job, files)
        if source.warning:
            reporter.message(f"warning: {source.warning}")
        reporter.message(describe_plan(job, source, is_measured=record.before is not None))
        domain = _read(job, texts, source, reporter)
        run = FinetuneRun(
            job=job,
            source=source,
            domain=domain,
            folder=folder,
            record=record,
            reporter=reporter,
        )
        run.report_fit()
        run.start()
        model = run.model_before_training()
        progress = run.train(model)
        return run.finish(progress)


def _new_or_saved_record(job: FinetuneJob, files: ModelFiles, texts: DomainTexts) -> FinetuneRecord:
    """Return the record of a new run, or that of the run to resume, if it started alike."""
    started_with = {
        "model": f"sha256 {files.sha256}",
        **job.settings.fixed(),  # what a resumed run may not change
        # Batch size times accumulation steps: a resumed run may divide the streams in another way.
        "batch_size": job.settings.n_streams,
    }
    if job.mode != "resume":
        return FinetuneRecord(run=started_with, train=list(texts.train))
    path = job.output / RECORD_FILE
    record = FinetuneRecord.read(path)
    record.check_same(started_with, path)
    return record


def _read(job: FinetuneJob, texts: DomainTexts, source: Source, reporter: Reporter) -> Domain:
    """Read the text of the domain, and report what is trained on and what is held out."""
    if texts.not_read:
        reporter.message(f"not read: {', '.join(texts.not_read)}")
    report = InputReport()
    reporter.reading(texts.to_read, report)
    reading = replace(job.reading, max_characters=source.bilm.options.max_characters)
    domain = read_domain(texts, reading, seed=job.settings.seed, report=report)
    reporter.input_notes(report)
    heldout = domain.describe()
    tokens = plural(domain.train.n_tokens, "token")
    sentences = plural(domain.train.n_sentences, "sentence")
    reporter.message(f"training text: {tokens} in {sentences}")
    reporter.message(
        f"validation text, which chooses the weights: {describe_text(heldout['validation'])}"
    )
    reporter.message(f"test text, which chooses nothing: {describe_text(heldout['test'])}")
    return domain


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
        self._record_path = folder.path / RECORD_FILE
        self._text_fingerprint = domain.fingerprint
        validation = domain.validation.sample_evenly(_EVALUATED_TOKENS)
        self._domain = replace(domain, validation=validation)
        self._continues_adagrad = source.continues_adagrad(job)
        self._settings = finetune_settings(
            job.settings, domain.train, continues_adagrad=self._continues_adagrad
        )
        self._fits_softmax = job.fit_softmax or source.softmax is None
        self._vocabulary = source.vocabulary or domain.train.vocabulary(
            min_count=job.min_count or _MIN_COUNT,
            max_types=job.vocabulary_size or _VOCABULARY_SIZE,
            warn=reporter.message,
        )

    def report_fit(self) -> None:
        """Report how the texts fit the vocabulary and each other.

        Raises:
            InputError: no token of a text is in the vocabulary: nothing can be learned or measured.
        """
        domain = self._domain
        points = [
            domain.train.fit(TRAIN_IN_VOCABULARY, self._vocabulary),
            domain.validation.fit(VALIDATION_IN_VOCABULARY, self._vocabulary),
            domain.test.fit(TEST_IN_VOCABULARY, self._vocabulary),
            domain.overlap,
        ]
        for point in points:
            point.check(shorten_list(self._job.domain))
        self._reporter.fit(points)

    def start(self) -> None:
        """Complete the record of a new run, or compare that of a run to resume."""
        kind = "fitted" if self._fits_softmax else "model"
        facts = {
            "text": self._text_fingerprint,
            "softmax": f"{kind}, of {self._vocabulary.fingerprint}",
        }
        if self._job.mode == "resume":
            self._record.check_same(facts, self._record_path)
            return
        check_long_enough(self._domain.train, self._settings)
        self._folder.clear()
        self._record.run |= facts
        self._save_record()
        # `LanguageModel.write` writes it again, with the model; until then it explains the softmax
        # in `FITTED_FILE`. A resumed run does not read it.
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
            self._settings,
            max_tokens=self._job.softmax_tokens or SOFTMAX_TOKENS,
            report=self._reporter.log_line,
        )
        write_softmax(softmax, self._folder.path / FITTED_FILE)
        return softmax

    def _read_fitted_softmax(self) -> NextTokenSoftmax:
        path = self._folder.path / FITTED_FILE
        if not path.exists():
            raise ResumeError("is missing, so the run cannot continue", START_OVER, where=path)
        projection_dim = self._source.bilm.options.projection_dim
        return read_softmax(path, n_types=len(self._vocabulary), projection=projection_dim)

    def train(self, model: LanguageModel) -> TrainingProgress:
        """Train biLM and softmax; the folder then contains the best model of all evaluations."""
        path = self._folder.path
        group = ProcessGroup(device=self._job.device)
        step = TrainStep(model, self._domain.train, self._settings, group)
        if self._continues_adagrad:
            self._reporter.message("Adagrad continues with the accumulators of the model")
            self._start_from_accumulators(step)
        trainer = Trainer(step, self._domain.validation, self._folder, self._reporter)
        if self._folder.has_progress:
            trainer.resume()
            # These belong to the weights of an earlier part of the run.
            (path / CARD_FILE).unlink(missing_ok=True)
            (path / STATE_FILE).unlink(missing_ok=True)
        estimate = trainer.estimate()
        self._reporter.estimate(estimate)
        # That of the job: in `self._settings` an interval is always set.
        if self._job.settings.eval_steps is None:
            trainer.eval_steps = eval_steps_in_time(self._settings, estimate.rate)
        trainer.train()
        return trainer.progress

    def _start_from_accumulators(self, step: TrainStep) -> None:
        """Read the accumulators of the source; a ModelError if parts.json records others."""
        files = self._source.files
        warning = check_parts(files, {"optimizer": files.optimizer_state})
        if warning:
            self._reporter.message(f"warning: {warning}")
        with files.open() as source:
            accumulators = source.accumulators(len(self._vocabulary))
            step.start_from(accumulators, loss_tokens=source.loss_tokens)

    def finish(self, progress: TrainingProgress) -> FinetuneResult:
        """Measure the model in the folder, which is the source if no step was better."""
        path = self._folder.path
        is_improved = progress.best_step > 0
        before = self._record.before
        assert before is not None
        is_rounded = self._settings.dtype != "float32"  # the model was measured in float32
        if is_improved or is_rounded:
            written = load_language_model(path).to(self._job.device)
            after = figures_of(self._perplexity(written))
        else:
            after = before  # the same weights have the same figures
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
        files = self._source.files
        write_card(
            path / CARD_FILE,
            result,
            files.weights_sha256,
            self._record.train,
            source=find_model(files.name) if files.origin != "path" else None,
        )
        return result

    def _vocabulary_source(self) -> str:
        if self._source.vocabulary is None:
            return "counted in the domain"
        return self._job.vocabulary or "that of the model"

    def _measure(self, model: LanguageModel, name: str) -> Perplexity:
        """Measure a model on the test text, and print the figures under a name."""
        measured = self._perplexity(model)
        self._reporter.message(
            f"{name}: perplexity {measured.average:.2f} (forward {measured.forward:.2f}, "
            f"backward {measured.backward:.2f}), {measured.unknown_fraction:.2%} unknown"
        )
        return measured

    def _perplexity(self, model: LanguageModel) -> Perplexity:
        """Measure a model on the test text."""
        test = self._domain.test
        n_done = 0

        def on_progress(n_new: int) -> None:
            nonlocal n_done
            n_done += n_new
            self._reporter.progress("measuring on the test text", n_done, test.n_predictions)

        return perplexity(model, test, on_progress=on_progress)

    def _save_record(self) -> None:
        self._record.write(self._record_path)
