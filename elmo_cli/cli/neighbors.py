"""elmo neighbors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from elmo_cli.cli import console
from elmo_cli.cli.kwic import as_facts, in_context, print_in_context
from elmo_cli.cli.options import (
    GroupedCommand,
    argument,
    flag,
    json_option,
    non_empty,
    quiet_option,
    value,
)
from elmo_cli.errors import EmbeddingsFileError, UsageError

if TYPE_CHECKING:
    from elmo_cli.analysis.neighbors import Neighbors
    from elmo_cli.analysis.query import Occurrence


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
def neighbors(
    *, file: str, queries: tuple[str, ...], quiet: bool, as_json: bool, **search: Any
) -> None:
    """Find the nearest neighbours of a token by cosine, each in its sentence.

    FILE is an embeddings file of any layout. A QUERY is KEY:N, token N of sentence KEY, both
    plural from 0, or KEY:WORD, the first token WORD of it; KEY:=7 is the first token that is
    spelled 7. A WORD needs a file that stores its tokens: layout flat does, and so do files that
    store the sentences. The nearest neighbours are listed first, equally near ones in file order,
    each with up to 6 tokens of context on either side.

    The sentence of the query, sentences with the same tokens and zero vectors are left out. In a
    file of pooled sentences or of types a QUERY is a KEY, and sentences or types are found.

    \b
    Examples:
      elmo kwic corpus.hdf5 play
      elmo neighbors corpus.hdf5 12:3 40:play
      elmo neighbors corpus.hdf5 12:play --same-word --layer 1
      elmo neighbors corpus.hdf5 0:play --query-file queries.hdf5
    """
    from elmo_cli.isolate import run_isolated

    console.check_stdout()
    if not queries:
        raise UsageError(
            "no QUERY is given",
            f"`12:3` is token 3 of sentence 12; `elmo kwic {file} WORD` lists the occurrences of a "
            "word",
        )
    files = [file, *filter(None, [search["query_file"]])]
    found = run_isolated(lambda: _find(file, queries, **search), files, EmbeddingsFileError)
    for warning in found.warnings:
        console.note(f"warning: {warning}", quiet=quiet)
    if as_json:
        console.print_json({"file": file, **_as_facts(found, queries, **search)})
    else:
        _print(found)
    for note in _notes(found, queries):
        console.note(f"{file}: {note}", quiet=quiet)


class _Found(NamedTuple):
    layer: int | str
    unit: str
    occurrences: list[Occurrence]  # of the queries
    result: Neighbors
    warnings: list[str]

    @property
    def pairs(self) -> list[tuple[Occurrence, list[tuple[Occurrence, float]]]]:
        """Each query with its neighbours."""
        return list(zip(self.occurrences, self.result.neighbors, strict=True))


def _find(
    file: str,
    queries: Sequence[str],
    *,
    query_file: str | None,
    layer: int | None,
    count: int,
    same_word: bool,
) -> _Found:
    from elmo_cli.analysis.neighbors import nearest
    from elmo_cli.analysis.query import find_token
    from elmo_cli.analysis.vectors import LayerView, check_comparable, same_layer
    from elmo_cli.store.reader import open_embeddings

    with open_embeddings(file) as embeddings, open_embeddings(query_file or file) as other:
        view, query_view, warnings = LayerView(embeddings, layer), None, []
        if query_file is not None:
            warnings = check_comparable(other, embeddings)
            query_view = same_layer(view, other)
        occurrences = [find_token(query_view or view, query) for query in queries]
        found = nearest(view, occurrences, count, same_word=same_word, query_view=query_view)
        if n := found.sentences_without_tokens:
            skipped = console.plural(n, "sentence")
            warnings.append(f"{file}: skipped {skipped} whose tokens are not stored")
        return _Found(view.layer, view.unit, occurrences, found, warnings)


def _as_facts(
    found: _Found, queries: Sequence[str], query_file: str | None, same_word: bool, **_: object
) -> dict[str, Any]:
    return {
        "query_file": query_file,
        "layer": found.layer,
        "same_word": same_word,
        "n_compared": found.result.n_compared,
        "sentences_without_tokens": found.result.sentences_without_tokens,
        "queries": [
            {
                "query": name,
                **as_facts(query),
                "neighbors": [
                    {"cosine": cosine, **as_facts(occurrence)} for occurrence, cosine in near
                ],
            }
            for name, (query, near) in zip(queries, found.pairs, strict=True)
        ],
        "warnings": found.warnings,
    }


def _print(found: _Found) -> None:
    groups = [
        [
            ("query", *in_context(query)),
            *((f"{cosine:.3f}", *in_context(occurrence)) for occurrence, cosine in near),
        ]
        for query, near in found.pairs
    ]
    print_in_context(("cosine", "position"), groups)


def _notes(found: _Found, queries: Sequence[str]) -> Iterator[str]:
    yield f"layer {found.layer}, {found.result.n_compared:,} {found.unit}"
    neighbors = (occurrence for _, near in found.pairs for occurrence, _ in near)
    if any(occurrence.tokens is None for occurrence in neighbors):
        yield "the tokens of some of these sentences are not stored"
    for name, (_, near) in zip(queries, found.pairs, strict=True):
        if not near:
            yield f"no neighbour for {name}"
