"""Fine-tuning as a whole: a biLM goes on training on a domain, and is measured before and after."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any

from elmo_cli.lm.card import card
from elmo_cli.lm.checkpoint import TrainingProgress
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.export import export_model
from elmo_cli.lm.finetune.domain import Domain, DomainTexts, find_texts, read_domain
from elmo_cli.lm.finetune.fit_softmax import fit_softmax
from elmo_cli.lm.folder_lock import FolderLock
from elmo_cli.lm.language_model import LanguageModel, load_language_model
from elmo_cli.lm.loop import Trainer
from elmo_cli.lm.perplexity import Perplexity, perplexity
from elmo_cli.lm.source_model import SourceModel, load_source
from elmo_cli.lm.step import TrainStep
from elmo_cli.lm.stream import check_long_enough
from elmo_cli.lm.tuning_folder import FITTED_NAME, TuningFolder
from elmo_cli.lm.tuning_job import Figures, FineTuned, FinetuneJob, suited
from elmo_cli.model.bilm import NextTokenSoftmax
from elmo_cli.pretrained.model_files import VOCABULARY_FILE
from elmo_cli.text.input import InputReport, check_inputs
from elmo_cli.weightfile.read import read_softmax
from elmo_cli.weightfile.write import write_softmax

_LOOK_TOKENS = 20_000  # of the held-out text, measured at each look; all of it before and after
_SHARE_TO_FIT = 1 / 3  # of the time limit
_MUCH_MEASURING = 1 / 2  # of it, which is told
_NO_TIME_S = 1e-3  # the limit of a run that has none left

Report = Callable[[dict[str, Any]], None]
Say = Callable[[str], None]


def finetune(
    job: FinetuneJob,
    *,
    report: Report = lambda line: None,
    say: Say = lambda line: None,
    noticed: Callable[[InputReport], None] = lambda notes: None,
    lock: FolderLock | None = None,
) -> FineTuned:
    """Fine-tune a biLM on a domain, and write it as a model folder; the source stays as it is.

    Args:
        report: called with each line of the log, and with each pass of a fit (see `fit_softmax`).
        say: called with what was found or is begun, in words.
        noticed: called with what the readers of text noticed, before the work begins.
        lock: of the folder, where it is to be held longer than this takes.
    Raises:
        UsageError, OutputError, ResumeError: of `TuningFolder.check` and `FinetuneJob.check`.
        ModelError, OptionsError, WeightFileError, InputError: of `load_source`.
        TrainingError, InputError: of `find_texts`, `read_domain` and `Trainer`.
        StoppedError: of `Trainer`.
    """
    with lock or FolderLock(job.output) as held:
        folder = TuningFolder(job.output, held)
        folder.check(job.source, resume=job.resume, overwrite=job.overwrite)
        files = find_texts(job.domain, job.heldout)
        check_inputs([*files.train, *files.heldout], job.reading)
        source = load_source(job.source, fit_head=job.fit_head)
        if source.warning:
            say(f"warning: {source.warning}")
        if not job.resume:  # what an earlier version let pass is not to end its run
            job.check(source)
        if files.not_read:
            say(f"not read: {', '.join(files.not_read)}")
        notes = InputReport()
        most = source.bilm.options.max_characters
        domain = read_domain(files, job.reading, max_characters=most, report=notes)
        noticed(notes)
        run = _Run(job, source, domain, folder, report, say)
        head = run.begin(files)
        return run.result(run.train(head))


class _Run:
    def __init__(
        self,
        job: FinetuneJob,
        source: SourceModel,
        domain: Domain,
        folder: TuningFolder,
        report: Report,
        say: Say,
    ) -> None:
        self._job, self._source, self._domain = job, source, domain
        self._folder, self._report, self._say = folder, report, say
        self._settings = suited(job.settings, domain.train)
        self._look = domain.heldout.sample_evenly(_LOOK_TOKENS)
        self._vocabulary = source.vocabulary or domain.train.vocabulary(
            min_count=job.min_count,
            max_types=job.max_types,
            warn=lambda warning: say(f"warning: {warning}"),
        )
        self._bilm = source.bilm.to(job.device)

    def begin(self, files: DomainTexts) -> NextTokenSoftmax:
        """The softmax that training begins with; what the model is worth before it is recorded."""
        domain, folder = self._domain, self._folder
        self._say(
            f"{domain.train.n_tokens:,} tokens to train on; "
            f"{domain.heldout.n_tokens:,} held out ({domain.source})"
        )
        settings = self._settings
        if not self._job.resume:  # or it may be that the run began with fewer rows, which is told
            a_step = settings.batch_size * settings.gradient_accumulation_steps
            check_long_enough(domain.train, batch_size=a_step, bptt=settings.bptt)
        # What a run that goes on must agree with; the checkpoint knows sizes, text and settings.
        run = {
            "model": f"sha256 {self._source.files.sha256}",
            "text": domain.fingerprint,
            "softmax": f"{self._which_head}, of {self._vocabulary.fingerprint}",
        }
        if self._job.resume:
            folder.go_on(run)
        else:
            folder.begin(run, overwrite=self._job.overwrite, domain=asdict(files))
            self._vocabulary.write(folder.path / VOCABULARY_FILE)
        is_measured = "before" in folder.record
        own = self._source.head
        if own is not None and not self._job.fit_head:
            head = own.to(self._job.device)
        else:
            if own is not None and not is_measured:
                measured = self._measure("the model's own softmax", own.to(self._job.device))
                folder.note(before_model_softmax=asdict(Figures.of(measured)))
            head = self._fitted_head() if is_measured else self._fit()
        if not is_measured:
            begun = time.monotonic()
            measured = self._measure("before", head)
            folder.note(
                before=asdict(Figures.of(measured)),
                unknown_fraction=measured.unknown_fraction,
                measuring_s=round(time.monotonic() - begun, 3),
            )
        return head

    def train(self, head: NextTokenSoftmax) -> TrainingProgress:
        """Train biLM and softmax; the folder then holds the best model of all looks."""
        folder, settings = self._folder, self._settings
        limit, measuring_s = settings.max_seconds, folder.record["measuring_s"]
        # A prediction takes as long in a look as it took before.
        look_s = measuring_s * _n_predictions(self._look) / _n_predictions(self._domain.heldout)
        left = math.inf
        if limit is not None:  # what the folder holds is measured at the end
            left = limit - self._spent_s - measuring_s
            settings = replace(settings, max_seconds=max(left, _NO_TIME_S))
        model = LanguageModel(self._bilm, head, self._vocabulary)
        group = ProcessGroup(device=self._job.device)
        step = TrainStep(model, self._domain.train, settings, group)
        trainer = Trainer(step, self._look, folder.path, self._report)
        trainer.progress.evaluation_seconds = look_s
        if folder.has_checkpoint:
            trainer.resume()
            folder.forget_end()
        if limit is not None and trainer.progress.step == 0:
            training_s = left - 2 * look_s  # before the first step and after the last
            self._warn_of_measuring(limit, training_s)
            if training_s <= 0:
                if not folder.has_checkpoint:
                    trainer.save()
                return trainer.progress
        return trainer.train().progress

    def result(self, progress: TrainingProgress) -> FineTuned:
        """Measure what the folder holds, and put the source there if that is better."""
        folder, record, heldout = self._folder, self._folder.record, self._domain.heldout
        before, begun = Figures(**record["before"]), time.monotonic()
        after = self._measure_folder() if progress.best_step > 0 else before
        is_better = after.perplexity["average"] < before.perplexity["average"]
        if not is_better:
            self._put_source_back()
            # The same weights have the same figures, but for the rounding of float16.
            after = before if self._settings.dtype == "float32" else self._measure_folder()
        seconds = self._spent_s + progress.seconds + time.monotonic() - begun
        true_head = record.get("before_model_softmax")
        done = FineTuned(
            model=self._source.files.name,
            output=str(folder.path),
            softmax=self._which_head,
            before=before,
            before_model_softmax=Figures(**true_head) if true_head else None,
            after=after,
            unknown_fraction=record["unknown_fraction"],
            vocabulary={"types": len(self._vocabulary), "source": self._where_from},
            heldout={
                "source": self._domain.source,
                "tokens": heldout.n_tokens,
                "sentences": heldout.n_sentences,
                "overlap": self._domain.overlap,
            },
            tokens=progress.tokens,
            epochs=progress.epochs,
            seconds=round(seconds, 1),
            improved=is_better,
        )
        folder.note(result=done.as_object())
        folder.write_card(card(done, self._source.files.weights_sha256, record["domain"]["train"]))
        return done

    def _fit(self) -> NextTokenSoftmax:
        limit = self._settings.max_seconds
        self._say(f"a softmax of {len(self._vocabulary):,} types is fitted to the frozen biLM")
        fit = fit_softmax(
            self._bilm,
            self._vocabulary,
            replace(self._domain, heldout=self._look),
            replace(self._settings, max_seconds=limit and limit * _SHARE_TO_FIT),
            self._job.head_tokens,
            self._report,
        )
        write_softmax(fit.softmax, self._folder.path / FITTED_NAME)
        seconds = round(fit.seconds, 1)
        self._folder.note(fit={"tokens": fit.tokens, "passes": fit.passes, "seconds": seconds})
        return fit.softmax

    def _fitted_head(self) -> NextTokenSoftmax:
        projection = self._bilm.options.projection_dim
        path, n_types = self._folder.fitted(), len(self._vocabulary)
        return read_softmax(path, n_types=n_types, projection=projection).to(self._job.device)

    def _measure(self, what: str, head: NextTokenSoftmax) -> Perplexity:
        measured = perplexity(
            LanguageModel(self._bilm, head, self._vocabulary), self._domain.heldout
        )
        self._say(
            f"{what}: perplexity {measured.average:.2f} (forward {measured.forward:.2f}, "
            f"backward {measured.backward:.2f}), {measured.unknown_fraction:.2%} unknown"
        )
        return measured

    def _measure_folder(self) -> Figures:
        """The model as it was written, in whatever dtype."""
        model = load_language_model(self._folder.path)
        device = self._job.device
        model.bilm.to(device)
        model.softmax.to(device)
        return Figures.of(perplexity(model, self._domain.heldout))

    def _warn_of_measuring(self, limit: float, training_s: float) -> None:
        """Say that the time limit is not for training.

        Args:
            training_s: what is left of it; 0 or less for nothing.
        """
        fit_s = self._fit_s
        measuring_s = limit - training_s - fit_s
        if training_s > 0 and measuring_s <= _MUCH_MEASURING * limit:
            return
        fitting = f", fitting took {fit_s:,.1f} s" if fit_s else ""
        left = f"{training_s:,.1f} s are left" if training_s > 0 else "no time is left"
        self._say(
            f"warning: measuring takes about {measuring_s:,.1f} s of the {limit:,.1f} s of "
            f"--max-seconds{fitting}: {left} to train; raise it, or give a shorter `--heldout`"
        )

    def _put_source_back(self) -> None:
        source = load_source(self._job.source, fit_head=self._job.fit_head)
        head = source.head if self._which_head == "model" else None
        export_model(
            self._folder.path,
            source.bilm,
            head or self._fitted_head(),
            self._vocabulary,
            dtype=self._settings.dtype,
        )

    @property
    def _fit_s(self) -> float:
        seconds: float = self._folder.record.get("fit", {}).get("seconds", 0.0)
        return seconds

    @property
    def _spent_s(self) -> float:
        """On fitting, and on measuring with one softmax or two, before training."""
        n_heads = 2 if "before_model_softmax" in self._folder.record else 1
        measuring_s: float = self._folder.record["measuring_s"]
        return self._fit_s + n_heads * measuring_s

    @property
    def _which_head(self) -> str:
        return "fitted" if self._job.fit_head or self._source.head is None else "model"

    @property
    def _where_from(self) -> str:
        if self._source.vocabulary is None:
            return "counted in the domain"
        return self._job.source.vocabulary or "that of the model"


def _n_predictions(corpus: Corpus) -> int:
    return corpus.n_tokens + corpus.n_sentences
