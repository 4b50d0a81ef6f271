"""The options of an embeddings file that a command writes: its path and its compression."""

from __future__ import annotations

from collections.abc import Collection

import click

from elmo_cli.cli.click_options import FILE, Option, refuse_url, value
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


compression_option: Option = value(
    "Output",
    "--compression NAME",
    "Compression of Parquet: none or zstd.",
    type=click.Choice(PARQUET.compressions),
    default="none",
)
