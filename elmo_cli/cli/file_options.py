"""Options of an embeddings file that a command writes: its path, sentence map and compression."""

from __future__ import annotations

from collections.abc import Collection

import click

from elmo_cli.cli.click_options import FILE, Option, refuse_url, value
from elmo_cli.embed.settings import SENTENCE_MAPS
from elmo_cli.errors import UsageError
from elmo_cli.store.file_formats import PARQUET, FileFormat, format_of_output


def embeddings_output(written: Collection[FileFormat], description: str) -> Option:
    """The output of a command that writes a file in one of some formats, chosen by its suffix."""

    def check(ctx: click.Context, parameter: click.Parameter, output: str) -> str:
        """Refuse an output that is no file on a disk, or has the suffix of another format."""
        if output == "-":
            problem = "the output needs a file on a disk"
            raise UsageError(problem, "`-o FILE` names one", where="--output -")
        format_of_output(output, written)
        return refuse_url(ctx, parameter, output)

    return value(
        "Output", "-o, --output FILE", description, required=True, callback=check, type=FILE
    )


def sentence_map_option(default: str | None = None) -> Option:
    """The option `--sentence-map`; without a `default`, the map stays as it is in FILE."""
    description = (
        "Entries of the mapping from sentences to keys for equal sentences: the last, as in "
        "AllenNLP, or all occurrences, as NeuroX expects."
    )
    if default is None:
        description += "  [default: those of FILE]"
    choices = click.Choice(SENTENCE_MAPS)
    return value("Output", "--sentence-map ENTRIES", description, type=choices, default=default)


compression_option: Option = value(
    "Output",
    "--compression NAME",
    "Compression of Parquet: none or zstd.",
    type=click.Choice(PARQUET.compressions),
    default="none",
)
