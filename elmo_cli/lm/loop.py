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
    Attributes:
        eval_steps: at first that of the settings.
    """

    def __init__(
        self, step: TrainStep, heldout: Corpus | None, folder: RunFolder, report: Reporter = SILENT
    ) -> None:
        self.step = step
        self.heldout = heldout
        self.folder = folder
        self.settings = step.settings
        self.eval_steps = step.settings.eval_steps
        self.progress = TrainingProgress(step.new_state(step.settings.n_streams))
        self._reporter = report
        self._group = step.group
        self._log = TrainingLog(folder.path)
        self._checkpoint = folder.path / CHECKPOINT_FILE
        self._started_at = 0.0  # on the monotonic clock, as if there had been no earlier part
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
        content = self.step.state_dict()
        whole_state = self._group.gather_state(self.progress.state)

        def write() -> None:
            before()
            self.progress.log_size = self._log.synced_size()
            whole_progress = replace(self.progress, state=whole_state)
            save_checkpoint(self._checkpoint, self.step, content, whole_progress)

        self._group.run_on_first(write)

    def train(self) -> None:
        """Train until a limit is reached; the folder then holds the model.

        Raises:
            TrainingError: the text is shorter than one batch, or the model has diverged.
            StoppedError: SIGINT or SIGTERM was received; everything is saved.
            OutputError: the folder can't be written to.
        """
        progress = self.progress
        self._started_at = time.monotonic() - progress.seconds
        with stop_on_signal() as signals:
            if progress.step == 0:
                self.save()  # so that a full disk is noticed now rather than after hours
            needs_best = self.settings.keep_best or self.settings.patience is not None
            if needs_best and progress.best_step < 0:
                self._evaluate()  # the initial weights may be the best ones
            is_stopped = self._train_until_limit(signals)
            if is_stopped:
                self._stop()
            self._evaluate()
        self._synchronize(False)
        self._log_loss()  # a resumed run removes the line and logs these losses again

    def _train_until_limit(self, signals: threading.Event) -> bool:
        """Train until a limit is reached or a signal received; return whether one was."""
        progress = self.progress
        stream = self._batches()
        must_stop = self._synchronize(signals.is_set())
        saved_at_s = progress.seconds
        while not must_stop and self._fraction_done < 1:
            self._train_one_batch(next(stream))
            must_stop = self._synchronize(signals.is_set())
            self._report_progress()
            if progress.step % self.settings.log_steps == 0:
                self._end_log_interval()
            is_late = progress.seconds - saved_at_s >= self.settings.eval_seconds
            is_evaluation = self._is_evaluation_due(is_late)
            if is_evaluation:
                self._evaluate()
            elif is_late:
                self.save()
            if is_evaluation or is_late:
                must_stop = self._synchronize(signals.is_set())
                saved_at_s = progress.seconds
        return must_stop

    def _is_evaluation_due(self, is_late: bool) -> bool:
        """Whether to evaluate after this step; `is_late` if `eval_seconds` have passed."""
        if self.eval_steps is None:
            return is_late
        return self.progress.step % self.eval_steps == 0

    def estimate(self) -> Estimate:
        """Measure the speed of training, or take that of the earlier parts of the run.

        All processes must call this; it changes nothing.
        """
        self._reporter.progress("timing training steps", 0, None)
        progress = self.progress
        batch = next(self._batches())
        if progress.step:
            rate = progress.tokens / max(1e-9, progress.seconds)
        else:
            rate = batch.n_tokens / self.step.seconds(batch)
        n_tokens_of_epoch = batch.n_batches * batch.n_tokens
        return progress.estimate(
            self.settings, step=batch.n_tokens, epoch=n_tokens_of_epoch, rate=rate
        )

    def _batches(self) -> Iterator[StreamBatch]:
        """Yield the batches from the present position on."""
        return batches(
            self.step.corpus,
            self.settings,
            self._group.size,
            epoch=self.progress.epoch,
            index=self.progress.index,
        )

    def _train_one_batch(self, batch: StreamBatch) -> None:
        progress = self.progress
        rate = learning_rate_at(self.settings, progress.step, self._fraction_done)
        loss, progress.state = self.step(batch, progress.state, rate)
        progress.step += 1
        self._check_convergence("loss", loss, progress.best_loss, math.inf)
        progress.losses.append(loss)
        progress.tokens += batch.n_tokens
        progress.epoch = batch.epoch
        progress.index = batch.index + 1
        progress.n_batches = batch.n_batches

    def _synchronize(self, stop: bool) -> bool:
        """Synchronize the clock with the first process; return whether any process must stop."""
        own_seconds = time.monotonic() - self._started_at
        own_fraction = max(self.progress.limits_used(self.settings, own_seconds).values())
        values, must_stop = self._group.from_first([own_seconds, own_fraction], stop)
        self.progress.seconds, self._fraction_done = values
        return must_stop

    def _evaluate(self) -> None:
        """Measure, export and save, unless this step has already been evaluated."""
        progress = self.progress
        start_s = time.monotonic()
        if progress.evaluated_at == progress.step:
            return
        progress.evaluated_at = progress.step

        def measure_and_export() -> None:
            log_line = self._measure()
            # Export before the checkpoint: a run killed in between evaluates and exports again.
            if not self.settings.keep_best or progress.best_step == progress.step:
                progress.exported = log_line
                self._export()

        self.save(measure_and_export)
        progress.evaluation_seconds = time.monotonic() - start_s

    def _measure(self) -> dict[str, Any]:
        """Evaluate the held-out text and return the log line; {} without such a text."""
        progress = self.progress
        if self.heldout is None:
            return {}
        self._reporter.progress("evaluating", 0, None)
        measured = perplexity(self.step.model, self.heldout)
        log_line = self._write_log({"heldout": asdict(measured)})
        most = _DIVERGED * progress.best
        self._check_convergence("held-out perplexity", measured.average, progress.best, most)
        if measured.average < progress.best:
            progress.best = measured.average
            progress.best_step = progress.step
            progress.evaluations_since_best = 0
        else:
            progress.evaluations_since_best += 1
        return log_line

    def _check_convergence(self, name: str, value: float, best: float, most: float) -> None:
        """Raise a TrainingError if a value is not finite or larger than `most`."""
        if math.isfinite(value) and value <= most:
            return
        before = f", which was {best:.4g} before" if math.isfinite(best) else ""
        rate = self.settings.peak_rate
        raise TrainingError(
            f"{name} {value:.4g}{before}, at a learning rate of {rate:g}",
            f"`resume=True` with `learning_rate={rate / 4:g}` continues from the last checkpoint",
            where=f"step {self.progress.step}",
        )

    def _stop(self) -> None:
        """Save everything and raise the StoppedError."""
        self.save()
        if not self.settings.keep_best:
            self._group.run_on_first(self._export)
        self._log_loss()
        problem = f"stopped at step {self.progress.step:,}; everything is saved"
        hint = "the same command with `resume=True` continues the run"
        raise StoppedError(problem, hint, where=self.folder.path)

    def _export(self) -> None:
        self.step.model.write(self.folder.path, self.settings.dtype)

    def _log_loss(self) -> None:
        """Log the mean loss of the steps since the last loss in the log, if there are any."""
        progress = self.progress
        if not progress.losses:
            return
        progress.loss = sum(progress.losses) / len(progress.losses)
        facts = {
            "loss": progress.loss,
            "learning_rate": self.step.learning_rate,
            "sampled_softmax": self.step.is_sampled,
        }
        self._group.run_on_first(lambda: self._write_log(facts))

    def _end_log_interval(self) -> None:
        """Log the mean loss, check it, and begin a new mean."""
        progress = self.progress
        self._log_loss()
        progress.losses.clear()
        most = progress.best_loss + math.log(_DIVERGED)
        self._check_convergence("loss", progress.loss, progress.best_loss, most)
        progress.best_loss = min(progress.loss, progress.best_loss)

    def _write_log(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Write and report a log line with the position of the run; return it."""
        progress = self.progress
        line = {
            "step": progress.step,
            "epoch": progress.epoch,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds, 1),
            **facts,
        }
        self._log.append(line)
        self._reporter.log_line(line)
        return line

    def _report_progress(self) -> None:
        progress = self.progress
        total = None
        if self._fraction_done and progress.tokens:
            total = progress.tokens / self._fraction_done
        detail = f"epoch {progress.epochs:.2f}"
        if progress.losses:
            detail += f", loss {progress.losses[-1]:.2f}"
        self._reporter.progress("training", progress.tokens, total, detail)


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """Set an event on SIGINT or SIGTERM; the second signal of a kind has its usual effect.

    Signals that are ignored, as in background jobs, stay ignored; only the main thread gets any.
    """
    event = threading.Event()
    handlers: dict[int, Any] = {}  # those before, by number of the signal

    def on_signal(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(number, handlers[number])

    if threading.current_thread() is threading.main_thread():
        for stop_signal in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(stop_signal)
            if handler is not signal.SIG_IGN:
                handlers[stop_signal] = handler
                signal.signal(stop_signal, on_signal)
    try:
        yield event
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
