"""The training loop: one process, window after window, until the time or the steps are used up."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmo_cli.errors import OutputError, TrainingError
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.softmax import NextToken
from elmo_cli.model.state import State
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.train import checkpoint
from elmo_cli.train.checkpoint import Parts, Progress
from elmo_cli.train.corpus import Corpus, Window, windows
from elmo_cli.train.export import export_model, new_folder
from elmo_cli.train.perplexity import perplexity
from elmo_cli.train.predictions import LogUniformSampler, sampled_loss
from elmo_cli.train.schedule import make_optimizer, set_rate
from elmo_cli.train.settings import TrainSettings
from elmo_cli.train.unroll import Dropout, token_vectors, unroll

_SCALE_OF_CLIP = 20  # the originals clip the gradient of the loss times 20 steps
LOG_NAME = "log.jsonl"


class Trainer:
    """One training run: its model, its place in the text, its log.

    Args:
        folder: of the model that is made; checkpoints and the log stand there too.
        report: called with each line of the log.
    """

    def __init__(
        self,
        bilm: BiLM,
        head: NextToken,
        vocabulary: Vocabulary,
        corpus: Corpus,
        heldout: Corpus | None,
        settings: TrainSettings,
        folder: Path,
        report: Callable[[dict[str, Any]], None] = lambda line: None,
    ) -> None:
        self.bilm, self.head, self.vocabulary = bilm, head, vocabulary
        self.corpus, self.heldout, self.settings = corpus, heldout, settings
        self.folder, self._report = folder, report
        self._model = nn.ModuleDict({"bilm": bilm, "head": head})
        self._ids = corpus.ids(vocabulary)
        optimizer = make_optimizer(settings, self._model.parameters())
        generator = torch.Generator().manual_seed(settings.seed)
        self._parts = Parts(self._model, optimizer, generator)
        self._dropout = Dropout(settings.dropout, generator)
        self._sampler = None
        if len(vocabulary) > settings.full_softmax:
            self._sampler = LogUniformSampler(len(vocabulary), settings.negatives)
        self.progress = Progress(State.zeros(bilm.options, settings.rows))

    def resume(self) -> None:
        """Go on where the last checkpoint in the folder was made.

        Raises:
            ResumeError: there is none, or it is of another run.
        """
        self.progress = checkpoint.load(self._checkpoint, self._parts, self._run())

    def train(self) -> Progress:
        """Train until the time or the steps are used up, then export the model.

        Raises:
            TrainingError: the loss is no number any more; the last checkpoint is kept.
            OutputError: the folder can't be written to.
        """
        new_folder(self.folder)
        settings, progress = self.settings, self.progress
        stream = windows(
            self.corpus,
            n_rows=settings.rows,
            n_steps=settings.steps,
            seed=settings.seed,
            epoch=progress.epoch,
            place=progress.place,
        )
        clock = _Clock(progress.seconds)
        saved_at = progress.seconds
        losses: list[float] = []
        while not self._is_over(clock.seconds):
            losses.append(self.step(next(stream), clock.seconds))
            progress.seconds = clock.seconds
            if progress.step % settings.log_steps == 0:
                self._log_steps(losses)
                losses.clear()
            if progress.seconds - saved_at >= settings.checkpoint_s:
                self._stop_by(clock)
                saved_at = progress.seconds
        self._stop_by(clock)
        return progress

    def step(self, window: Window, seconds: float) -> float:
        """Learn from one window; returns its loss, the mean of both directions.

        Raises:
            TrainingError: the loss is no number.
        """
        optimizer, progress = self._parts.optimizer, self.progress
        done = self._share_done(seconds)
        set_rate(optimizer, self.settings, step=progress.step, share_done=done)
        optimizer.zero_grad(set_to_none=True)
        loss, state = self._loss(window)
        value = loss.item()
        if not math.isfinite(value):
            rate = self.settings.peak_rate
            raise TrainingError(
                f"step {progress.step + 1}: the loss is {value} at a rate of {rate:g}",
                f"`--resume --rate {rate / 4:g}` goes on from the last checkpoint",
            )
        (loss * _SCALE_OF_CLIP).backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._model.parameters(), self.settings.clip)
        optimizer.step()
        progress.state = state
        progress.step += 1
        progress.tokens += window.read[:, 0].size
        progress.epoch, progress.place = window.epoch, window.place + 1
        return value

    def _loss(self, window: Window) -> tuple[Tensor, State]:
        vectors = token_vectors(self.bilm.char_cnn, self.corpus.characters, window.read)
        top, state = unroll(self.bilm, vectors, self.progress.state, self._dropout)
        h = top.flatten(0, 2)
        targets = torch.from_numpy(self._ids[window.predicted.reshape(-1)])
        if self._sampler is None:
            return -self.head(h, targets).mean(), state
        negatives, expected = self._sampler.draw(self._parts.generator)
        return sampled_loss(self.head, h, targets, negatives, expected), state

    def _share_done(self, seconds: float) -> float:
        steps, limit = self.settings.max_steps, self.settings.max_seconds
        return max(
            self.progress.step / steps if steps else 0.0,
            seconds / limit if limit else 0.0,
        )

    def _is_over(self, seconds: float) -> bool:
        return self._share_done(seconds) >= 1

    def _stop_by(self, clock: _Clock) -> None:
        """Save, measure, export."""
        self.progress.seconds = clock.seconds
        checkpoint.save(self._checkpoint, self._parts, self.progress, self._run())
        if self.heldout is not None:
            measured = perplexity(self.bilm, self.head, self.vocabulary, self.heldout)
            self._log({"heldout": asdict(measured)})
        export_model(self.folder, self.bilm, self.head, self.vocabulary)
        self.progress.seconds = clock.seconds

    def _log_steps(self, losses: list[float]) -> None:
        loss = sum(losses) / len(losses)
        rate = self._parts.optimizer.param_groups[0]["lr"]
        self._log({"loss": loss, "rate": rate, "sampled": self._sampler is not None})

    def _log(self, facts: dict[str, Any]) -> None:
        progress = self.progress
        line = {
            "step": progress.step,
            "epoch": progress.epoch,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds, 1),
            **facts,
        }
        path = self.folder / LOG_NAME
        try:
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise OutputError(
                f"{path}: can't be written ({error})", "free some space and `--resume`"
            ) from None
        self._report(line)

    @property
    def _checkpoint(self) -> Path:
        return self.folder / checkpoint.FILE_NAME

    def _run(self) -> dict[str, Any]:
        settings = asdict(self.settings)
        for free in ("max_seconds", "max_steps", "rate", "log_steps", "checkpoint_s"):
            del settings[free]
        return {
            **settings,
            "options": json.dumps(self.bilm.options.to_dict()),
            "vocabulary": f"{len(self.vocabulary)} types, crc {_crc(self.vocabulary.types):08x}",
            "text": f"{self.corpus.n_tokens} tokens, crc {zlib.crc32(self.corpus.tokens.data):08x}",
        }


def _crc(types: Sequence[str]) -> int:
    return zlib.crc32("\n".join(types).encode("utf-8", "surrogatepass"))


class _Clock:
    """Seconds since a start that lies `before` seconds back."""

    def __init__(self, before: float) -> None:
        self._start = time.monotonic() - before

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start
