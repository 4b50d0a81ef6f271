"""nearest: the tokens of an embeddings file with the highest cosine to given tokens.

Source: Peters et al. 2018, 5.3 and table 4.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from elmo_cli.analysis.query import Occurrence, check_has_tokens
from elmo_cli.analysis.vectors import LayerView, Vectors
from elmo_cli.errors import UsageError
from elmo_cli.store.layouts import Key

CHUNK_TOKENS = 512  # tokens compared at once; more do not fit into the cache of a processor
DIGITS = 6  # of a cosine, so that equal vectors have equal cosines in spite of rounding

Array = npt.NDArray[np.float64]
_Found = tuple[float, int, Key, int]  # negative cosine, index in the file, key, position


@dataclass(frozen=True)
class Neighbors:
    """The result of a search.

    Attributes:
        n_compared: number of tokens (or sentences, or types) of the file that were compared.
        sentences_without_tokens: number of sentences that `same_word` skipped, because their tokens
            are not stored.
        neighbors: the neighbours of each query with their cosines, nearest first.
    """

    n_compared: int
    sentences_without_tokens: int
    neighbors: list[list[tuple[Occurrence, float]]]


class VectorSource(Protocol):
    """The source of the vectors of queries: a `LayerView` or a `TypedText`."""

    @property
    def path(self) -> str:
        """Its name in messages."""

    def vectors(self, key: Key) -> Vectors:
        """Return the vectors of a sentence, (token, dim)."""


class _Sentence(NamedTuple):
    key: Key
    tokens: tuple[str, ...] | None  # None also where they are not needed
    vectors: Vectors  # (token, dim)


def nearest(
    view: LayerView,
    queries: Sequence[Occurrence],
    k: int,
    *,
    same_word: bool = False,
    query_view: VectorSource | None = None,
) -> Neighbors:
    """Find the `k` tokens nearest to each query by cosine; ties are in file order.

    The sentence of a query, sentences with the same tokens and zero vectors are left out. The file
    is read once, `CHUNK_TOKENS` at a time.

    Args:
        same_word: compare only with the same word form (case-insensitive).
        query_view: source of the vectors of the queries; `view` by default.
    Raises:
        UsageError: a query is a zero vector, or `same_word` is set and tokens are not stored.
        EmbeddingsFileError: a vector is not finite, or the file is corrupt.
    """
    source = query_view or view
    if same_word:
        _check_words(view, source, queries)
    query_vectors = np.stack([_query_vector(source, query) for query in queries])
    own_keys = [query.key if source is view else None for query in queries]
    lengths_of_queries = {len(query.tokens) for query in queries if query.tokens is not None}
    found: list[list[_Found]] = [[] for _ in queries]
    n_compared = n_without = 0
    for chunk in _chunks(view, None if same_word else lengths_of_queries):
        vectors = np.concatenate([sentence.vectors for sentence in chunk], dtype=np.float64)
        lengths = _lengths(vectors)
        is_zero = lengths == 0
        # Without BLAS, whose threads may fail to start in a process with limited memory.
        products = np.einsum("td,qd->qt", vectors, query_vectors)
        all_cosines = (products / np.where(is_zero, 1, lengths)).round(DIGITS)
        for number, query in enumerate(queries):
            is_excluded = is_zero | _is_excluded(chunk, query, own_keys[number], same_word)
            cosines = np.where(is_excluded, -np.inf, all_cosines[number])
            best = _best(chunk, cosines, n_compared, k)
            found[number] = sorted([*found[number], *best])[:k]
        n_compared += len(vectors)
        n_without += sum(sentence.tokens is None for sentence in chunk)
    return Neighbors(
        n_compared,
        n_without if same_word else 0,
        [[_neighbor(view, *one) for one in best] for best in found],
    )


def _check_words(view: LayerView, source: VectorSource, queries: Sequence[Occurrence]) -> None:
    if not view.per_token:
        raise UsageError(
            f"{view.path}: has vectors of {view.unit}, not of words", "leave out `same_word`"
        )
    check_has_tokens(view)
    for query in queries:
        if query.tokens is None:
            raise UsageError(
                f"{source.path}: the word of {query} is not stored",
                "leave out `same_word`, or embed the text of the query with layout flat",
            )


def _query_vector(view: VectorSource, query: Occurrence) -> Array:
    vector = view.vectors(query.key)[query.position or 0].astype(np.float64)
    if not vector.any():
        raise UsageError(
            f"{view.path}: the vector of {query} is zero and has no neighbours",
            "name another token, or another `layer`",
        )
    unit: Array = vector / _lengths(vector)
    return unit


def _neighbor(
    view: LayerView, distance: float, _: int, key: Key, position: int
) -> tuple[Occurrence, float]:
    found = Occurrence(key, position if view.per_token else None, view.tokens(key))
    return found, -distance


def _chunks(view: LayerView, lengths: Container[int] | None) -> Iterator[list[_Sentence]]:
    """Yield all sentences in chunks of at least `CHUNK_TOKENS` vectors, except the last chunk.

    Tokens are read only for sentences of these lengths, those of the queries; None for all.
    """
    chunk: list[_Sentence] = []
    n_vectors = 0
    for key in view:
        vectors = view.vectors(key)
        needs_tokens = lengths is None or not view.per_token or len(vectors) in lengths
        chunk.append(_Sentence(key, view.tokens(key) if needs_tokens else None, vectors))
        n_vectors += len(vectors)
        if n_vectors >= CHUNK_TOKENS:
            yield chunk
            chunk, n_vectors = [], 0
    if n_vectors:
        yield chunk


def _lengths(vectors: Array) -> Array:
    """Return the Euclidean lengths of vectors, (..., dim) to (...)."""
    lengths: Array = np.sqrt(np.einsum("...d,...d->...", vectors, vectors))
    return lengths


def _is_excluded(
    chunk: Sequence[_Sentence], query: Occurrence, own_key: Key | None, same_word: bool
) -> npt.NDArray[np.bool_]:
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


def _best(chunk: Sequence[_Sentence], cosines: Array, offset: int, k: int) -> list[_Found]:
    """Return the `k` highest finite cosines of a chunk that starts at vector `offset`."""
    starts = np.cumsum([0, *(len(sentence.vectors) for sentence in chunk)])
    found = []
    for index in np.argsort(-cosines, kind="stable")[:k].tolist():
        if np.isfinite(cosines[index]):
            number = int(np.searchsorted(starts, index, "right")) - 1
            position = index - int(starts[number])
            found.append((-float(cosines[index]), offset + index, chunk[number].key, position))
    return found
