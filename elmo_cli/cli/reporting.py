"""What the commands which train or measure say on their way, and of what came of it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from elmo_cli.cli import console
from elmo_cli.lm.run_folder import only_to_resume

_LINE_EVERY_S = 15.0
_MUCH_UNKNOWN = 0.5


def json_line(facts: dict[str, Any]) -> str:
    """Facts as one JSON object; null for infinite ones, which JSON has no word for."""
    return json.dumps(_finite(facts), allow_nan=False)


def _finite(fact: Any) -> Any:
    if isinstance(fact, dict):
        return {name: _finite(value) for name, value in fact.items()}
    if isinstance(fact, (list, tuple)):
        return [_finite(value) for value in fact]
    return None if isinstance(fact, float) and not math.isfinite(fact) else fact


def reporter(
    text: str, *, quiet: bool, max_seconds: float | None = None
) -> Callable[[dict[str, Any]], None]:
    """Says of lines of a log how far training is: every look, and now and then the loss.

    Args:
        text: what the looks measure, in words.
        max_seconds: of the run, to be said beside those that are over.
    """
    said = -_LINE_EVERY_S
    limit = f" of {max_seconds:,.0f}" if max_seconds else ""

    def report(line: dict[str, Any]) -> None:
        nonlocal said
        at = f"{line['tokens']:,} tokens, {line['seconds']:,.0f}{limit} s"
        at = (
            f"fit, pass {line['fit_pass']}, {at}"
            if "fit_pass" in line
            else f"step {line['step']:,}, {at}"
        )
        measured = line.get("heldout")
        if measured:
            console.note(
                f"{at}: perplexity {measured['average']:.1f} on {text} "
                f"(forward {measured['forward']:.1f}, backward {measured['backward']:.1f})",
                quiet=quiet,
            )
        elif time.monotonic() - said >= _LINE_EVERY_S:
            said = time.monotonic()
            console.note(f"{at}: loss {line['loss']:.3f}", quiet=quiet)

    return report


def say_only_to_resume(folder: Path, *, quiet: bool) -> None:
    """Say what of a finished run may be deleted."""
    files = only_to_resume(folder)
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
