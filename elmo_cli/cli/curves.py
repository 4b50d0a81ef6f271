"""elmo curves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from elmo_cli.cli.click_options import argument, command, local_path, non_empty, value
from elmo_cli.cli.options import overwrite_option, quiet_option
from elmo_cli.errors import UsageError


def _picture(ctx: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == "-":
        raise UsageError("--output -: a picture needs a file", "`-o curves.png` names one")
    return local_path(ctx, parameter, value)


@command
@argument("logs", nargs=-1, required=True, metavar="LOG…", callback=non_empty)
@value(
    "Output",
    "-o, --output FILE",
    "Picture to write: .png, .svg or .pdf.",
    required=True,
    callback=_picture,
)
@overwrite_option
@quiet_option
def curves(**given: Any) -> None:
    """Plot the training curves of runs: loss and held-out perplexity over the tokens read.

    LOG is the log.jsonl of a run, or the folder that contains it. Several runs share one picture.

    \b
    Examples:
      elmo curves model/ -o curves.png
      elmo curves small/ large/ -o both.svg
    """
    from elmo_cli.cli import console
    from elmo_cli.files import check_distinct, check_output_path
    from elmo_cli.lm.log import draw_curves, log_path

    output, logs = given["output"], [Path(log) for log in given["logs"]]
    check_distinct(output, map(log_path, logs))
    check_output_path(output, overwrite=given["overwrite"])
    draw_curves(logs, Path(output))
    console.note(f"{output}: drawn", quiet=given["quiet"])
