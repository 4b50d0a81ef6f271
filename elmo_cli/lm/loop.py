"""The training loop: step after step, until a limit is reached or nothing gets better."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from elmo_cli.engine.runtime import is_out_of_memory
from elmo_cli.errors import StoppedError
from elmo_cli.lm import checkpoint
from elmo_cli.lm.best_weights import best_path, drop_other_bests, load_best, save_best
from elmo_cli.lm.budget import Budget
from elmo_cli.lm.checkpoint import Parts, Progress
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.distributed import ProcessGroup
from elmo_cli.lm.export import export_model
from elmo_cli.lm.failures import diverged, no_memory
from elmo_cli.lm.language_model import LanguageModel
from elmo_cli.lm.log import FILE_NAME as LOG_NAME
from elmo_cli.lm.log import Log
from elmo_cli.lm.model_folder import new_folder
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.schedule import set_rate
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.signals import StopSignals
from elmo_cli.lm.step import Learner
from elmo_cli.lm.stream import Batch, batches
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.state import State
from elmo_cli.text.vocabulary import Vocabulary

_FAR_WORSE = 10  # times the best perplexity: what gets there does not come back


class Trainer:
    """One training run: its model, its place in the text, its log.

    Args:
        bilm, head: on the device of `team`.
        folder: of the model that is made; checkpoints and the log stand there too.
        report: called with each line of the log.
        team: the processes that train together; None for this one alone, on the CPU.
    Raises:
        UsageError: settings that need a held-out text, without one.
    """

    def __init__(
        self,
        bilm: BiLM,
        head: NextTokenSoftmax,
        vocabulary: Vocabulary,
        corpus: Corpus,
        heldout: Corpus | None,
        settings: TrainSettings,
        folder: Path,
        report: Callable[[dict[str, Any]], None] = lambda line: None,
        team: ProcessGroup | None = None,
    ) -> None:
        settings.check_heldout(is_there=heldout is not None)
        self.bilm, self.head, self.vocabulary = bilm, head, vocabulary
        self.corpus, self.heldout, self.settings = corpus, heldout, settings
        self.folder, self._report, self._team = folder, report, team or ProcessGroup()
        self._lines = Log(folder / LOG_NAME)
        self._learner = Learner(bilm, head, corpus, vocabulary, settings, self._team)
        self._parts = Parts(self._learner.model, self._learner.optimizer, self._learner.negatives)
        self._heldout_is = "" if heldout is None else heldout.known_by
        self.progress = Progress(self._learner.new_state(), heldout=self._heldout_is)
        self._share_done = 0.0  # as all processes have agreed
        self._exported = -1  # the step whose weights this process has exported

    def resume(self) -> None:
        """Go on where the last checkpoint in the folder was made; later lines of the log are
        dropped, since they come again. Looks at another held-out text are not compared with, nor
        is a best look whose weights were not kept, where they are to be kept from now on.

        Raises:
            ResumeError: there is none, or it is of another run.
        """
        self.progress, dropped = checkpoint.load(self._checkpoint, self._parts, self._run())
        best = best_path(self.folder, self.progress.best_step)
        if self.progress.heldout != self._heldout_is or (
            self.settings.keep_best and not best.exists()
        ):
            self.progress.forget_looks()
            self.progress.heldout = self._heldout_is
        rows, team = self._learner.own_rows, self._team
        self.progress.state = self.progress.state.select_rows(rows).to(team.device)
        if len(dropped) == team.size:
            checkpoint.take_up(self._checkpoint, self._learner.dropped, dropped[team.rank])
        else:  # other processes share the rows now
            self._learner.seed_dropout(self.progress.step)
        team.run_on_first(lambda: self._lines.cut(self.progress.log_size))

    def begin(self) -> None:
        """Save the run before its first step.

        Raises:
            OutputError: the folder can't be written to.
        """
        self._save_together()

    def train(self, look_s: float = 0.0) -> Progress:
        """Train until a limit is reached, then export the model.

        With `keep_best`, biLM and head end as the weights that were exported.

        Args:
            look_s: seconds that a look takes; 0 where that is not known before the first.
        Raises:
            TrainingError: the model has got far worse, or the loss is no number any more; the last
                checkpoint is kept.
            StoppedError: SIGINT or SIGTERM came; checkpoint and model are written.
            OutputError: the folder can't be written to.
        """
        new_folder(self.folder)
        settings, progress = self.settings, self.progress
        stream = batches(
            self.corpus,
            batch_size=self._n_rows,
            bptt=settings.bptt,
            seed=settings.seed,
            shuffle=settings.shuffle,
            start=(progress.epoch, progress.place),
        )
        budget = Budget(settings, progress, self.heldout, look_s)
        with StopSignals() as signals:
            if progress.step == 0:
                self._save_together()  # a full disk is met now rather than after hours
                budget.save_s = budget.seconds - progress.seconds
            if (settings.keep_best or settings.patience) and progress.best_step < 0:
                self._look(budget)  # fine-tuned weights may be no better than those it began with
            stop = self._agree(budget, signals.received)
            saved_s = progress.seconds
            while not stop and self._share_done < 1:
                self._step(next(stream))
                stop = self._agree(budget, signals.received)
                if progress.step % settings.log_steps == 0:
                    self._log_steps()
                is_late = progress.seconds - saved_s >= settings.eval_seconds
                if self._is_look_due(is_late):
                    self._look(budget)
                elif is_late:
                    self._save_together()
                else:
                    continue
                stop = self._agree(budget, signals.received)
                saved_s = progress.seconds
            if stop:
                self._stop()
            self._look(budget)
        self._team.run_on_first(self._export_last)
        self._agree(budget, False)
        self._log_rest()
        return progress

    def _step(self, batch: Batch) -> None:
        progress, learner = self.progress, self._learner
        set_rate(learner.optimizer, self.settings, step=progress.step, share_done=self._share_done)
        try:
            loss, progress.state = learner.learn(batch, progress.state)
        except (RuntimeError, MemoryError) as error:
            if is_out_of_memory(error):
                raise no_memory(progress.step + 1, self.settings, self._team.device) from None
            raise
        if not math.isfinite(loss):
            raise diverged(
                progress.step + 1, "the loss or its gradient is no number", self.settings
            )
        progress.losses.append(loss)
        progress.step += 1
        progress.tokens += batch.inputs[:, 0].size
        progress.epoch, progress.place = batch.epoch, batch.index + 1
        progress.n_places = batch.n_batches

    def _agree(self, budget: Budget, stop: bool) -> bool:
        """Take over the first process's clock and its view of what is done; whether to stop."""
        seconds = budget.seconds
        said = seconds, budget.share_done(seconds)
        (self.progress.seconds, self._share_done), stop = self._team.from_first(said, stop)
        return stop

    def _is_look_due(self, is_late: bool) -> bool:
        every = self.settings.eval_steps
        return is_late if every is None else self.progress.step % every == 0

    def _look(self, budget: Budget) -> None:
        """Measure, save, export; nothing where this step was looked at before."""
        progress, begun = self.progress, budget.seconds
        if progress.evaluated_at == progress.step:
            return
        progress.evaluated_at = progress.step
        everything = self._everything()

        def alone() -> None:
            is_best = self._measure()
            if is_best and self.settings.keep_best:
                save_best(self.folder, self._learner.model, progress.step)
            self._save(everything)
            if self.settings.keep_best:
                drop_other_bests(self.folder, progress.best_step)
            if is_best or not self.settings.keep_best:
                self._export()

        self._team.run_on_first(alone)
        budget.look_s = budget.seconds - begun

    def _measure(self) -> bool:
        """Look at the held-out text; True if it was never predicted better."""
        progress = self.progress
        if self.heldout is None:
            return False
        measured = perplexity(LanguageModel(self.bilm, self.head, self.vocabulary), self.heldout)
        self._log({"heldout": asdict(measured)})
        what = f"held-out perplexity {measured.average:.4g}"
        if math.isinf(measured.average):
            raise diverged(progress.step, what, self.settings)
        if not measured.average <= _FAR_WORSE * progress.best:
            what += f", which was {progress.best:.4g} before"
            raise diverged(progress.step, what, self.settings)
        if measured.average >= progress.best:
            progress.looks_since_best += 1
            return False
        progress.best, progress.best_step = measured.average, progress.step
        progress.looks_since_best = 0
        return True

    def _stop(self) -> None:
        self._save_together()
        if not self.settings.keep_best:
            self._team.run_on_first(self._export)
        self._log_rest()
        where = "the same command with `--resume` goes on from there"
        if self.settings.keep_best:
            best = max(self.progress.best_step, 0)
            where += f"; the weights in the folder are of the best look, at step {best:,}"
        raise StoppedError(
            f"{self.folder}: stopped at step {self.progress.step:,}, all is saved", where
        )

    def _everything(self) -> tuple[State, list[Tensor]]:
        """What the processes hold each for itself: states of rows, random numbers of dropout."""
        dropped = self._team.gather_bytes(self._learner.dropped.get_state())
        return self._team.gather_state(self.progress.state), dropped

    def _save_together(self) -> None:
        """Save; where the first process can't, all of them fail."""
        everything = self._everything()
        self._team.run_on_first(lambda: self._save(everything))

    def _save(self, everything: tuple[State, list[Tensor]]) -> None:
        state, dropped = everything
        self.progress.log_size = self._lines.safe_size()
        saved = replace(self.progress, state=state)
        checkpoint.save(self._checkpoint, self._parts, saved, dropped, self._run())

    def _export(self) -> None:
        dtype = self.settings.dtype
        export_model(self.folder, self.bilm, self.head, self.vocabulary, dtype=dtype)
        self._exported = self.progress.step

    def _export_last(self) -> None:
        step = self.progress.best_step if self.settings.keep_best else self.progress.step
        if self.settings.keep_best:
            load_best(self.folder, self._learner.model, step)
        if step != self._exported:  # by an earlier part of the run, which may have ended before it
            self._export()

    def _log_rest(self) -> None:
        # After the last checkpoint, which has these losses: who goes on cuts the line off, and has
        # them in the next one.
        if self.progress.losses:
            self._log_losses()

    def _log_steps(self) -> None:
        progress, loss = self.progress, self._log_losses()
        progress.losses.clear()
        if loss > progress.best_loss + math.log(_FAR_WORSE):
            what = f"the loss is {loss:.4g}, which was {progress.best_loss:.4g} before"
            raise diverged(progress.step, what, self.settings)
        progress.best_loss = min(loss, progress.best_loss)

    def _log_losses(self) -> float:
        """Log the mean loss of the steps since the last such line; it is returned."""
        losses = self.progress.losses
        loss = sum(losses) / len(losses)
        rate = self._learner.optimizer.param_groups[0]["lr"]
        facts = {"loss": loss, "learning_rate": rate, "sampled_softmax": self._learner.is_sampled}
        self._team.run_on_first(lambda: self._log(facts))
        return loss

    def _log(self, facts: dict[str, Any]) -> None:
        line = {**self.progress.as_logged(), **facts}
        self._lines.add(line)
        self._report(line)

    @property
    def _n_rows(self) -> int:
        return self._team.size * self._learner.n_rows

    @property
    def _checkpoint(self) -> Path:
        return self.folder / checkpoint.FILE_NAME

    def _run(self) -> dict[str, Any]:
        return checkpoint.facts_of_run(
            self.settings,
            n_rows=self._n_rows,
            options=self.bilm.options,
            vocabulary=self.vocabulary,
            text=self.corpus,
        )
