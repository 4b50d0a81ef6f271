"""elmo neighbors."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    flag,
    json_option,
    non_empty,
    quiet_option,
    value,
)


@click.command(
    cls=GroupedCommand,
    short_help="Find the nearest neighbours of a token.",
    no_args_is_help=True,
)
@argument("file", metavar="FILE", callback=non_empty)
@argument("queries", nargs=-1, metavar="QUERY…", callback=non_empty)
@value(
    "Search",
    "--query-file FILE",
    "Take the queries from this embeddings file of the same model.  [default: FILE]",
    callback=non_empty,
)
@value(
    "Search",
    "--layer N",
    "Layer to compare, 0 is the token layer.  [default: the highest stored]",
    type=click.IntRange(min=0),
)
@value(
    "Search",
    "-k, --count N",
    "Number of neighbours per query.",
    type=click.IntRange(min=1),
    default=5,
)
@flag(
    "Search",
    "--same-word",
    "Compare only with the same word form (case-insensitive), which separates its senses.",
)
@quiet_option
@json_option
def neighbors(**given: Any) -> None:
    """Find the nearest neighbours of a token by cosine, each in its sentence.

    FILE is an embeddings file of any layout. A QUERY is KEY:N, token N of sentence KEY, both
    plural from 0, or KEY:WORD, the first token WORD of it; KEY:=7 is the first token that is
    spelled 7. A WORD needs a file that stores its tokens: layout flat does, and so do files that
    store the sentences. The nearest neighbours are listed first, equally near ones in file order,
    each with up to 6 tokens of context on either side.

    Tokens of sentences equal to the query's and zero vectors are left out. In a file of pooled
    sentences or of types a QUERY is a KEY, and sentences or types are found.

    \b
    Examples:
      elmo kwic corpus.hdf5 play
      elmo neighbors corpus.hdf5 12:3 40:play
      elmo neighbors corpus.hdf5 12:play --same-word --layer 1
      elmo neighbors corpus.hdf5 0:play --query-file queries.hdf5
    """
    from elmo_cli.cli.neighboring import neighbors_command

    neighbors_command(given)
