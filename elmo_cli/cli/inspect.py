"""elmo inspect."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    device_options,
    input_options,
    json_option,
    model_options,
    named,
    named_texts,
    option,
    quiet_option,
)


@click.command(
    cls=GroupedCommand,
    short_help="Tell what an embeddings or weight file holds, and check it.",
    no_args_is_help=True,
)
@argument("file", metavar="FILE", callback=named)
@option(
    "Checks",
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Recompute N sentences with the model, and compare.",
)
@option(
    "Checks",
    "--text",
    multiple=True,
    metavar="FILE",
    callback=named_texts,
    help="The text it was made from, for --sample with layouts that do not hold it; given several "
    "times for several.",
)
@option(
    "Checks",
    "--against",
    multiple=True,
    metavar="FILE",
    callback=named_texts,
    help="Compare numbers of tokens, sentence by sentence, with a text (.conllu, …); given several "
    "times for several.",
)
@option("Checks", "--no-check", is_flag=True, help="Tell the facts alone, without reading all.")
@model_options
@device_options("fast", "plain")
@input_options
@quiet_option
@json_option
@click.pass_context
def inspect(ctx: click.Context, /, **settings: Any) -> None:
    """Tell what an embeddings or weight file holds, and check it.

    FILE is an embeddings file of any layout, an unfinished one (FILE.part), or a file of biLM
    weights. The whole file is read: ends, counts, keys, shapes, and whether all values are finite.
    The lines of Python that read it come last. Exit code 1 if something is wrong with it,
    or it is unfinished.

    \b
    Examples:
      elmo inspect corpus.hdf5
      elmo inspect corpus.hdf5 --sample 20
      elmo inspect train.hdf5 --against train.conllu
      elmo inspect weights.hdf5

    --json prints one object: kind (embeddings, unfinished, weights), path, bytes, what such a file
    holds, sample (with --sample), problems, which is empty for a valid file, and problem_count:
    problems lists the first 50 of each check.
    """
    from elmo_cli.cli.inspecting import inspect_command

    inspect_command(ctx, settings)
