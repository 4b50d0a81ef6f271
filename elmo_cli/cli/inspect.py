"""elmo inspect."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    blank_lines_option,
    flag,
    input_options,
    json_option,
    model_options,
    non_empty,
    processor_options,
    quiet_option,
    text_names,
    value,
)


@click.command(
    cls=GroupedCommand,
    short_help="Describe an embeddings or weight file and verify it.",
    no_args_is_help=True,
)
@argument("file", metavar="FILE", callback=non_empty)
@value(
    "Checks",
    "--recompute N",
    "Recompute N sentences with the model and compare the vectors.",
    type=click.IntRange(min=1),
)
@value(
    "Checks",
    "--text FILE",
    "Compare the tokens, or their counts where the file has none, with this text; with --recompute "
    "also take the sentences from it. May be repeated.",
    multiple=True,
    callback=text_names,
)
@flag("Checks", "--no-verify", "Print the metadata only, without reading all values.")
@model_options
@processor_options
@input_options
@blank_lines_option
@quiet_option
@json_option
@click.pass_context
def inspect(ctx: click.Context, /, **settings: Any) -> None:
    """Describe an embeddings or weight file and verify it.

    FILE is an embeddings file of any layout, an unfinished one (FILE.part), or a biLM weight file.
    The whole file is read to verify its structure, counts, keys and shapes, and that all values are
    finite. Python code that reads the file is printed last. Exit code 1 if the file is corrupt or
    unfinished. The model and device options need --recompute, the input options --text.

    \b
    Examples:
      elmo inspect corpus.hdf5
      elmo inspect corpus.hdf5 --recompute 20
      elmo inspect train.hdf5 --text train.conllu
      elmo inspect weights.hdf5
    """
    from elmo_cli.cli.inspecting import inspect_command

    inspect_command(ctx, settings)
