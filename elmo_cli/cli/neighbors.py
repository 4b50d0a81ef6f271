"""elmo neighbors."""

from __future__ import annotations

from typing import Any

import click

from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    json_option,
    named,
    option,
    quiet_option,
)


@click.command(
    cls=GroupedCommand,
    short_help="Find the tokens nearest to a token in an embeddings file.",
    no_args_is_help=True,
)
@argument("file", metavar="FILE", callback=named)
@argument("queries", nargs=-1, metavar="[QUERY]…", callback=named)
@option(
    "Query",
    "--from",
    "source",
    metavar="FILE",
    callback=named,
    help="The queries stand in this file, made with the same model.  [default: FILE]",
)
@option(
    "Query",
    "--word",
    metavar="WORD",
    callback=named,
    help="List the places of a word, in small letters or capitals, to choose queries from.",
)
@option(
    "Search",
    "--layer",
    type=click.IntRange(min=0),
    metavar="N",
    help="Layer of the model, 0 the token layer.  [default: the highest that FILE holds]",
)
@option(
    "Search",
    "-n",
    "--count",
    type=click.IntRange(min=1),
    metavar="N",
    help="Neighbours to find for each query, or places to list.  [default: 5; all places]",
)
@option(
    "Search",
    "--same-word",
    is_flag=True,
    help="Only tokens that are spelled alike, in small letters or capitals: tells the senses of a "
    "word apart.",
)
@quiet_option
@json_option
def neighbors(**given: Any) -> None:
    """Find the tokens nearest to a token in an embeddings file.

    FILE is an embeddings file of any layout. A QUERY is KEY:N, the token N of the sentence KEY,
    both counted from 0, or KEY:WORD, the first token WORD of it; KEY:=7 is the first token that is
    spelled 7. A WORD needs a file that tells its tokens: flat does, and so do files that hold the
    lines. The nearest by cosine come first, of equally near ones the first in the file, each with
    up to 6 tokens on either side.

    Left out are the tokens of sentences that are equal to the query's, and vectors of zeros. In a
    file of pooled sentences, or of types, a QUERY is a KEY, and sentences or types are found.

    \b
    Examples:
      elmo neighbors corpus.hdf5 --word play
      elmo neighbors corpus.hdf5 12:3 40:play
      elmo neighbors corpus.hdf5 12:play --same-word --layer 1
      elmo neighbors corpus.hdf5 0:play --from queries.hdf5

    --json prints one object: file, from, layer (number or name), same_word, compared (tokens,
    sentences or types), untold (sentences passed over by --same-word), warnings, and queries, each
    with query, key, place, token, tokens (of its sentence), and neighbors, each with cosine, key,
    place, token, tokens. With --word: file, word, and places, each with key, place, token, tokens.
    What the file does not tell is null.
    """
    from elmo_cli.cli.neighboring import neighbors_command

    neighbors_command(given)
