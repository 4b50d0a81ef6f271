"""`elmo neighbors`: find the nearest neighbors of a token."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from elmo_cli.cli import console, options, plot_options
from elmo_cli.cli.click_options import (
    FILE,
    MODEL_OR_FILE,
    CompletedText,
    argument,
    command,
    flag,
    together,
    value,
)
from elmo_cli.cli.kwic import as_facts, in_context, print_in_context
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.messages import plural

if TYPE_CHECKING:
    from elmo_cli.analysis.neighbors import FoundQueries, Neighbor, Query
    from elmo_cli.plot.token_plot import PlottedTokens

_MOST_DIGITS = 9  # of the number of an occurrence


def _occurrence(ctx: click.Context, parameter: click.Parameter, words: str | None) -> Any:
    """Return the number of an occurrence, "all" or None."""
    if words is None or words == "all":
        return words
    is_number = words.isdecimal() and len(words) <= _MOST_DIGITS
    if not is_number or int(words) == 0:
        hint = "give a number from 1, or all"
        raise UsageError("no such number", hint, where=f"--occurrence {words}")
    return int(words)


# fmt: off
_search_options = together(
    value("Search", "--query-file FILE",
          "Take the queries from this embeddings file of the same model.  [default: FILE]",
          type=FILE),
    options.layer_option("Search"),
    value("Search", "--occurrence N|all", "Occurrence of a WORD to search with, counted from 1, or "
          "all.  [default: the first 5]", callback=_occurrence,
          type=CompletedText(names=lambda: ["all"])),
    value("Search", "--text TEXT", "Sentence to search with, the word in brackets: 'she sat on the "
          "[bank]'. May be repeated.", multiple=True),
    value("Search", "-m, --model NAME|PATH",
          "Model for --text.  [default: the model that FILE records]", type=MODEL_OR_FILE),
    value("Search", "-k, --count N", "Number of neighbors per query.",
          type=options.AT_LEAST_1, default=5),
    flag("Search", "--same-word",
         "Compare only with the same word form (case-insensitive), which separates its senses."),
)
# fmt: on


@dataclass(frozen=True)
class NeighborsOptions:
    """The values of all options of `elmo neighbors`."""

    file: str
    queries: tuple[str, ...]
    query_file: str | None
    layer: int | None
    occurrence: int | Literal["all"] | None
    text: tuple[str, ...]
    model: str | None
    count: int
    same_word: bool
    output: str | None
    overwrite: bool


@command
@argument("file", metavar="FILE", type=FILE)
@argument("queries", nargs=-1, metavar="QUERY…")
@_search_options
@plot_options.plot_output(".html, .png, .svg or .pdf", required=False)
@options.json_option
def neighbors(**values: Any) -> None:
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

    chosen = NeighborsOptions(**values)
    files = [chosen.file]
    if chosen.query_file is not None:
        files.append(chosen.query_file)
    _check_options(chosen, files)
    typed = None
    if chosen.text:
        typed = embed_queries(chosen.file, chosen.text, chosen.layer, chosen.model)
    search = run_isolated(partial(_search, chosen, typed), files, EmbeddingsFileError)
    if search.plotted is not None:
        from elmo_cli.plot.token_plot import write_tokens

        with plot_options.plot_warnings():
            write_tokens(search.plotted, str(chosen.output))
    console.warn(*search.warnings)
    console.print_result(_facts(chosen, search), partial(_print_table, search.answers))
    console.note(_summary_line(chosen, search))
    for note in _notes(search.answers):
        console.note(f"{chosen.file}: {note}")


def _check_options(chosen: NeighborsOptions, files: Sequence[str]) -> None:
    """Refuse options that contradict each other, and a plot that cannot be written."""
    if chosen.output is None:
        options.refuse_options(["overwrite"], "without --output")
    else:
        plot_options.check_plot(chosen.output, files, overwrite=chosen.overwrite, of_tokens=True)
    if chosen.text:
        options.refuse_options(["query_file", "occurrence"], "with --text")
    else:
        options.refuse_options(["model"], "without --text")
    if bool(chosen.queries) == bool(chosen.text):
        hint = f"`elmo neighbors {chosen.file} bank` searches with the occurrences of `bank`"
        raise UsageError("expected either a QUERY or --text", hint)


@dataclass(frozen=True)
class _AnsweredQuery:
    """A query and its nearest neighbors."""

    query: Query
    neighbors: list[Neighbor]


@dataclass(frozen=True)
class _Search:
    """The result of a search.

    Attributes:
        layer, unit: as in `LayerView`.
        n_compared, sentences_without_tokens: as in `Neighbors`.
        plotted: tokens to plot; None without an output.
    """

    layer: int | str
    unit: str
    n_compared: int
    sentences_without_tokens: int
    answers: list[_AnsweredQuery]
    warnings: list[str]
    plotted: PlottedTokens | None


def _search(chosen: NeighborsOptions, typed: FoundQueries | None) -> _Search:
    """Search a file for the neighbors of typed queries, or of those of a file."""
    from elmo_cli.analysis.neighbors import nearest, read_queries
    from elmo_cli.analysis.vectors import LayerView
    from elmo_cli.store.reader import open_embeddings

    with open_embeddings(chosen.file) as embeddings:
        view = LayerView(embeddings, chosen.layer)
        asked = typed
        if asked is None:
            asked = read_queries(
                view,
                chosen.queries,
                occurrence=chosen.occurrence,
                query_file=chosen.query_file,
            )
        found = nearest(view, asked.queries, chosen.count, same_word=chosen.same_word)
        plotted = None
        if chosen.output is not None:
            from elmo_cli.plot.token_plot import read_neighbors

            plotted = read_neighbors(view, asked.queries, found.neighbors)
    warnings = list(asked.warnings)
    n_skipped = found.sentences_without_tokens
    if n_skipped:
        skipped = plural(n_skipped, "sentence")
        warnings.append(f"{chosen.file}: skipped {skipped} whose tokens are not stored")
    return _Search(
        layer=view.layer,
        unit=view.unit,
        n_compared=found.n_compared,
        sentences_without_tokens=n_skipped,
        answers=[
            _AnsweredQuery(query, neighbors)
            for query, neighbors in zip(asked.queries, found.neighbors, strict=True)
        ],
        warnings=warnings,
        plotted=plotted,
    )


def _facts(chosen: NeighborsOptions, search: _Search) -> dict[str, Any]:
    """Return the JSON object of a search."""
    return {
        "file": chosen.file,
        "query_file": chosen.query_file,
        "layer": search.layer,
        "same_word": chosen.same_word,
        "n_compared": search.n_compared,
        "sentences_without_tokens": search.sentences_without_tokens,
        "warnings": search.warnings,
        "queries": [_answer_facts(answer) for answer in search.answers],
    }


def _answer_facts(answer: _AnsweredQuery) -> dict[str, Any]:
    query = answer.query
    return {
        "query": query.text,
        "n_occurrences": query.n_occurrences,
        **as_facts(query.token),
        "neighbors": [
            {"cosine": neighbor.cosine, **as_facts(neighbor.occurrence)}
            for neighbor in answer.neighbors
        ],
    }


def _print_table(answers: Sequence[_AnsweredQuery]) -> None:
    """Print each query and its neighbors in context."""
    rows = []
    for answer in answers:
        rows.append(("query", *in_context(answer.query.token)))
        for neighbor in answer.neighbors:
            rows.append((f"{neighbor.cosine:.3f}", *in_context(neighbor.occurrence)))
    print_in_context(("cosine", "position"), rows)


def _summary_line(chosen: NeighborsOptions, search: _Search) -> str:
    n_compared = plural(search.n_compared, search.unit.removesuffix("s"))
    line = f"{chosen.file}: layer {search.layer}, {n_compared}"
    if any(len(answer.neighbors) == chosen.count for answer in search.answers):
        line += f"; the {chosen.count:,} nearest of each query (-k)"
    return line


def _notes(answers: Sequence[_AnsweredQuery]) -> Iterator[str]:
    """Yield what a reader of the table has to know."""
    n_shown = Counter(answer.query.text for answer in answers)
    n_in_file = {answer.query.text: answer.query.n_occurrences for answer in answers}
    for text, n in n_in_file.items():
        if n is not None:
            more = "; `--occurrence all` searches with all" if n_shown[text] < n else ""
            word = text.lstrip("=")
            yield f"{n_shown[text]} of {plural(n, 'occurrence')} of {word}{more}"
    neighbors = [neighbor for answer in answers for neighbor in answer.neighbors]
    if any(neighbor.occurrence.tokens is None for neighbor in neighbors):
        yield "the tokens of some sentences are not stored"
