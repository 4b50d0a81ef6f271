"""What the commands which train say on their way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from elmo_cli.cli import console

_LINE_EVERY_S = 15.0
_MUCH_UNKNOWN = 0.5


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
        at = f"fit, pass {line['pass']}, {at}" if "pass" in line else f"step {line['step']:,}, {at}"
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
