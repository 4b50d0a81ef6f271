"""The hint after Ctrl-C: what continues a command, which depends on what it has written."""

from __future__ import annotations

from pathlib import Path

from elmo_cli.cli import console
from elmo_cli.messages import INTERRUPTED_HINT

_AGAIN = "run the command again"
_RESUME = "the same command with `--resume` continues the run"
_STARTS_OVER = (
    "the same command starts over; `--resume` instead of `--overwrite` continues the run, if it "
    "has saved anything"
)
_PREPARED = "`--resume` instead of `--prepare` trains; `--overwrite` as well starts over"


def interrupted_hint() -> str:
    """Return what to do next, in words that hold for the running command and its output.

    `elmo embed --resume` also starts a new output. A training command with `--resume` is refused
    until its folder contains a run, and from then on the same command without it is refused.
    """
    context = console.running.context
    if context is None:
        return INTERRUPTED_HINT
    values = context.params
    output = values.get("output")
    if "resume" not in console.option_names() or output is None or values.get("resume"):
        return _AGAIN
    if context.command.name == "embed":
        writes_no_file = output == "-" or values.get("dry_run") or values.get("ray")
        if writes_no_file:  # or shards, which need no `--resume`
            return _AGAIN
    elif not _contains_run(str(context.command.name), output):
        return _AGAIN
    if values.get("overwrite"):
        return _STARTS_OVER
    if values.get("prepare"):
        return _PREPARED
    return _RESUME


def _contains_run(kind: str, folder: str) -> bool:
    """Whether a folder contains a run of "pretrain", "finetune" or "train"."""
    from elmo_cli.training.run_folder import contains_run

    return contains_run(Path(folder), kind)
