"""`elmo neighbors`: find the nearest neighbours of a token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from elmo_cli.cli import console
from elmo_cli.cli.click_options import argument, command, flag, value
from elmo_cli.cli.kwic import as_facts, in_context, print_in_context
from elmo_cli.cli.options import AT_LEAST_1, json_option, layer_option, picture_output
from elmo_cli.cli.plot import check_picture
from elmo_cli.errors import EmbeddingsFileError, ModelError, UsageError

if TYPE_CHECKING:
    from elmo_cli.analysis.query import Occurrence
    from elmo_cli.plot.token_picture import Tokens
    from elmo_cli.store.layouts import Array

    _Near: TypeAlias = list[tuple[Occurrence, float]]
    _Query: TypeAlias = tuple[str, int | None, Occurrence]  # as typed, how often its word occurs
    _Typed: TypeAlias = tuple[str, Occurrence, Array]
    _Found: TypeAlias = tuple[dict[str, Any], list[tuple[_Query, _Near]], str, Tokens | None]

# What `--text` takes from the attributes of FILE.
_RECORDED = {"model", "model_sha256", "state", "layers", "pool", "precision", "tokenizer"}


def _occurrence(ctx: click.Context, parameter: click.Parameter, given: str | None) -> Any:
    if given is None or given == "all":
        return given
    if not (given.isascii() and given.isdigit() and len(given) < 10 and int(given)):
        raise UsageError(f"--occurrence {given}: no such number", "give a number from 1, or all")
    return int(given)


@command
@argument("file", metavar="FILE")
@argument("queries", nargs=-1, metavar="QUERY…")
@value(
    "Search",
    "--query-file FILE",
    "Take the queries from this embeddings file of the same model.  [default: FILE]",
)
@layer_option("Search")
@value(
    "Search",
    "--occurrence N|all",
    "Occurrence of a WORD to search with, counted from 1, or all.  [default: the first 5]",
    callback=_occurrence,
)
@value(
    "Search",
    "--text TEXT",
    "Sentence to search with, the word in brackets: 'she sat on the [bank]'. May be repeated.",
    multiple=True,
)
@value(
    "Search",
    "-m, --model NAME|PATH",
    "Model for --text.  [default: the model that FILE records]",
)
@value("Search", "-k, --count N", "Number of neighbours per query.", type=AT_LEAST_1, default=5)
@flag(
    "Search",
    "--same-word",
    "Compare only with the same word form (case-insensitive), which separates its senses.",
)
@picture_output(".html, .png, .svg or .pdf", required=False)
@json_option
def neighbors(
    *, file: str, queries: tuple[str, ...], quiet: bool, as_json: bool, **given: Any
) -> None:
    """Find the nearest neighbours of a token by cosine, each in its sentence.

    FILE is an embeddings file of any layout. A QUERY is a WORD (its occurrences in FILE, in any
    case), KEY:N (token N of sentence KEY, both counted from 0) or KEY:WORD (the first token WORD of
    the sentence); KEY:=7 is the first token spelled 7, and =12:3 is the word 12:3. A query with a
    WORD requires a file that stores its tokens: those of layout flat, and those that store the
    sentences. The nearest neighbours are listed first, ties in file order, each with up to 6 tokens
    of context on either side.

    The sentence of the query, sentences with the same tokens, and zero vectors are left out. In a
    file of pooled sentences or of types, a QUERY is a KEY, and its neighbours are sentences or
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
    from elmo_cli.isolate import run_isolated

    console.check_stdout()
    texts, model = given.pop("text"), given.pop("model")
    output, overwrite = given.pop("output"), given.pop("overwrite")
    if output is not None:
        inputs = [file, *filter(None, [given["query_file"]])]
        check_picture(output, inputs, overwrite=overwrite, html=True)
    if texts and (queries or given["query_file"]):
        what = "QUERY" if queries else "--query-file"
        raise UsageError(f"--text and {what} cannot be combined", "run the command once for each")
    if model and not texts:
        raise UsageError("--model: has no meaning without --text", "FILE has the vectors already")
    if not queries and not texts:
        raise UsageError(
            "no QUERY is given",
            f"`elmo neighbors {file} bank` searches with the occurrences of `bank`, `12:3` with "
            "token 3 of sentence 12",
        )
    typed = _embed_texts(file, texts, model) if texts else None
    files = [file, *filter(None, [given["query_file"]])]
    find = partial(_find, file, queries, typed, is_drawn=output is not None, **given)
    facts, pairs, note, tokens = run_isolated(find, files, EmbeddingsFileError)
    if tokens is not None:
        from elmo_cli.plot.token_picture import draw_tokens

        draw_tokens(tokens, output)
    for warning in facts["warnings"]:
        console.note(f"warning: {warning}", quiet=quiet)
    if as_json:
        console.print_json({**facts, "queries": [_as_facts(*pair) for pair in pairs]})
    else:
        print_in_context(("cosine", "position"), [_rows(*pair) for pair in pairs])
    console.note(f"{file}: {note}", quiet=quiet)
    for name, n in {name: n for (name, n, _), _ in pairs if n is not None}.items():
        shown = sum(query[0] == name for query, _ in pairs)
        more = "; `--occurrence all` searches with all" if shown < n else ""
        times = console.plural(n, "occurrence")
        console.note(f"{file}: {shown} of {times} of {name.lstrip('=')}{more}", quiet=quiet)
    if any(occurrence.tokens is None for _, near in pairs for occurrence, _ in near):
        console.note(f"{file}: the tokens of some sentences are not stored", quiet=quiet)
    for (name, n_occurrences, query), near in pairs:
        if not near:
            which = name if n_occurrences is None else f"{name} at {query}"
            console.note(f"{file}: no neighbour for {which}", quiet=quiet)


def _embed_texts(file: str, texts: Sequence[str], model: str | None) -> list[_Typed]:
    """Return the marked token of each text and the layers of the text, with the model of `file`."""
    from elmo_cli.analysis.typed_text import find_marked
    from elmo_cli.isolate import run_isolated

    facts = run_isolated(partial(_recorded, file), [file], EmbeddingsFileError)
    tokenizer = str(facts.get("tokenizer"))
    queries = [find_marked(text, key, tokenizer) for key, text in enumerate(texts)]
    name = model or facts.get("model")
    if name is None:
        what = f"{file}: does not record its model, which `text` needs"
        raise UsageError(what, "give it with `model`")
    from elmo_cli.embed.verify_sample import embedder_of_file
    from elmo_cli.pretrained.load import load

    try:
        bilm = load(str(name))
    except ModelError as error:
        if model:
            raise
        what = f"{file}: its model {str(name)!r}: {error.message}"
        raise ModelError(what, "give its path with `model`") from None
    embedder = embedder_of_file(file, facts, bilm)
    arrays = [embedder.embed(query.tokens or ()) for query in queries]
    return list(zip(texts, queries, arrays, strict=True))


def _recorded(file: str) -> dict[str, Any]:
    """Return what `--text` needs from the attributes of an embeddings file."""
    from elmo_cli.store.reader import open_embeddings

    with open_embeddings(file) as embeddings:
        if embeddings.unit != "tokens":
            what = f"{file}: has vectors of {embeddings.unit}, not of tokens"
            raise UsageError(what, "a QUERY is the KEY of one of them; leave out `text`")
        names = _RECORDED & embeddings.attributes.keys()
        return {name: embeddings.attributes[name] for name in names}


def _find(
    file: str,
    queries: Sequence[str],
    typed: list[_Typed] | None,
    *,
    query_file: str | None,
    count: int,
    is_drawn: bool,
    **given: Any,
) -> _Found:
    from elmo_cli.analysis.neighbors import VectorSource, nearest
    from elmo_cli.analysis.query import find_tokens
    from elmo_cli.analysis.typed_text import TypedText
    from elmo_cli.analysis.vectors import LayerView, check_comparable, same_layer
    from elmo_cli.store.reader import open_embeddings

    with open_embeddings(file) as embeddings, open_embeddings(query_file or file) as other:
        view, warnings = LayerView(embeddings, given["layer"]), []
        source: VectorSource = view
        asked: list[_Query] = [(text, None, query) for text, query, _ in typed or ()]
        if typed:
            source = TypedText(view, [array for _, _, array in typed])
            warnings = _state_warning(file, embeddings.attributes)
        else:
            query_view = view
            if query_file is not None:
                warnings = check_comparable(other, embeddings)
                source = query_view = same_layer(view, other)
            for query in queries:
                tokens, n = find_tokens(query_view, query, given["occurrence"])
                asked += [(query, n, token) for token in tokens]
        same_word = given["same_word"]
        occurrences = [query for _, _, query in asked]
        found = nearest(view, occurrences, count, same_word=same_word, query_view=source)
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
        pairs = list(zip(asked, found.neighbors, strict=True))
        drawn = None
        if is_drawn:
            from elmo_cli.plot.token_picture import read_neighbors

            drawn = read_neighbors(view, source, occurrences, found.neighbors)
        return facts, pairs, f"layer {view.layer}, {found.n_compared:,} {view.unit}", drawn


def _state_warning(file: str, attributes: Mapping[str, Any]) -> list[str]:
    state = attributes.get("state", "zero")
    if state in ("zero", "warm"):
        return []
    return [f"{file}: state is {state!r}, that of a typed sentence is 'zero'"]


def _as_facts(query: _Query, near: _Near) -> dict[str, Any]:
    name, n_occurrences, token = query
    neighbors = [{"cosine": cosine, **as_facts(occurrence)} for occurrence, cosine in near]
    facts = {"query": name, "n_occurrences": n_occurrences, **as_facts(token)}
    return {**facts, "neighbors": neighbors}


def _rows(query: _Query, near: _Near) -> list[tuple[str, ...]]:
    rows = [(f"{cosine:.3f}", *in_context(occurrence)) for occurrence, cosine in near]
    return [("query", *in_context(query[2])), *rows]
