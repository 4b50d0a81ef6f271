"""The training loop: limits, evaluations, checkpoints, the log and stop signals."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import FrameType
from typing import Any

from elmo_cli.errors import StoppedError, TrainingError
from elmo_cli.lm.checkpoint import TrainingProgress, load_checkpoint, save_checkpoint
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.step import TrainStep, learning_rate_at
from elmo_cli.lm.stream import StreamBatch, batches
from elmo_cli.pretrained.model_files import CHECKPOINT_FILE
from elmo_cli.training.reporter import SILENT, Estimate, Reporter
from elmo_cli.training.run_folder import RunFolder
from elmo_cli.training.training_log import TrainingLog

_DIVERGED = 10  # times the best perplexity: such a model does not recover


class Trainer:
    """A training run: its model, its position in the text, and its log.

    Args:
        step: the training step, with the model, text, settings and process group of the run.
        heldout: the text to evaluate on; `patience` and `keep_best` need one.
        folder: the folder for the model, checkpoint and log.
    """

    def __init__(
        self, step: TrainStep, heldout: Corpus | None, folder: RunFolder, report: Reporter = SILENT
    ) -> None:
        self.step, self.heldout, self.folder, self._reporter = step, heldout, folder, report
        self.settings, self._group = step.settings, step.group
        self._log, self._checkpoint = TrainingLog(folder.path), folder.path / CHECKPOINT_FILE
        state = step.new_state(step.settings.n_streams)
        self.progress = TrainingProgress(state)
        self._fraction_done = 0.0  # the same in all processes

    def resume(self) -> None:
        """Continue from the checkpoint in the folder and remove later lines from the log.

        Raises:
            ResumeError: there is no checkpoint, or it belongs to another run.
        """
        progress = load_checkpoint(self._checkpoint, self.step)
        progress.state = progress.state.select_rows(self.step.own_streams).to(self._group.device)
        self.progress = progress
        self._group.run_on_first(lambda: self._log.truncate(progress.log_size))

    def save(self, before: Callable[[], None] = lambda: None) -> None:
        """Save a checkpoint; if the first process fails, all processes raise an error.

        Args:
            before: called by the first process before it writes.
        """
        content, state = self.step.state_dict(), self._group.gather_state(self.progress.state)

        def write() -> None:
            before()
            self.progress.log_size = self._log.synced_size()
            saved = replace(self.progress, state=state)
            save_checkpoint(self._checkpoint, self.step, content, saved)

        self._group.run_on_first(write)

    def train(self) -> None:
        """Train until a limit is reached; the folder then holds the model.

        Raises:
            TrainingError: the text is shorter than one batch, or the model has diverged.
            StoppedError: SIGINT or SIGTERM was received; everything is saved.
            OutputError: the folder can't be written to.
        """
        settings, progress = self.settings, self.progress
        self._started_at = time.monotonic() - progress.seconds
        stream = self._batches()
        with stop_on_signal() as signals:
            if progress.step == 0:
                self.save()  # so that a full disk is noticed now rather than after hours
            if (settings.keep_best or settings.patience) and progress.best_step < 0:
                self._evaluate()  # the initial weights may be the best ones
            stop = self._synchronize(signals.is_set())
            saved_at = progress.seconds
            while not stop and self._fraction_done < 1:
                self._train_one_batch(next(stream))
                stop = self._synchronize(signals.is_set())
                self._report_progress()
                if progress.step % settings.log_steps == 0:
                    self._end_log_interval()
                is_late = progress.seconds - saved_at >= settings.eval_seconds
                every = settings.eval_steps
                is_evaluation = is_late if every is None else progress.step % every == 0
                if is_evaluation or is_late:
                    self._evaluate() if is_evaluation else self.save()
                    stop = self._synchronize(signals.is_set())
                    saved_at = progress.seconds
            if stop:
                self._stop()
            self._evaluate()
        self._synchronize(False)
        self._log_loss()  # a resumed run removes the line and logs these losses again

    def estimate(self) -> Estimate:
        """Measure the speed of training, or take that of the earlier parts of the run.

        All processes must call this; it changes nothing.
        """
        self._reporter.progress("timing training steps", 0, None)
        progress, batch = self.progress, next(self._batches())
        n_tokens = batch.inputs[:, 0].size
        if progress.step:
            rate = progress.tokens / max(1e-9, progress.seconds)
        else:
            rate = n_tokens / self.step.seconds(batch)
        epoch = batch.n_batches * n_tokens
        return progress.estimate(self.settings, step=n_tokens, epoch=epoch, rate=rate)

    def _batches(self) -> Iterator[StreamBatch]:
        start = self.progress.epoch, self.progress.index
        return batches(self.step.corpus, self.settings, self._group.size, start)

    def _train_one_batch(self, batch: StreamBatch) -> None:
        progress = self.progress
        rate = learning_rate_at(self.settings, progress.step, self._fraction_done)
        loss, progress.state = self.step(batch, progress.state, rate)
        progress.step += 1
        self._check_convergence("loss", loss, progress.best_loss, math.inf)
        progress.losses.append(loss)
        progress.tokens += batch.inputs[:, 0].size
        progress.epoch, progress.index = batch.epoch, batch.index + 1
        progress.n_batches = batch.n_batches

    def _synchronize(self, stop: bool) -> bool:
        """Synchronize the clock with the first process; return whether any process must stop."""
        seconds = time.monotonic() - self._started_at
        values = seconds, max(self.progress.limits_used(self.settings, seconds).values())
        (self.progress.seconds, self._fraction_done), stop = self._group.from_first(values, stop)
        return stop

    def _evaluate(self) -> None:
        """Measure, export and save, unless this step has already been evaluated."""
        progress, started_at = self.progress, time.monotonic()
        if progress.evaluated_at == progress.step:
            return
        progress.evaluated_at = progress.step

        def measure_and_export() -> None:
            measured = self._measure()
            # Export before the checkpoint: a run killed in between evaluates and exports again.
            if not self.settings.keep_best or progress.best_step == progress.step:
                progress.exported = measured
                self._export()

        self.save(measure_and_export)
        progress.evaluation_seconds = time.monotonic() - started_at

    def _measure(self) -> dict[str, Any]:
        """Evaluate the held-out text, if there is one, and return the log line."""
        progress = self.progress
        if self.heldout is None:
            return {}
        self._reporter.progress("evaluating", 0, None)
        measured = perplexity(self.step.model, self.heldout)
        line = self._write_log({"heldout": asdict(measured)})
        average, best = measured.average, progress.best
        self._check_convergence("held-out perplexity", average, best, _DIVERGED * best)
        progress.evaluations_since_best += 1
        if average < best:
            progress.best, progress.best_step = average, progress.step
            progress.evaluations_since_best = 0
        return line

    def _check_convergence(self, name: str, value: float, best: float, most: float) -> None:
        if not math.isfinite(value) or value > most:
            before = f", which was {best:.4g} before" if math.isfinite(best) else ""
            rate = self.settings.peak_rate
            what = f"{name} {value:.4g}{before}, at a learning rate of {rate:g}"
            hint = f"`resume=True` with `learning_rate={rate / 4:g}` continues from the last "
            raise TrainingError(f"step {self.progress.step}: {what}", f"{hint}checkpoint")

    def _stop(self) -> None:
        progress = self.progress
        self.save()
        if not self.settings.keep_best:
            self._group.run_on_first(self._export)
        self._log_loss()
        what = f"{self.folder.path}: stopped at step {progress.step:,}; everything is saved"
        raise StoppedError(what, "the same command with `resume=True` continues the run")

    def _export(self) -> None:
        self.step.model.write(self.folder.path, self.settings.dtype)

    def _log_loss(self) -> None:
        """Log the mean loss of the steps since the last loss in the log, if there are any."""
        progress = self.progress
        if not progress.losses:
            return
        progress.loss = sum(progress.losses) / len(progress.losses)
        facts = {"loss": progress.loss, "learning_rate": self.step.learning_rate}
        facts["sampled_softmax"] = self.step.is_sampled
        self._group.run_on_first(lambda: self._write_log(facts))

    def _end_log_interval(self) -> None:
        self._log_loss()
        progress = self.progress
        progress.losses.clear()
        most = progress.best_loss + math.log(_DIVERGED)
        self._check_convergence("loss", progress.loss, progress.best_loss, most)
        progress.best_loss = min(progress.loss, progress.best_loss)

    def _write_log(self, facts: dict[str, Any]) -> dict[str, Any]:
        progress = self.progress
        position = {"step": progress.step, "epoch": progress.epoch, "tokens": progress.tokens}
        line = {**position, "seconds": round(progress.seconds, 1), **facts}
        self._log.append(line)
        self._reporter.log_line(line)
        return line

    def _report_progress(self) -> None:
        progress, fraction = self.progress, self._fraction_done
        total = progress.tokens / fraction if fraction and progress.tokens else None
        loss = f", loss {progress.losses[-1]:.2f}" if progress.losses else ""
        detail = f"epoch {progress.epochs:.2f}{loss}"
        self._reporter.progress("training", progress.tokens, total, detail)


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """Set an event on SIGINT or SIGTERM; the second signal of a kind has its usual effect.

    Signals that are ignored, as in background jobs, stay ignored; only the main thread gets any.
    """
    event, handlers = threading.Event(), dict[int, Any]()

    def on_signal(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(number, handlers[number])

    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM):
            if (handler := signal.getsignal(one)) is not signal.SIG_IGN:
                handlers[one] = handler
                signal.signal(one, on_signal)
    try:
        yield event
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
