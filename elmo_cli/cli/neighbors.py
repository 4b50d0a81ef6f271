"""`elmo neighbors`: find the nearest neighbors of a token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from elmo_cli.cli import console, options
from elmo_cli.cli.click_options import argument, command, flag, together, value
from elmo_cli.cli.kwic import as_facts, in_context, print_in_context
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.messages import plural

if TYPE_CHECKING:
    from elmo_cli.analysis.neighbors import Query
    from elmo_cli.analysis.query import Occurrence
    from elmo_cli.plot.token_plot import PlottedTokens

    _Near: TypeAlias = list[tuple[Occurrence, float]]
    _Pair: TypeAlias = tuple[Query, _Near]
    _Queries: TypeAlias = tuple[list[Query], list[str]]  # with warnings


def _occurrence(ctx: click.Context, parameter: click.Parameter, given: str | None) -> Any:
    if given is None or given == "all":
        return given
    if not (given.isdecimal() and len(given) < 10 and int(given)):
        raise UsageError(f"--occurrence {given}: no such number", "give a number from 1, or all")
    return int(given)


# fmt: off
_search_options = together(
    value("Search", "--query-file FILE",
          "Take the queries from this embeddings file of the same model.  [default: FILE]"),
    options.layer_option("Search"),
    value("Search", "--occurrence N|all", "Occurrence of a WORD to search with, counted from 1, or "
          "all.  [default: the first 5]", callback=_occurrence),
    value("Search", "--text TEXT", "Sentence to search with, the word in brackets: 'she sat on the "
          "[bank]'. May be repeated.", multiple=True),
    value("Search", "-m, --model NAME|PATH",
          "Model for --text.  [default: the model that FILE records]"),
    value("Search", "-k, --count N", "Number of neighbors per query.",
          type=options.AT_LEAST_1, default=5),
    flag("Search", "--same-word",
         "Compare only with the same word form (case-insensitive), which separates its senses."),
)
# fmt: on


@command
@argument("file", metavar="FILE")
@argument("queries", nargs=-1, metavar="QUERY…")
@_search_options
@options.plot_output(".html, .png, .svg or .pdf", required=False)
@options.json_option
def neighbors(*, file: str, queries: tuple[str, ...], **given: Any) -> None:
    """Find the nearest neighbors of a token by cosine, each in its sentence.

    FILE is an embeddings file of any layout. A QUERY is a WORD (its occurrences in FILE, in any
    case), KEY:N (token N of sentence KEY, both counted from 0) or KEY:WORD (the first token WORD of
    the sentence); KEY:=7 is the first token spelled 7, and =12:3 is the word 12:3. A query with a
    WORD requires a file that stores its tokens: those of layout flat, and those that store the
    sentences. The nearest neighbors are listed first, ties in file order, each with up to 6 tokens
    of context on either side.

    The sentence of the query, sentences with the same tokens, and zero vectors are left out. In a
    file of pooled sentences or of types, a QUERY is a KEY, and its neighbors are sentences or
    types. TEXT is split into tokens as the text of FILE was: at whitespace, or as with --tokenize.

    \b
    Examples:
      elmo neighbors corpus.hdf5 bank
      elmo neighbors corpus.hdf5 --text "she sat on the [bank]"
      elmo neighbors corpus.hdf5 12:3 40:play
      elmo neighbors corpus.hdf5 12:play --same-word --layer 1
      elmo neighbors corpus.hdf5 0:play --query-file queries.hdf5
      elmo neighbors corpus.hdf5 bank -k 20 -o bank.html
    """
    from elmo_cli.analysis.neighbors import embed_queries
    from elmo_cli.isolate import run_isolated

    texts, output = given["text"], given["output"]
    files = [file, *filter(None, [given["query_file"]])]
    if output is not None:
        options.check_plot(output, files, overwrite=given["overwrite"], html=True)
    if texts:
        options.refuse_options(["query_file"], "with --text")
    else:
        options.refuse_options(["model"], "without --text")
    if bool(queries) == bool(texts):
        hint = f"`elmo neighbors {file} bank` searches with the occurrences of `bank`"
        raise UsageError("expected either a QUERY or --text", hint)
    typed = embed_queries(file, texts, given["layer"], given["model"]) if texts else None
    facts, pairs, unit, tokens = run_isolated(
        partial(_find, file, queries, typed, given), files, EmbeddingsFileError
    )
    if tokens is not None:
        from elmo_cli.plot.token_plot import draw_tokens

        draw_tokens(tokens, output)
    console.warn(*facts["warnings"])
    rows = [row for pair in pairs for row in _rows(*pair)]
    facts["queries"] = [_as_facts(*pair) for pair in pairs]
    console.print_result(facts, lambda: print_in_context(("cosine", "position"), rows))
    compared = f"layer {facts['layer']}, {facts['n_compared']:,} {unit}"
    console.note(*(f"{file}: {note}" for note in (compared, *_notes(pairs))))


def _find(
    file: str, texts: Sequence[str], typed: _Queries | None, given: dict[str, Any]
) -> tuple[dict[str, Any], list[_Pair], str, PlottedTokens | None]:
    """Return the JSON fields of a search, queries with neighbors, the unit, and tokens to plot."""
    from elmo_cli.analysis.neighbors import nearest, read_queries
    from elmo_cli.analysis.vectors import LayerView
    from elmo_cli.store.reader import open_embeddings

    query_file, same_word = given["query_file"], given["same_word"]
    with open_embeddings(file) as embeddings:
        view = LayerView(embeddings, given["layer"])
        of_file = {"occurrence": given["occurrence"], "query_file": query_file}
        queries, warnings = typed or read_queries(view, texts, **of_file)
        found = nearest(view, queries, given["count"], same_word=same_word)
        tokens = None
        if given["output"] is not None:
            from elmo_cli.plot.token_plot import read_neighbors

            tokens = read_neighbors(view, queries, found.neighbors)
    if n := found.sentences_without_tokens:
        skipped = plural(n, "sentence")
        warnings.append(f"{file}: skipped {skipped} whose tokens are not stored")
    facts = {"file": file, "query_file": query_file, "layer": view.layer, "same_word": same_word}
    facts |= {"n_compared": found.n_compared, "sentences_without_tokens": n, "warnings": warnings}
    return facts, list(zip(queries, found.neighbors, strict=True)), view.unit, tokens


def _notes(pairs: Sequence[_Pair]) -> Iterator[str]:
    """Yield what a reader of the table has to know."""
    counts = {query.text: query.n_occurrences for query, _ in pairs}
    for text, n in counts.items():
        if n is not None:
            shown = sum(query.text == text for query, _ in pairs)
            more = "; `--occurrence all` searches with all" if shown < n else ""
            times = plural(n, "occurrence")
            yield f"{shown} of {times} of {text.lstrip('=')}{more}"
    if any(occurrence.tokens is None for _, near in pairs for occurrence, _ in near):
        yield "the tokens of some sentences are not stored"


def _as_facts(query: Query, near: _Near) -> dict[str, Any]:
    neighbors = [{"cosine": cosine, **as_facts(occurrence)} for occurrence, cosine in near]
    facts = {"query": query.text, "n_occurrences": query.n_occurrences, **as_facts(query.token)}
    return {**facts, "neighbors": neighbors}


def _rows(query: Query, near: _Near) -> list[tuple[str, ...]]:
    rows = [(f"{cosine:.3f}", *in_context(occurrence)) for occurrence, cosine in near]
    return [("query", *in_context(query.token)), *rows]
