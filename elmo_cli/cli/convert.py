"""elmo convert."""

from __future__ import annotations

import json
from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    hdf5_output,
    json_option,
    named,
    option,
    quiet_option,
)


@click.command(
    cls=GroupedCommand,
    short_help="Turn an embeddings file into another layout or dtype.",
    no_args_is_help=True,
)
@argument("file", metavar="FILE", callback=named)
@hdf5_output
@option("Output", "--layout", metavar="NAME", help="Layout, as in `elmo embed`.")
@option(
    "Output",
    "--dtype",
    type=click.Choice(["float32", "float16", "int8"]),
    help="Of the values; int8 with --layout flat.",
)
@option(
    "Output", "--layers", metavar="CHOICE", help="As in `elmo embed`, of those that FILE holds."
)
@option("Output", "-f", "--overwrite", is_flag=True, help="Replace an output that is there.")
@quiet_option
@json_option
def convert(
    file: str,
    output: str,
    layout: str | None,
    dtype: str | None,
    layers: str | None,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Turn an embeddings file into another layout, dtype or choice of layers.

    FILE may be of any layout that `elmo embed` writes, made by elmo or by the original programs.
    What a layout needs and the file does not hold (document keys, the order of its sentences) is
    named.

    \b
    Examples:
      elmo convert corpus.hdf5 -o corpus.flat.hdf5 --layout flat
      elmo convert corpus.hdf5 -o small.hdf5 --dtype float16
      elmo convert corpus.hdf5 -o corpus.ly2.hdf5 --layout manylangs --layers 2
      elmo convert corpus.hdf5 -o mixed.hdf5 --layers mix:0.2,0.3,0.5,1.1

    --json prints one object: output, layout, dtype, sentences, tokens, bytes, sentence_map,
    warnings.
    """
    from elmo_cli.cli import console
    from elmo_cli.cli.console import counted
    from elmo_cli.errors import EmbeddingsFileError
    from elmo_cli.isolate import run_isolated
    from elmo_cli.store.convert import convert as convert_file

    def work() -> dict[str, Any]:
        return convert_file(
            file, output, layout=layout, dtype=dtype, layers=layers, overwrite=overwrite
        )

    done = run_isolated(work, [file], EmbeddingsFileError)
    for warning in done["warnings"]:
        console.note(f"warning: {warning}", quiet=quiet)
    if as_json:
        click.echo(json.dumps(done))
    console.note(
        f"{done['output']}: {counted(done['sentences'], 'sentence')}, layout {done['layout']}",
        quiet=quiet,
    )
