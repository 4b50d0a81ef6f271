"""What `elmo neighbors` and `elmo kwic` do between their options and the library."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from elmo_cli.analysis.neighbors import nearest, read_query
from elmo_cli.analysis.places import Place, places_of
from elmo_cli.analysis.queries_layer import queries_layer
from elmo_cli.analysis.stored_layer import StoredLayer
from elmo_cli.cli import console
from elmo_cli.cli.concordance import Line, print_concordance
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.isolate import run_isolated
from elmo_cli.store.reader import open_embeddings

_CONTEXT = 6  # tokens shown on either side


_Found = tuple[dict[str, Any], list[list[Line]], list[str]]


def neighbors_command(given: dict[str, Any]) -> None:
    """Run `elmo neighbors` with the values of its options.

    Raises:
        UsageError: no query, or a query that names nothing.
        EmbeddingsFileError: a file that can't be read, or of another model.
    """
    console.check_stdout()
    if not given["queries"]:
        raise UsageError(
            "no QUERY is given",
            f"`12:3` is token 3 of sentence 12; `elmo kwic {given['file']} WORD` lists the "
            "occurrences of a word",
        )
    files = [given["file"], *filter(None, [given["query_file"]])]
    _print(given, files, _neighbors, with_cosine=True)


def kwic_command(given: dict[str, Any]) -> None:
    """Run `elmo kwic` with the values of its options.

    Raises:
        EmbeddingsFileError: a file that can't be read.
    """
    console.check_stdout()
    _print(given, [given["file"]], _occurrences, with_cosine=False)


def _print(
    given: dict[str, Any],
    files: list[str],
    find: Callable[[dict[str, Any]], _Found],
    *,
    with_cosine: bool,
) -> None:
    # A file may come from anywhere, and HDF5 may crash on it.
    facts, lines, notes = run_isolated(lambda: find(given), files, EmbeddingsFileError)
    for warning in facts.get("warnings", ()):
        console.note(f"warning: {warning}", quiet=given["quiet"])
    if given["as_json"]:
        console.print_json(facts)
    else:
        print_concordance(lines, with_cosine=with_cosine)
    for note in notes:
        console.note(f"{given['file']}: {note}", quiet=given["quiet"])


def _occurrences(given: dict[str, Any]) -> _Found:
    """The occurrences of a word: facts for --json, lines to print, notes."""
    word = given["word"]
    with open_embeddings(given["file"]) as embeddings:
        found = list(islice(places_of(StoredLayer(embeddings), word), given["count"]))
    facts = {"file": given["file"], "word": word, "occurrences": [_facts(one) for one in found]}
    notes = [] if found else [f"no token is spelled {word}"]
    return facts, [[_line(place, "") for place in found]], notes


def _neighbors(given: dict[str, Any]) -> _Found:
    """The neighbours of the queries, in the same form."""
    file, n, same_word = given["file"], given["count"], given["same_word"]
    with open_embeddings(file) as embeddings:
        layer = StoredLayer(embeddings, given["layer"])
        if given["query_file"] is None:
            warnings: list[str] = []
            queries = [read_query(layer, query) for query in given["queries"]]
        else:
            with open_embeddings(given["query_file"]) as other:
                theirs, warnings = queries_layer(layer, other)
                queries = [read_query(theirs, query) for query in given["queries"]]
        found = nearest(layer, queries, n, same_word=same_word)
    if found.untold:
        passed = console.plural(found.untold, "sentence")
        warnings.append(f"{file}: passed over, as their tokens are not told: {passed}")
    both = list(zip(queries, found.neighbors, strict=True))
    facts = {
        "file": file,
        "query_file": given["query_file"],
        "layer": layer.name if layer.number is None else layer.number,
        "same_word": same_word,
        "n_compared": found.tokens,
        "sentences_without_tokens": found.untold,
        "queries": [
            {
                "query": query.name,
                **_facts(query.place),
                "neighbors": [
                    {"cosine": round(cosine, 6), **_facts(place)} for place, cosine in near
                ],
            }
            for query, near in both
        ],
        "warnings": warnings,
    }
    lines = [
        [_line(query.place, "query"), *(_line(place, f"{cosine:.3f}") for place, cosine in near)]
        for query, near in both
    ]
    notes = [f"layer {layer.name}, {found.tokens:,} {layer.what}"]
    if any(place.tokens is None for _, near in both for place, _ in near):
        notes.append("does not tell the tokens of all these sentences")
    return (
        facts,
        lines,
        notes + [f"no neighbour for {query.name}" for query, near in both if not near],
    )


def _facts(place: Place) -> dict[str, Any]:
    return {"key": place.key, "position": place.at, "token": place.token, "tokens": place.tokens}


def _line(place: Place, what: str) -> Line:
    return Line(what, str(place), *place.window(_CONTEXT))
