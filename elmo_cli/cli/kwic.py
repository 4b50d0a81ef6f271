"""elmo kwic."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    json_option,
    non_empty,
    quiet_option,
    value,
)


@click.command(
    cls=GroupedCommand,
    short_help="List the occurrences of a word in context.",
    no_args_is_help=True,
)
@argument("file", metavar="FILE", callback=non_empty)
@argument("word", metavar="WORD", callback=non_empty)
@value(
    "Search",
    "-k, --count N",
    "Maximum number of occurrences to list.  [default: all]",
    type=click.IntRange(min=1),
)
@quiet_option
@json_option
def kwic(**given: Any) -> None:
    """List the occurrences of a word in context (keyword in context).

    FILE is an embeddings file that stores its tokens: layout flat does, and so do files that store
    the sentences. Upper and lower case are not distinguished. The position of an occurrence is a
    QUERY of `elmo neighbors`.

    \b
    Examples:
      elmo kwic corpus.hdf5 play
      elmo kwic corpus.hdf5 play -k 20 --json
    """
    from elmo_cli.cli.neighboring import kwic_command

    kwic_command(given)
