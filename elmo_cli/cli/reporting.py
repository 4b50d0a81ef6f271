"""What the commands which train or measure say on their way, and of what came of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from elmo_cli.cli import console
from elmo_cli.lm.run_folder import CHECKPOINT_FILE, TEXT_FILE
from elmo_cli.text.input import InputReport

_LINE_EVERY_S = 15.0
_MUCH_UNKNOWN = 0.5


class ConsoleReporter:
    """Prints what a training run reports: each evaluation, and the loss every 15 s.

    Args:
        text: what evaluations measure, in words.
        quiet: print nothing.
        max_seconds: of the run, printed with the seconds that have passed.
    Attributes:
        notes: of the readers of text.
    """

    def __init__(self, text: str, *, quiet: bool, max_seconds: float | None = None) -> None:
        self._text, self._quiet, self._printed_at = text, quiet, -_LINE_EVERY_S
        self._limit = f" of {max_seconds:,.0f}" if max_seconds else ""
        self.notes = InputReport()

    def message(self, text: str) -> None:
        console.note(text, quiet=self._quiet)

    def input_notes(self, notes: InputReport) -> None:
        self.notes = notes
        console.print_input_warnings(notes, quiet=self._quiet)

    def log_line(self, line: dict[str, Any]) -> None:
        begin = f"fit, pass {line['fit_pass']}" if "fit_pass" in line else f"step {line['step']:,}"
        at = f"{begin}, {line['tokens']:,} tokens, {line['seconds']:,.0f}{self._limit} s"
        if measured := line.get("heldout"):
            self.message(
                f"{at}: perplexity {measured['average']:.1f} on {self._text} "
                f"(forward {measured['forward']:.1f}, backward {measured['backward']:.1f})"
            )
        elif time.monotonic() - self._printed_at >= _LINE_EVERY_S:
            self._printed_at = time.monotonic()
            self.message(f"{at}: loss {line['loss']:.3f}")


def say_only_to_resume(folder: Path, *, quiet: bool) -> None:
    """Say what of a finished run may be deleted."""
    files = [folder / CHECKPOINT_FILE, folder / TEXT_FILE]
    files = [path for path in files if path.exists()]
    size = sum(path.stat().st_size for path in files) / 1e6
    console.note(
        f"{folder}: {size:,.1f} MB are for `--resume` alone and may be deleted: "
        f"{', '.join(path.name for path in files)}",
        quiet=quiet,
    )


def say_much_unknown(share: float, tokens: str, *, quiet: bool) -> None:
    """Warn where a vocabulary lacks most of what it is to predict.

    Args:
        share: of the tokens.
        tokens: which ones, in words.
    """
    if share > _MUCH_UNKNOWN:
        console.note(
            f"warning: the vocabulary lacks {share:.0%} of {tokens}; is it in the "
            "language of the text, and does raw text need `--tokenize`?",
            quiet=quiet,
        )
