"""Queries with their vectors, and the tokens of an embeddings file with the highest cosine to them.

Source: Peters et al. 2018, 5.3 and table 4.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from elmo_cli.analysis.query import Occurrence, check_has_tokens, find_marked, find_tokens
from elmo_cli.analysis.vectors import LayerView, Vectors, check_comparable
from elmo_cli.arrays import BoolArray, Float64Array
from elmo_cli.errors import EmbeddingsFileError, ModelError, UsageError
from elmo_cli.isolate import run_isolated
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import open_embeddings

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder

CHUNK_TOKENS = 512  # tokens compared at once; more do not fit into the cache of a processor
DIGITS = 6  # of a cosine, so that equal vectors have equal cosines in spite of rounding
_TYPED = "`text`"  # in place of a file

_Found = tuple[float, int, Key, int]  # negative cosine, index in the file, key, position


class Query(NamedTuple):
    """A token to search with."""

    text: str  # what a user typed
    n_occurrences: int | None  # of its word in the file; None if it does not name a word
    token: Occurrence  # the key of a typed sentence is its number
    vector: Vectors  # (dim,) float32
    source: str  # name of the file of the token


class Neighbors(NamedTuple):
    """The result of a search."""

    n_compared: int  # tokens (or sentences, or types) of the file
    sentences_without_tokens: int  # that `same_word` skipped, because tokens are not stored
    neighbors: list[list[tuple[Occurrence, float]]]  # of each query with cosines, nearest first


class _QuerySentence(NamedTuple):
    key: Key
    tokens: tuple[str, ...] | None  # None also where they are not needed
    vectors: Vectors  # (token, dim)


def read_queries(
    view: LayerView,
    texts: Sequence[str],
    *,
    occurrence: int | Literal["all"] | None = None,
    query_file: str | None = None,
) -> tuple[list[Query], list[str]]:
    """Find the tokens that texts name, and return them with warnings about their file.

    Args:
        view: the layer that is searched.
        texts, occurrence: as in `find_tokens`.
        query_file: the file of the tokens; that of `view` by default.
    Raises:
        UsageError: there is no such sentence, token, occurrence or layer.
        EmbeddingsFileError: the files are not comparable, or an array cannot be read.
    """
    with open_embeddings(query_file or view.path) as embeddings:
        warnings = check_comparable(embeddings, view.embeddings)
        source = LayerView(embeddings, view.layer)
        queries = []
        for text in texts:
            tokens, n = find_tokens(source, text, occurrence)
            queries += [
                Query(text, n, one, source.vector(one.key, one.position), source.path)
                for one in tokens
            ]
    return queries, warnings


def embed_queries(
    path: str, texts: Sequence[str], layer: int | None = None, model: str | None = None
) -> tuple[list[Query], list[str]]:
    """Embed typed sentences, each with one token in brackets, like the text of an embeddings file.

    Args:
        path: embeddings file of tokens.
        layer: its number; None for the highest or only layer of the file.
        model: as in `pretrained.load`; by default the one that the file records.
    Returns:
        the queries, and warnings about differences from the file.
    Raises:
        UsageError: no token is marked, or no model is known.
        EmbeddingsFileError, ModelError: the model is another one, or cannot be loaded.
    """
    facts, index, n_layers, dim = run_isolated(
        partial(_describe, path, layer), [path], EmbeddingsFileError
    )
    tokens = [find_marked(text, n, str(facts.get("tokenizer"))) for n, text in enumerate(texts)]
    embedder = _embedder_like(path, facts, model)
    queries = []
    for text, token in zip(texts, tokens, strict=True):
        array = embedder.embed(token.tokens or ())
        layers = array.reshape(-1, *array.shape[-2:])
        if (len(layers), layers.shape[-1]) != (n_layers, dim):
            raise EmbeddingsFileError(
                f"{path}: {n_layers} layers of dimension {dim}, but the model computes "
                f"{len(layers)} of dimension {layers.shape[-1]}",
                "embed the sentence into a file, and name it with `query_file`",
            )
        vector = layers[index, token.position or 0].astype(np.float32)
        queries.append(Query(text, None, token, vector, _TYPED))
    state = facts.get("state", "zero")
    warning = f"{path}: state is {state!r}, that of a typed sentence is 'zero'"
    return queries, [] if state in ("zero", "warm") else [warning]


def _describe(path: str, layer: int | None) -> tuple[dict[str, str], int, int, int]:
    """Return the settings of a file, the index of a layer, the number of layers and their dim."""
    with open_embeddings(path) as embeddings:
        view = LayerView(embeddings, layer)
        view.check_per_token()
        # Attributes of other types are no settings, and those of other programs may not pickle.
        facts = {name: one for name, one in embeddings.attributes.items() if isinstance(one, str)}
        return facts, view.index, len(embeddings.layers), embeddings.dim


def _embedder_like(path: str, facts: dict[str, str], model: str | None) -> Embedder:
    # These import torch, which other queries do not need.
    from elmo_cli.embed.verify_sample import embedder_of_file
    from elmo_cli.pretrained.load import load

    name = model or facts.get("model")
    if name is None:
        what = f"{path}: does not record its model, which `text` needs"
        raise UsageError(what, "give it with `model`")
    try:
        return embedder_of_file(path, facts, load(name))
    except ModelError as error:
        if model:
            raise
        what = f"{path}: its model {name!r}: {error.message}"
        raise ModelError(what, "give its path with `model`") from None


def nearest(
    view: LayerView, queries: Sequence[Query], k: int, *, same_word: bool = False
) -> Neighbors:
    """Find the `k` tokens nearest to each query by cosine; ties are in file order.

    The sentence of a query, sentences with the same tokens and zero vectors are left out. The file
    is read once, `CHUNK_TOKENS` at a time.

    Args:
        same_word: compare only with the same word form (case-insensitive).
    Raises:
        UsageError: a query is a zero vector, or `same_word` is set and tokens are not stored.
        EmbeddingsFileError: a vector is not finite, or the file is corrupt.
    """
    if same_word:
        _check_words(view, queries)
    query_vectors = np.stack([_unit_vector(query) for query in queries])
    found: list[list[_Found]] = [[] for _ in queries]
    n_compared = n_without = 0
    needs_all = same_word or not view.per_token
    lengths_of_queries = {len(one.token.tokens or ()) for one in queries}
    for chunk in _chunks(view, None if needs_all else lengths_of_queries):
        vectors = np.concatenate([sentence.vectors for sentence in chunk], dtype=np.float64)
        lengths = np.linalg.norm(vectors, axis=-1)
        is_zero = lengths == 0
        # Without BLAS, whose threads may fail to start in a process with limited memory.
        products = np.einsum("td,qd->qt", vectors, query_vectors)
        all_cosines = (products / np.where(is_zero, 1, lengths)).round(DIGITS)
        origins = [(key, position) for key, _, rows in chunk for position in range(len(rows))]
        for number, query in enumerate(queries):
            own_key = query.token.key if query.source == view.path else None
            is_excluded = is_zero | _is_excluded(chunk, query.token, own_key, same_word)
            cosines = np.where(is_excluded, -np.inf, all_cosines[number])
            best = np.argsort(-cosines, kind="stable")[:k].tolist()
            found[number] += [
                (-float(cosines[index]), n_compared + index, *origins[index])
                for index in best
                if np.isfinite(cosines[index])
            ]
            found[number] = sorted(found[number])[:k]
        n_compared += len(vectors)
        n_without += sum(sentence.tokens is None for sentence in chunk)
    neighbors = [
        [
            (Occurrence(key, position if view.per_token else None, view.tokens(key)), -distance)
            for distance, _, key, position in best
        ]
        for best in found
    ]
    return Neighbors(n_compared, n_without if same_word else 0, neighbors)


def _check_words(view: LayerView, queries: Sequence[Query]) -> None:
    view.check_per_token()
    check_has_tokens(view)
    for query in queries:
        if query.token.tokens is None:
            raise UsageError(
                f"{query.source}: the word of {query.token} is not stored",
                "leave out `same_word`, or embed the text of the query with layout flat",
            )


def _unit_vector(query: Query) -> Float64Array:
    if not query.vector.any():
        raise UsageError(
            f"{query.source}: the vector of {query.token} is zero and has no neighbors",
            "name another token, or another `layer`",
        )
    vector = query.vector.astype(np.float64)
    unit: Float64Array = vector / np.linalg.norm(vector, axis=-1)
    return unit


def _chunks(view: LayerView, lengths: Container[int] | None) -> Iterator[list[_QuerySentence]]:
    """Yield all sentences in chunks of at least `CHUNK_TOKENS` vectors, except the last chunk.

    Tokens are slow to read, so only sentences of these lengths get them; None for all.
    """
    chunk: list[_QuerySentence] = []
    n_vectors = 0
    for key in view:
        vectors = view.vectors(key)
        needs_tokens = lengths is None or len(vectors) in lengths
        chunk.append(_QuerySentence(key, view.tokens(key) if needs_tokens else None, vectors))
        n_vectors += len(vectors)
        if n_vectors >= CHUNK_TOKENS:
            yield chunk
            chunk, n_vectors = [], 0
    if n_vectors:
        yield chunk


def _is_excluded(
    chunk: Sequence[_QuerySentence], query: Occurrence, own_key: Key | None, same_word: bool
) -> BoolArray:
    """Mark the vectors of the sentence of the query and those of other words, (vector,)."""
    word = query.token.lower() if same_word and query.token is not None else None
    found: list[bool] = []
    for key, tokens, vectors in chunk:
        is_own = key == own_key or (tokens is not None and tokens == query.tokens)
        if is_own or word is None or tokens is None:
            found += [is_own or word is not None] * len(vectors)
        else:
            found += [token.lower() != word for token in tokens]
    return np.array(found, np.bool_)
