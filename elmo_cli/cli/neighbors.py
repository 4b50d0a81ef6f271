"""`elmo neighbors`: find the nearest neighbours of a token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from elmo_cli.cli import console
from elmo_cli.cli.click_options import argument, command, flag, non_empty, value
from elmo_cli.cli.kwic import as_facts, in_context, print_in_context
from elmo_cli.cli.options import AT_LEAST_1, json_option, quiet_option
from elmo_cli.errors import EmbeddingsFileError, UsageError

if TYPE_CHECKING:
    from elmo_cli.analysis.query import Occurrence

    _Near: TypeAlias = list[tuple[Occurrence, float]]
    _Found: TypeAlias = tuple[dict[str, Any], list[tuple[Occurrence, _Near]], str]


@command
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
    "Layer to compare; 0 is the token layer.  [default: the highest stored layer]",
    type=click.IntRange(min=0),
)
@value("Search", "-k, --count N", "Number of neighbours per query.", type=AT_LEAST_1, default=5)
@flag(
    "Search",
    "--same-word",
    "Compare only with the same word form (case-insensitive), which separates its senses.",
)
@quiet_option
@json_option
def neighbors(
    *, file: str, queries: tuple[str, ...], quiet: bool, as_json: bool, **given: Any
) -> None:
    """Find the nearest neighbours of a token by cosine, each in its sentence.

    FILE is an embeddings file of any layout. A QUERY is KEY:N (token N of sentence KEY, both
    counted from 0) or KEY:WORD (the first token WORD of the sentence); KEY:=7 is the first token
    spelled 7. A query with a WORD requires a file that stores its tokens: those of layout flat, and
    those that store the sentences. The nearest neighbours are listed first, ties in file order,
    each with up to 6 tokens of context on either side.

    The sentence of the query, sentences with the same tokens, and zero vectors are left out. In a
    file of pooled sentences or of types, a QUERY is a KEY, and its neighbours are sentences or
    types.

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
    files = [file, *filter(None, [given["query_file"]])]
    find = partial(_find, file, queries, **given)
    facts, pairs, note = run_isolated(find, files, EmbeddingsFileError)
    for warning in facts["warnings"]:
        console.note(f"warning: {warning}", quiet=quiet)
    if as_json:
        found = [_as_facts(name, *pair) for name, pair in zip(queries, pairs, strict=True)]
        console.print_json({**facts, "queries": found})
    else:
        print_in_context(("cosine", "position"), [_rows(*pair) for pair in pairs])
    console.note(f"{file}: {note}", quiet=quiet)
    if any(occurrence.tokens is None for _, near in pairs for occurrence, _ in near):
        console.note(f"{file}: the tokens of some sentences are not stored", quiet=quiet)
    for name, (_, near) in zip(queries, pairs, strict=True):
        if not near:
            console.note(f"{file}: no neighbour for {name}", quiet=quiet)


def _find(
    file: str, queries: Sequence[str], query_file: str | None, count: int, **given: Any
) -> _Found:
    from elmo_cli.analysis.neighbors import nearest
    from elmo_cli.analysis.query import find_token
    from elmo_cli.analysis.vectors import LayerView, check_comparable, same_layer
    from elmo_cli.store.reader import open_embeddings

    with open_embeddings(file) as embeddings, open_embeddings(query_file or file) as other:
        view, query_view, warnings = LayerView(embeddings, given["layer"]), None, []
        if query_file is not None:
            warnings = check_comparable(other, embeddings)
            query_view = same_layer(view, other)
        occurrences = [find_token(query_view or view, query) for query in queries]
        same_word = given["same_word"]
        found = nearest(view, occurrences, count, same_word=same_word, query_view=query_view)
        if n := found.sentences_without_tokens:
            skipped = console.plural(n, "sentence")
            warnings.append(f"{file}: skipped {skipped} whose tokens are not stored")
        facts = {
            "file": file,
            "query_file": query_file,
            "layer": view.layer,
            "same_word": same_word,
            "n_compared": found.n_compared,
            "sentences_without_tokens": found.sentences_without_tokens,
            "warnings": warnings,
        }
        pairs = list(zip(occurrences, found.neighbors, strict=True))
        return facts, pairs, f"layer {view.layer}, {found.n_compared:,} {view.unit}"


def _as_facts(name: str, query: Occurrence, near: _Near) -> dict[str, Any]:
    neighbors = [{"cosine": cosine, **as_facts(occurrence)} for occurrence, cosine in near]
    return {"query": name, **as_facts(query), "neighbors": neighbors}


def _rows(query: Occurrence, near: _Near) -> list[tuple[str, ...]]:
    rows = [(f"{cosine:.3f}", *in_context(occurrence)) for occurrence, cosine in near]
    return [("query", *in_context(query)), *rows]
