"""Budget: how much of a run's limits is used up."""

from __future__ import annotations

import time

from elmo_cli.lm.checkpoint import Progress
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.settings import TrainSettings


def reached(settings: TrainSettings, progress: Progress) -> str:
    """The limit that has ended a run, as the command line has it."""
    for name, done, limit in (
        ("patience", progress.looks_since_best, settings.patience),
        ("max-steps", progress.step, settings.max_steps),
        ("max-epochs", progress.epochs, settings.max_epochs),
    ):
        if limit is not None and done >= limit:
            return f"--{name} {limit}"
    return f"--max-seconds {settings.max_seconds:.12g}"


class Budget:
    """The clock of a run, and how far the run is.

    Args:
        progress: of the run; its seconds are those of the parts before this one.
        heldout: what is measured at the end.
        look_s: of a look, where that is known before the first.
    Attributes:
        save_s: seconds that a checkpoint took, 0 before the first.
        look_s: seconds that the last look took with the export, the given ones before the first.
    """

    def __init__(
        self,
        settings: TrainSettings,
        progress: Progress,
        heldout: Corpus | None,
        look_s: float = 0.0,
    ) -> None:
        self._settings, self._progress, self._heldout = settings, progress, heldout
        self._start = time.monotonic() - progress.seconds
        self.save_s, self.look_s = 0.0, look_s

    @property
    def seconds(self) -> float:
        """Spent on the run, over all its parts."""
        return time.monotonic() - self._start

    def share_done(self, seconds: float) -> float:
        """How much of the run is done, by the limit that comes first; 1 or more at its end."""
        settings, progress = self._settings, self._progress
        if settings.patience is not None and progress.looks_since_best >= settings.patience:
            return 1.0
        parts = (
            (seconds, self._training_s()),
            (progress.step, settings.max_steps),
            (progress.epochs, settings.max_epochs),
        )
        return max(done / limit for done, limit in parts if limit is not None)

    def _training_s(self) -> float | None:
        """The time limit but for the look and the export at the end, at least half of it."""
        limit = self._settings.max_seconds
        return None if limit is None else max(limit - self._last_look_s(), limit / 2)

    def _last_look_s(self) -> float:
        progress = self._progress
        if self.look_s or self._heldout is None or progress.tokens == 0:
            return max(self.look_s, 2 * self.save_s)
        # Before the first look: a prediction takes about what training on one does.
        n_predictions = self._heldout.n_tokens + self._heldout.n_sentences
        return 2 * self.save_s + n_predictions * progress.seconds / progress.tokens
