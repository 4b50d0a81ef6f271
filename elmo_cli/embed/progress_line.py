"""ProgressLine: the progress of `embed_file` as one line on standard error, as in a notebook."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from elmo_cli.messages import duration

_INTERVAL_S = 0.5  # between two updates


class ProgressLine:
    """A line with the tokens done so far, rewritten at most twice per second.

    A `progress` of `embed_file`: it is called with the committed tokens and about how many there
    are in all, None if unknown.

    Args:
        name: what is being written.
        stream: where the line is written to; standard error by default.
    """

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        self._name = name
        self._stream = sys.stderr if stream is None else stream
        self._start_s = time.monotonic()
        self._n_at_start = 0  # tokens that a resumed run has found
        self._shown_s: float | None = None
        self._line = ""
        self._n_shown = 0  # characters of the line on the screen

    def __call__(self, done: int, total: int | None) -> None:
        now_s = time.monotonic()
        if self._shown_s is None:
            self._n_at_start = done
        self._line = self._text(done, total, now_s)
        if self._shown_s is None or now_s - self._shown_s >= _INTERVAL_S:
            self._shown_s = now_s
            self._write("")

    def finish(self) -> None:
        """Show the last state, and end the line."""
        if self._shown_s is not None:
            self._write("\n")

    def _text(self, done: int, total: int | None, now_s: float) -> str:
        of_total = "" if total is None else f" of about {max(done, total):,}"
        seconds = now_s - self._start_s
        rate = (done - self._n_at_start) / seconds if seconds > 0 else 0.0
        pace = f", {rate:,.0f} tokens/s" if rate else ""
        left = ""
        if total is not None and rate:
            left = f", {duration(max(0.0, (total - done) / rate))} left"
        return f"{self._name}: {done:,}{of_total} tokens{pace}{left}"

    def _write(self, end: str) -> None:
        blank = " " * (self._n_shown - len(self._line))  # over a longer line
        self._stream.write(f"\r{self._line}{blank}{end}")
        self._stream.flush()
        self._n_shown = len(self._line)
