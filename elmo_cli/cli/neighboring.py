"""What `elmo neighbors` does between its options and the library."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import click

from elmo_cli.cli import console
from elmo_cli.cli.concordance import Line, print_concordance
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.isolate import run_isolated
from elmo_cli.probe.neighbors import nearest, read_query
from elmo_cli.probe.places import Place, places_of
from elmo_cli.probe.queries_layer import queries_layer
from elmo_cli.probe.stored_layer import StoredLayer
from elmo_cli.store.reader import open_embeddings

_COUNT = 5
_CONTEXT = 6  # tokens shown on either side


def neighbors_command(given: dict[str, Any]) -> None:
    """Run `elmo neighbors` with the values of its options.

    Raises:
        UsageError: a query that names nothing, or options that contradict each other.
        EmbeddingsFileError: a file that can't be read, or of another model.
    """
    console.check_stdout()
    _check(given)
    # A file may come from anywhere, and HDF5 may crash on it.
    files = [given["file"], *filter(None, [given["source"]])]
    look = _places if given["word"] is not None else _neighbors
    facts, lines, notes = run_isolated(lambda: look(given), files, EmbeddingsFileError)
    for warning in facts.get("warnings", ()):
        console.note(f"warning: {warning}", quiet=given["quiet"])
    if given["as_json"]:
        click.echo(json.dumps(facts))
    else:
        print_concordance(lines, with_cosine=given["word"] is None)
    for note in notes:
        console.note(f"{given['file']}: {note}", quiet=given["quiet"])


def _check(given: dict[str, Any]) -> None:
    if given["word"] is None:
        if not given["queries"]:
            raise UsageError(
                "no QUERY: which token's neighbours?",
                f"`12:3` is token 3 of sentence 12; `elmo neighbors {given['file']} --word WORD` "
                "lists the places of a word",
            )
        return
    others = {
        "a QUERY": given["queries"],
        "--from": given["source"],
        "--layer": given["layer"] is not None,
        "--same-word": given["same_word"],
    }
    for name, is_given in others.items():
        if is_given:
            raise UsageError(
                f"--word and {name}: one lists places of a word, the other is for neighbours",
                "list places first, and choose a QUERY from them",
            )


_Found = tuple[dict[str, Any], list[list[Line]], list[str]]


def _places(given: dict[str, Any]) -> _Found:
    """What `--word` finds: facts for --json, lines to print, and what is to be said of them."""
    word = given["word"]
    with open_embeddings(given["file"]) as embeddings:
        found = list(islice(places_of(StoredLayer(embeddings), word), given["count"]))
    facts = {"file": given["file"], "word": word, "places": [_facts(place) for place in found]}
    notes = [] if found else [f"no token is spelled {word}"]
    return facts, [[_line(place, "") for place in found]], notes


def _neighbors(given: dict[str, Any]) -> _Found:
    """What a search finds, in the same form."""
    file, n, same_word = given["file"], given["count"] or _COUNT, given["same_word"]
    with open_embeddings(file) as embeddings:
        layer = StoredLayer(embeddings, given["layer"])
        if given["source"] is None:
            warnings: list[str] = []
            queries = [read_query(layer, query) for query in given["queries"]]
        else:
            with open_embeddings(given["source"]) as other:
                theirs, warnings = queries_layer(layer, other)
                queries = [read_query(theirs, query) for query in given["queries"]]
        found = nearest(layer, queries, n, same_word=same_word)
    if found.untold:
        passed = console.counted(found.untold, "sentence")
        warnings.append(f"{file}: passed over, as their tokens are not told: {passed}")
    both = list(zip(queries, found.neighbors, strict=True))
    facts = {
        "file": file,
        "from": given["source"],
        "layer": layer.name if layer.number is None else layer.number,
        "same_word": same_word,
        "compared": found.tokens,
        "untold": found.untold,
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
    return {"key": place.key, "place": place.at, "token": place.token, "tokens": place.tokens}


def _line(place: Place, what: str) -> Line:
    return Line(what, str(place), *place.window(_CONTEXT))
