"""Queries with their vectors, and the tokens of an embeddings file with the highest cosine to them.

Source: Peters et al. 2018, 5.3 and table 4.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from elmo_cli.analysis.cosine_search import (
    CHUNK_TOKENS,
    Candidate,
    CosineSearch,
    VectorChunk,
)
from elmo_cli.analysis.query import Occurrence, check_has_tokens, find_marked, find_tokens
from elmo_cli.analysis.vectors import LayerRun, LayerView, check_comparable
from elmo_cli.arrays import AnyArray, BoolArray, Float32Array, Float64Array
from elmo_cli.errors import EmbeddingsFileError, ModelError, UsageError
from elmo_cli.isolate import run_isolated
from elmo_cli.store.reader import open_embeddings

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder

_TYPED = "`text`"  # in place of a file


@dataclass(frozen=True)
class Query:
    """A token to search with."""

    text: str  # what a user typed
    n_occurrences: int | None  # of its word in the file; None if it does not name a word
    token: Occurrence  # the key of a typed sentence is its number
    vector: Float32Array  # (dim,)
    source: str  # name of the file of the token; "`text`" if it was typed


class FoundQueries(NamedTuple):
    """Queries with their vectors, and warnings about the file that they come from."""

    queries: list[Query]
    warnings: list[str]


class Neighbor(NamedTuple):
    """A token (or sentence, or type) of a file, and its cosine to a query."""

    occurrence: Occurrence
    cosine: float


@dataclass(frozen=True)
class Neighbors:
    """The result of a search."""

    n_compared: int  # tokens (or sentences, or types) of the file
    sentences_without_tokens: int  # that `same_word` skipped, because tokens are not stored
    neighbors: list[list[Neighbor]]  # of each query, nearest first


@dataclass(frozen=True)
class _FileFacts:
    """What has to be known of a file to embed queries for it."""

    settings: dict[str, str]  # those that are strings
    layer_index: int  # of the layer to search, in `embeddings.layers`
    n_layers: int
    dim: int


def read_queries(
    view: LayerView,
    texts: Sequence[str],
    *,
    occurrence: int | Literal["all"] | None = None,
    query_file: str | None = None,
) -> FoundQueries:
    """Find the tokens that texts name.

    Args:
        view: the layer that is searched.
        texts, occurrence: as in `find_tokens`.
        query_file: the file of the tokens; that of `view` by default.
    Raises:
        UsageError: there is no such sentence, token, occurrence or layer.
        EmbeddingsFileError: the files are not comparable, or an array cannot be read.
    """
    with open_embeddings(query_file or view.path) as embeddings:
        differences = check_comparable(embeddings, view.embeddings)
        warnings = [f"{embeddings.path}: {difference}" for difference in differences]
        source = LayerView(embeddings, view.layer)
        queries = []
        for text in texts:
            tokens, n_occurrences = find_tokens(source, text, occurrence)
            for token in tokens:
                query = Query(
                    text=text,
                    n_occurrences=n_occurrences,
                    token=token,
                    vector=source.vector(token.key, token.position),
                    source=source.path,
                )
                queries.append(query)
    return FoundQueries(queries, warnings)


def embed_queries(
    path: str, texts: Sequence[str], layer: int | None = None, model: str | None = None
) -> FoundQueries:
    """Embed typed sentences, each with one token in brackets, like the text of an embeddings file.

    Args:
        path: embeddings file of tokens.
        layer: its number; None for the highest or only layer of the file.
        model: as in `pretrained.load`; by default the one that the file records.
    Raises:
        UsageError: no token is marked, or no model is known.
        EmbeddingsFileError, ModelError: the model is another one, or cannot be loaded.
    """
    facts = run_isolated(partial(_describe, path, layer), [path], EmbeddingsFileError)
    tokenizer = str(facts.settings.get("tokenizer"))
    tokens = [find_marked(text, number, tokenizer) for number, text in enumerate(texts)]
    embedder = _embedder_like(path, facts.settings, model)
    queries = []
    for text, token in zip(texts, tokens, strict=True):
        query = Query(
            text=text,
            n_occurrences=None,
            token=token,
            vector=_embed_token(path, facts, embedder, token),
            source=_TYPED,
        )
        queries.append(query)
    warnings = []
    state = facts.settings.get("state", "zero")
    if state not in ("zero", "warm"):
        warnings.append(f"{path}: state is {state!r}, that of a typed sentence is 'zero'")
    return FoundQueries(queries, warnings)


def _describe(path: str, layer: int | None) -> _FileFacts:
    """Read what `embed_queries` has to know of a file."""
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings, layer)
        view.check_per_token()
        # Attributes of other types are no settings, and those of other programs may not pickle.
        settings = {
            name: value for name, value in embeddings.attributes.items() if isinstance(value, str)
        }
        return _FileFacts(
            settings=settings,
            layer_index=view.index,
            n_layers=len(embeddings.layers),
            dim=embeddings.dim,
        )


def _embedder_like(path: str, settings: dict[str, str], model: str | None) -> Embedder:
    """Return an embedder with the settings of a file, and its model by default."""
    # These import torch, which other queries do not need.
    from elmo_cli.embed.verify_sample import embedder_of_file
    from elmo_cli.pretrained.load import load

    name = model or settings.get("model")
    if name is None:
        problem = "does not record its model, which `text` needs"
        raise UsageError(problem, "give it with `model`", where=path)
    try:
        return embedder_of_file(path, settings, load(name))
    except ModelError as error:
        if model:
            raise
        problem = f"its model {name!r}: {error.message}"
        raise ModelError(problem, "give its path with `model`", where=path) from None


def _embed_token(
    path: str, facts: _FileFacts, embedder: Embedder, token: Occurrence
) -> Float32Array:
    """Return the vector of a token of a typed sentence in the layer that is searched, (dim,)."""
    array = embedder.embed(token.tokens or ())
    layers = array.reshape(-1, *array.shape[-2:])  # (layer, token, dim)
    n_layers = len(layers)
    dim = layers.shape[-1]
    if (n_layers, dim) != (facts.n_layers, facts.dim):
        raise EmbeddingsFileError(
            f"{facts.n_layers} layers of dimension {facts.dim}, but the model computes "
            f"{n_layers} of dimension {dim}",
            "embed the sentence into a file, and name it with `query_file`",
            where=path,
        )
    vector: Float32Array = layers[facts.layer_index, token.position or 0].astype(np.float32)
    return vector


def nearest(
    view: LayerView, queries: Sequence[Query], k: int, *, same_word: bool = False
) -> Neighbors:
    """Find the `k` tokens nearest to each query by cosine; ties are in file order.

    The sentence of a query, sentences with the same tokens and zero vectors are left out. The file
    is read once, in runs.

    Args:
        same_word: compare only with the same word form (case-insensitive); only the vectors of
            sentences that contain it are read.
    Raises:
        UsageError: a query is a zero vector, or `same_word` is set and tokens are not stored.
        EmbeddingsFileError: a vector is not finite, or the file is corrupt.
    """
    words: set[str] | None = None
    if same_word:
        _check_words(view, queries)
        words = {(query.token.token or "").lower() for query in queries}
    lengths = _lengths_with_tokens(view, queries, same_word=same_word)
    query_vectors = np.stack([_unit_vector(query) for query in queries])  # (query, dim)
    search = CosineSearch(view, query_vectors, k)
    n_compared = 0
    n_without_tokens = 0
    for run in view.runs():
        numbers: Sequence[int] = range(len(run))
        if words is not None:
            found = _find_words(run, words)
            numbers = found.numbers
            n_compared += found.n_other_vectors
            n_without_tokens += found.n_without_tokens
        for chunk in _chunks(run, numbers):
            n_compared += len(chunk.vectors)
            exclusions = _Exclusions(
                path=view.path,
                chunk=chunk,
                queries=queries,
                lengths=lengths,
                same_word=same_word,
            )
            search.add(chunk, exclusions.of_query)
    return Neighbors(
        n_compared=n_compared,
        sentences_without_tokens=n_without_tokens,
        neighbors=[_neighbors(view, candidates) for candidates in search.best],
    )


def _lengths_with_tokens(
    view: LayerView, queries: Sequence[Query], *, same_word: bool
) -> set[int] | None:
    """Return the numbers of tokens of the sentences whose tokens are compared; None for all."""
    if same_word or not view.per_token:
        return None
    return {len(query.token.tokens or ()) for query in queries}


def _neighbors(view: LayerView, candidates: Sequence[Candidate]) -> list[Neighbor]:
    neighbors = []
    for candidate in candidates:
        position = candidate.position if view.per_token else None
        occurrence = Occurrence(candidate.key, position, view.tokens(candidate.key))
        neighbors.append(Neighbor(occurrence, cosine=-candidate.negative_cosine))
    return neighbors


def _check_words(view: LayerView, queries: Sequence[Query]) -> None:
    """Raise a UsageError unless the words of all tokens and queries are known."""
    view.check_per_token()
    check_has_tokens(view)
    for query in queries:
        if query.token.tokens is None:
            raise UsageError(
                f"the word of {query.token} is not stored",
                "leave out `same_word`, or embed the text of the query with layout flat",
                where=query.source,
            )


def _unit_vector(query: Query) -> Float64Array:
    """Return the vector of a query with length 1, (dim,)."""
    if not query.vector.any():
        raise UsageError(
            f"the vector of {query.token} is zero and has no neighbors",
            "name another token, or another `layer`",
            where=query.source,
        )
    vector = query.vector.astype(np.float64)
    unit: Float64Array = vector / np.linalg.norm(vector, axis=-1)
    return unit


@dataclass(frozen=True)
class _SentencesWithWords:
    """The sentences of a run that contain one of some words.

    Attributes:
        numbers: of these sentences in the run.
        n_other_vectors: of all other sentences.
        n_without_tokens: sentences whose tokens are not stored.
    """

    numbers: list[int]
    n_other_vectors: int
    n_without_tokens: int


def _find_words(run: LayerRun, words: Set[str]) -> _SentencesWithWords:
    """Find the sentences that contain one of some words in lower case, without their vectors."""
    run.read_tokens()
    numbers = []
    n_other_vectors = 0
    n_without_tokens = 0
    for number in range(len(run)):
        tokens = run.recorded_tokens(number)  # not yet compared with the number of vectors
        if tokens and words.isdisjoint(map(str.lower, tokens)):
            n_other_vectors += len(tokens)
        elif run.tokens(number) is None:
            n_other_vectors += run.n_vectors(number)
            n_without_tokens += 1
        else:
            numbers.append(number)
    return _SentencesWithWords(
        numbers=numbers,
        n_other_vectors=n_other_vectors,
        n_without_tokens=n_without_tokens,
    )


def _chunks(run: LayerRun, numbers: Sequence[int]) -> Iterator[VectorChunk]:
    """Yield the vectors of sentences of a run in chunks.

    All sentences of a run are one chunk if the file has their vectors in one array. Otherwise, a
    chunk ends with the sentence in which it reaches `CHUNK_TOKENS` vectors.
    """
    in_one_array = run.all_vectors()
    if in_one_array is not None and len(numbers) == len(run):
        vectors, ends = in_one_array
        yield VectorChunk(run=run, numbers=numbers, ends=ends, vectors=vectors)
        return
    begin = 0
    arrays: list[AnyArray] = []
    ends_so_far = [0]
    for index, number in enumerate(numbers, 1):
        array = run.stored_vectors(number)
        arrays.append(array)
        ends_so_far.append(ends_so_far[-1] + len(array))
        if ends_so_far[-1] >= CHUNK_TOKENS or index == len(numbers):
            yield VectorChunk(
                run=run,
                numbers=numbers[begin:index],
                ends=np.array(ends_so_far[1:]),
                vectors=np.concatenate(arrays),
            )
            begin = index
            arrays = []
            ends_so_far = [0]


@dataclass(frozen=True)
class _Exclusions:
    """The vectors of a chunk that are not compared with a query.

    Attributes:
        path: of the file that is searched.
        lengths: numbers of tokens of the sentences whose tokens are read; None for all.
    """

    path: str
    chunk: VectorChunk
    queries: Sequence[Query]
    lengths: Container[int] | None
    same_word: bool

    def of_query(self, number: int) -> BoolArray:
        """Mark the vectors of the sentence of a query and those of other words, (vector,)."""
        query = self.queries[number]
        own_key = query.token.key if query.source == self.path else None
        word = None
        if self.same_word and query.token.token is not None:
            word = query.token.token.lower()
        run = self.chunk.run
        is_excluded = np.zeros(len(self.chunk.vectors), np.bool_)
        for sentence, rows in self.chunk.spans():
            tokens = None
            if self.lengths is None or rows.stop - rows.start in self.lengths:
                tokens = run.tokens(sentence)
            has_same_tokens = tokens is not None and tokens == query.token.tokens
            if run.keys[sentence] == own_key or has_same_tokens:
                is_excluded[rows] = True
            elif word is not None and tokens is not None:
                is_excluded[rows] = [token.lower() != word for token in tokens]
            elif word is not None:
                is_excluded[rows] = True
        return is_excluded
