"""CosineSearch: the vectors of a file with the highest cosines to some queries.

All vectors are compared in float32, with an error that is bounded. Only those that may be among the
nearest are compared again in float64, whose cosines, rounded to `DIGITS`, are the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elmo_cli.analysis.vectors import LayerRun, LayerView
from elmo_cli.arrays import AnyArray, BoolArray, Float32Array, Float64Array, Int64Array
from elmo_cli.store.half_precision import finite_to_float32, to_float32
from elmo_cli.store.layouts import Key

CHUNK_TOKENS = 512  # vectors converted at once; more do not fit into the cache of a processor
DIGITS = 6  # of a cosine, so that equal vectors have equal cosines in spite of rounding
# Squares of lengths between which float32 neither overflows nor loses digits.
_SMALLEST_SQUARE = 1e-20
_LARGEST_SQUARE = 1e37
# `finite_to_float32` gives numbers from 65,536, infinity or NaN for what is not finite.
_SQUARE_TO_CHECK = 2.0**32


@dataclass(frozen=True)
class VectorChunk:
    """Vectors of some sentences of a run, which are compared together.

    Attributes:
        numbers: of the sentences in the run.
        ends: where each of them ends among the vectors, (sentence,).
        vectors: in the stored dtype or float32, (vector, dim).
    """

    run: LayerRun
    numbers: Sequence[int]
    ends: Int64Array
    vectors: AnyArray

    def origin(self, row: int) -> tuple[Key, int]:
        """Return the key of the sentence of a vector, and its position there."""
        index = int(np.searchsorted(self.ends, row, side="right"))
        begin = int(self.ends[index - 1]) if index else 0
        return self.run.keys[self.numbers[index]], row - begin

    def spans(self) -> Iterator[tuple[int, slice]]:
        """Yield the number of each sentence, with its vectors."""
        begin = 0
        for number, end in zip(self.numbers, self.ends.tolist(), strict=True):
            yield number, slice(begin, end)
            begin = end


class Candidate(NamedTuple):
    """A vector near a query; the nearest one is the smallest, and ties are in file order."""

    negative_cosine: float
    number: int  # among all vectors that were compared
    key: Key
    position: int  # in its sentence


class CosineSearch:
    """Finds the `k` vectors nearest to each query, while chunks of vectors are added.

    Args:
        view: the layer that is searched.
        queries: vectors of length 1, (query, dim).
    Attributes:
        best: at most `k` vectors for each query, nearest first.
    """

    def __init__(self, view: LayerView, queries: Float64Array, k: int) -> None:
        self.best: list[list[Candidate]] = [[] for _ in queries]
        self._view = view
        self._queries = queries
        self._k = k
        self._n_added = 0
        self._buffer = np.empty((CHUNK_TOKENS, queries.shape[-1]), np.float32)
        n_terms = queries.shape[-1] + 4
        # The errors of two cosines in float32, and of rounding to `DIGITS`.
        self._margin = 4 * n_terms * float(np.finfo(np.float32).eps) + 10.0**-DIGITS

    def add(self, chunk: VectorChunk, is_excluded: Callable[[int], BoolArray]) -> None:
        """Compare the vectors of a chunk.

        Args:
            is_excluded: for the number of a query, the vectors that are left out, (vector,).
        Raises:
            EmbeddingsFileError: a vector is not finite.
        """
        products, squares = self._products_and_squares(chunk)
        is_certain = (squares > _SMALLEST_SQUARE) & (squares < _LARGEST_SQUARE)
        cosines = products / np.sqrt(np.where(is_certain, squares, 1))  # (query, vector)
        for query in range(len(self._queries)):
            is_compared = ~is_excluded(query)
            threshold = self._threshold(query, cosines[query][is_compared & is_certain])
            is_near = ~is_certain | (cosines[query] >= threshold)
            rows = np.flatnonzero(is_compared & is_near)
            self._add_near(query, chunk, rows)
        self._n_added += len(chunk.vectors)

    def _products_and_squares(self, chunk: VectorChunk) -> tuple[Float32Array, Float32Array]:
        """Return products with the queries, (query, vector), and squared lengths, (vector,).

        Both are computed in float32.
        """
        n_vectors = len(chunk.vectors)
        queries = self._queries.astype(np.float32)
        products = np.empty((len(queries), n_vectors), np.float32)
        squares = np.empty(n_vectors, np.float32)
        for begin in range(0, n_vectors, CHUNK_TOKENS):
            rows = slice(begin, min(begin + CHUNK_TOKENS, n_vectors))
            stored = chunk.vectors[rows]
            with np.errstate(over="ignore", invalid="ignore"):
                vectors = finite_to_float32(stored, self._buffer)
                # Without BLAS, whose threads may fail to start in a process with limited memory.
                np.einsum("td,td->t", vectors, vectors, out=squares[rows])
                np.einsum("td,qd->qt", vectors, queries, out=products[:, rows])
            if not (squares[rows] < _SQUARE_TO_CHECK).all():
                self._check_finite(chunk, rows)
        return products, squares

    def _check_finite(self, chunk: VectorChunk, rows: slice) -> None:
        vectors = to_float32(chunk.vectors[rows])
        for row, vector in enumerate(vectors, rows.start):
            if not np.isfinite(vector).all():
                key, _ = chunk.origin(row)
                raise self._view.not_finite(key)

    def _threshold(self, query: int, cosines: Float32Array) -> float:
        """Return a cosine in float32 below which no vector is among the nearest to a query."""
        thresholds = [-np.inf]
        best = self.best[query]
        if len(best) == self._k:
            thresholds.append(-best[-1].negative_cosine - self._margin)
        if len(cosines) > self._k:
            kth_best = np.partition(cosines, -self._k)[-self._k]
            thresholds.append(float(kth_best) - self._margin)
        return max(thresholds)

    def _add_near(self, query: int, chunk: VectorChunk, rows: Int64Array) -> None:
        """Compare some vectors of a chunk with a query in float64, and keep the nearest."""
        best = self.best[query]
        for begin in range(0, len(rows), CHUNK_TOKENS):
            near = rows[begin : begin + CHUNK_TOKENS]
            vectors = to_float32(chunk.vectors[near]).astype(np.float64)
            norms = np.linalg.norm(vectors, axis=-1)
            is_zero = norms == 0
            products = np.einsum("td,d->t", vectors, self._queries[query])
            cosines = (products / np.where(is_zero, 1, norms)).round(DIGITS)
            cosines[is_zero] = -np.inf
            for index in np.argsort(-cosines, kind="stable")[: self._k].tolist():
                if is_zero[index]:
                    break  # the rest is zero too
                row = int(near[index])
                key, position = chunk.origin(row)
                candidate = Candidate(
                    negative_cosine=-float(cosines[index]),
                    number=self._n_added + row,
                    key=key,
                    position=position,
                )
                best.append(candidate)
            best.sort()
            del best[self._k :]
