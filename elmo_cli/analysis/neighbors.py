"""Queries with their vectors, and the tokens of an embeddings file with the highest cosine to them.

Source: Peters et al. 2018, 5.3 and table 4.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from elmo_cli.analysis.query import Occurrence, check_has_tokens, find_marked, find_tokens
from elmo_cli.analysis.vectors import LayerView, check_comparable
from elmo_cli.arrays import BoolArray, Float32Array, Float64Array
from elmo_cli.errors import EmbeddingsFileError, ModelError, UsageError
from elmo_cli.isolate import run_isolated
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import open_embeddings
from elmo_cli.text.sentence import Tokens

if TYPE_CHECKING:
    from elmo_cli.embed.embedder import Embedder

CHUNK_TOKENS = 512  # tokens compared at once; more do not fit into the cache of a processor
DIGITS = 6  # of a cosine, so that equal vectors have equal cosines in spite of rounding
_TYPED = "`text`"  # in place of a file


@dataclass(frozen=True)
class Query:
    """A token to search with."""

    text: str  # what a user typed
    n_occurrences: int | None  # of its word in the file; None if it does not name a word
    token: Occurrence  # the key of a typed sentence is its number
    vector: Float32Array  # (dim,)
    source: str  # name of the file of the token; "`text`" if it was typed


@dataclass(frozen=True)
class Neighbors:
    """The result of a search."""

    n_compared: int  # tokens (or sentences, or types) of the file
    sentences_without_tokens: int  # that `same_word` skipped, because tokens are not stored
    neighbors: list[list[tuple[Occurrence, float]]]  # of each query with cosines, nearest first


class _ComparedSentence(NamedTuple):
    key: Key
    tokens: Tokens | None  # None also where they are not needed
    n_vectors: int  # in the file
    vectors: Float32Array  # (token, dim); (0, dim) where they are not needed


class _Candidate(NamedTuple):
    """A token near a query; the nearest one is the smallest, and ties are in file order."""

    negative_cosine: float
    number: int  # of its vector, in the whole file
    key: Key
    position: int  # in its sentence


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
        The queries, and warnings about differences from the file.
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
    return queries, warnings


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
    is read once, `CHUNK_TOKENS` at a time.

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
    query_vectors = np.stack([_unit_vector(query) for query in queries])  # (query, dim)
    best: list[list[_Candidate]] = [[] for _ in queries]
    n_compared = 0
    n_without_tokens = 0
    lengths = _lengths_with_tokens(view, queries, same_word=same_word)
    for chunk in _chunks(view, lengths, words):
        vectors = np.concatenate([sentence.vectors for sentence in chunk], dtype=np.float64)
        norms = np.linalg.norm(vectors, axis=-1)  # (vector,)
        is_zero = norms == 0
        # Without BLAS, whose threads may fail to start in a process with limited memory.
        products = np.einsum("td,qd->qt", vectors, query_vectors)
        cosines = (products / np.where(is_zero, 1, norms)).round(DIGITS)  # (query, vector)
        origins = _origins(chunk)
        for number, query in enumerate(queries):
            own_key = query.token.key if query.source == view.path else None
            is_excluded = is_zero | _is_excluded(chunk, query.token, own_key, same_word)
            own_cosines = np.where(is_excluded, -np.inf, cosines[number])
            for index in np.argsort(-own_cosines, kind="stable")[:k].tolist():
                if not np.isfinite(own_cosines[index]):
                    break  # the rest is excluded too
                key, position = origins[index]
                candidate = _Candidate(
                    negative_cosine=-float(own_cosines[index]),
                    number=n_compared + index,
                    key=key,
                    position=position,
                )
                best[number].append(candidate)
            best[number] = sorted(best[number])[:k]
        n_compared += sum(sentence.n_vectors for sentence in chunk)
        n_without_tokens += sum(sentence.tokens is None for sentence in chunk)
    return Neighbors(
        n_compared=n_compared,
        sentences_without_tokens=n_without_tokens if same_word else 0,
        neighbors=[_with_cosines(view, candidates) for candidates in best],
    )


def _lengths_with_tokens(
    view: LayerView, queries: Sequence[Query], *, same_word: bool
) -> set[int] | None:
    """Return the numbers of tokens of the sentences whose tokens are compared; None for all."""
    if same_word or not view.per_token:
        return None
    return {len(query.token.tokens or ()) for query in queries}


def _origins(chunk: Sequence[_ComparedSentence]) -> list[tuple[Key, int]]:
    """Return the key of the sentence of each vector, and its position there, (vector,)."""
    origins = []
    for sentence in chunk:
        for position in range(len(sentence.vectors)):
            origins.append((sentence.key, position))
    return origins


def _with_cosines(
    view: LayerView, candidates: Sequence[_Candidate]
) -> list[tuple[Occurrence, float]]:
    """Return the tokens of candidates, with their cosines."""
    neighbors = []
    for candidate in candidates:
        position = candidate.position if view.per_token else None
        occurrence = Occurrence(candidate.key, position, view.tokens(candidate.key))
        neighbors.append((occurrence, -candidate.negative_cosine))
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


def _chunks(
    view: LayerView, lengths: Container[int] | None, words: Set[str] | None
) -> Iterator[list[_ComparedSentence]]:
    """Yield all sentences in chunks; a chunk ends at `CHUNK_TOKENS` vectors or as many sentences.

    Args:
        lengths: number of tokens of the sentences whose tokens are read, which is slow; None for
            all.
        words: in lower case; only vectors of sentences with one of them are read. None for all.
    """
    chunk: list[_ComparedSentence] = []
    n_vectors = 0
    for key in view:
        sentence = _compared_sentence(view, key, lengths, words)
        chunk.append(sentence)
        n_vectors += len(sentence.vectors)
        if n_vectors >= CHUNK_TOKENS or len(chunk) >= CHUNK_TOKENS:
            yield chunk
            chunk = []
            n_vectors = 0
    if chunk:
        yield chunk


def _compared_sentence(
    view: LayerView, key: Key, lengths: Container[int] | None, words: Set[str] | None
) -> _ComparedSentence:
    """Read the vectors and the tokens of a sentence as far as they are needed.

    Args:
        lengths, words: those of `_chunks`.
    """
    if words is None:
        vectors = view.vectors(key)
        needs_tokens = lengths is None or len(vectors) in lengths
        tokens = view.tokens(key) if needs_tokens else None
        return _ComparedSentence(key, tokens, n_vectors=len(vectors), vectors=vectors)
    no_vectors = np.zeros((0, view.embeddings.dim), np.float32)
    tokens = view.embeddings.tokens(key)  # not yet compared with the number of vectors
    if tokens and words.isdisjoint(map(str.lower, tokens)):
        return _ComparedSentence(key, tokens, n_vectors=len(tokens), vectors=no_vectors)
    tokens = view.tokens(key)
    if tokens is None:
        n_vectors = view.n_vectors(key)
        return _ComparedSentence(key, None, n_vectors=n_vectors, vectors=no_vectors)
    vectors = view.vectors(key)
    return _ComparedSentence(key, tokens, n_vectors=len(vectors), vectors=vectors)


def _is_excluded(
    chunk: Sequence[_ComparedSentence], query: Occurrence, own_key: Key | None, same_word: bool
) -> BoolArray:
    """Mark the vectors of the sentence of the query and those of other words, (vector,).

    Args:
        own_key: of the sentence of the query, if it is in the same file.
        same_word: also mark all tokens of other words, or of unknown ones.
    """
    word = None
    if same_word and query.token is not None:
        word = query.token.lower()
    is_excluded: list[bool] = []
    for sentence in chunk:
        n_vectors = len(sentence.vectors)
        if n_vectors == 0:  # none was read
            continue
        has_same_tokens = sentence.tokens is not None and sentence.tokens == query.tokens
        if sentence.key == own_key or has_same_tokens:
            is_excluded += [True] * n_vectors
        elif word is None:
            is_excluded += [False] * n_vectors
        elif sentence.tokens is None:
            is_excluded += [True] * n_vectors
        else:
            is_excluded += [token.lower() != word for token in sentence.tokens]
    return np.array(is_excluded, np.bool_)
