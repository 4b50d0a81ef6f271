"""elmo pretrain."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    input_options,
    json_option,
    named,
    option,
    quiet_option,
)

if TYPE_CHECKING:
    from elmo_cli.model.options import Options

_LINE_EVERY_S = 15.0


@click.command(
    cls=GroupedCommand,
    short_help="Train a biLM from the beginning.",
    no_args_is_help=True,
)
@click.argument("texts", nargs=-1, required=True, metavar="TEXT…", callback=named)
@option(
    "Output",
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    callback=named,
    help="Folder of the model: weights, options, softmax, vocabulary, log, checkpoint.",
)
@option("Output", "--resume", is_flag=True, help="Go on with the run in DIR.")
@option("Output", "-f", "--overwrite", is_flag=True, help="Begin anew where DIR holds a run.")
@option(
    "Training",
    "--heldout",
    multiple=True,
    metavar="FILE",
    help="Text to measure the perplexity on, never trained on; may be given several times.",
)
@option("Training", "--max-seconds", type=click.FloatRange(min=0), help="Time to train.")
@option("Training", "--max-steps", type=click.IntRange(min=1), help="Windows to train on.")
@option("Training", "--seed", type=int, default=0, show_default=True, help="Of all random numbers.")
@option(
    "Training",
    "--optimizer",
    type=click.Choice(["adamw", "adagrad"]),
    default="adamw",
    show_default=True,
    help="adagrad is what the originals were trained with.",
)
@option("Training", "--rate", type=float, help="Learning rate.  [default: of the optimizer]")
@option(
    "Training",
    "--rows",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="Rows of text read side by side, 20 tokens at a time.",
)
@option(
    "Training",
    "--negatives",
    type=click.IntRange(min=1),
    default=2048,
    show_default=True,
    help="Types drawn for the sampled softmax; up to 8192 types the softmax is full.",
)
@option(
    "Model",
    "--options",
    metavar="FILE",
    help="An options.json with all sizes, in place of the next three.",
)
@option(
    "Model",
    "--cell",
    type=click.IntRange(min=1),
    default=512,
    show_default=True,
    help="Inner size of an LSTM layer (lstm.dim of an options.json).",
)
@option(
    "Model",
    "--projection",
    type=click.IntRange(min=1),
    default=128,
    show_default=True,
    help="Output size of an LSTM layer; stored vectors have twice as much.",
)
@option(
    "Model",
    "--filters",
    type=click.Choice(["lean", "small"]),
    default="lean",
    show_default=True,
    help="Of the character CNN: 512, or the 2048 of the published models.",
)
@option(
    "Vocabulary",
    "--vocabulary-size",
    type=click.IntRange(min=4),
    default=25_000,
    show_default=True,
    help="Types that can be predicted, the commonest ones.",
)
@option(
    "Vocabulary",
    "--min-count",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Leave out types that are seen less often.",
)
@option("Vocabulary", "--vocabulary", metavar="FILE", help="Take this vocabulary instead.")
@option("Speed", "--threads", type=click.IntRange(min=1), help="Threads on the CPU.")
@input_options
@quiet_option
@json_option
def pretrain(**given: Any) -> None:
    """Train a biLM from the beginning, and write it as a model folder.

    TEXT is a text file, plain or .gz or .xz. Training stops when --max-seconds or --max-steps are
    used up; the folder then holds the model, and does so from the first checkpoint on.

    \b
    Examples:
      elmo pretrain news.txt -o model/ --heldout dev.txt --max-seconds 3600
      elmo pretrain raw/*.txt.xz --tokenize -o model/ --max-seconds 3600
      elmo pretrain news.txt -o model/ --max-seconds 7200 --resume
      elmo embed corpus.txt -o corpus.hdf5 --model model/
    """
    from pathlib import Path

    from elmo_cli.cli import console
    from elmo_cli.engine.device import set_threads
    from elmo_cli.text.formats import InputSettings, Notes
    from elmo_cli.train.run import pretrain as train
    from elmo_cli.train.settings import TrainSettings

    reading = {name: given[name] for name in _READING}
    training = {name: given[name] for name in _TRAINING}
    set_threads(given["threads"])
    notes, quiet = Notes(), given["quiet"]
    last: list[dict[str, Any]] = []
    progress = train(
        given["texts"],
        Path(given["output"]),
        _options(given),
        TrainSettings(**training),
        heldout=given["heldout"],
        reading=InputSettings(**reading),
        max_types=given["vocabulary_size"],
        min_count=given["min_count"],
        vocabulary=Path(given["vocabulary"]) if given["vocabulary"] else None,
        overwrite=given["overwrite"],
        resume=given["resume"],
        notes=notes,
        report=_reporter(last, quiet),
    )
    for warning in notes.warnings:
        console.note(f"warning: {warning}", quiet=quiet)
    measured = last[-1]["heldout"] if last else None
    if given["as_json"]:
        facts = {"tokens": progress.tokens, "seconds": round(progress.seconds, 1)}
        click.echo(json.dumps({"model": given["output"], **facts, "heldout": measured}))
    console.note(
        f"{given['output']}: trained on {progress.tokens:,} tokens in {progress.seconds:,.0f} s",
        quiet=quiet,
    )


_READING = (
    "format",
    "tokenize",
    "encoding",
    "column",
    "blank",
    "max_tokens",
    "on_error",
)
_TRAINING = (
    "rows",
    "optimizer",
    "rate",
    "negatives",
    "max_seconds",
    "max_steps",
    "seed",
)


def _options(given: dict[str, Any]) -> Options:
    from elmo_cli.model.options import Options
    from elmo_cli.train.run import FILTERS

    if given["options"]:
        return Options.from_file(given["options"])
    filters, projection = FILTERS[given["filters"]], given["projection"]
    return Options(
        filters=filters,
        projection=projection,
        cell=given["cell"],
        cnn_projection=sum(count for _, count in filters) != projection,
        lstm_projection=given["cell"] != projection,
    )


def _reporter(last: list[dict[str, Any]], quiet: bool) -> Callable[[dict[str, Any]], None]:
    """Says how far training is; keeps the lines with held-out figures in `last`."""
    from elmo_cli.cli import console

    said = -_LINE_EVERY_S

    def report(line: dict[str, Any]) -> None:
        nonlocal said
        at = f"step {line['step']:,}, {line['tokens']:,} tokens, {line['seconds']:,.0f} s"
        measured = line.get("heldout")
        if measured:
            last.append(line)
            console.note(
                f"{at}: held-out perplexity {measured['average']:.1f} "
                f"(forward {measured['forward']:.1f}, backward {measured['backward']:.1f})",
                quiet=quiet,
            )
        elif time.monotonic() - said >= _LINE_EVERY_S:
            said = time.monotonic()
            console.note(f"{at}: loss {line['loss']:.3f}", quiet=quiet)

    return report
