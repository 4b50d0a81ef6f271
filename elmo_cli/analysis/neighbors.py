"""nearest: the tokens of an embeddings file whose vectors are nearest to those of some tokens.

Source: Peters et al. 2018, 5.3 and table 4.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from elmo_cli.analysis.places import Place, find_place, untold
from elmo_cli.analysis.stored_layer import StoredLayer, Vectors
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.layouts import Key

PIECE_TOKENS = 4096  # compared at once
_EQUAL = 0.9999  # cosine of vectors that differ by rounding, int8's too
_MARGIN = 1e-4  # by more the quick products are not off

Double = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Query:
    """A token whose neighbours are asked for.

    Attributes:
        name: as the user calls it.
        source: the file that it stands in.
        place: where it stands.
        vectors: of all tokens of its sentence, at length 1, (token, dim) float64; of a sentence or
            a type its own, (1, dim).
    """

    name: str
    source: str
    place: Place
    vectors: Double

    @property
    def vector(self) -> Double:
        """Of the token, (dim,)."""
        found: Double = self.vectors[self.place.at or 0]
        return found

    def is_in(self, tokens: tuple[str, ...] | None, vectors: Vectors) -> bool:
        """Whether a sentence of as many tokens is the query's.

        By its tokens; where the file doesn't tell them by the vectors, of which only rounding
        makes equal sentences' differ.
        """
        if tokens is not None and self.place.tokens is not None:
            return tokens == self.place.tokens
        own, other = self.vectors, unit(vectors)
        both_zero = ~own.any(-1) & ~other.any(-1)
        return bool((both_zero | ((own * other).sum(-1) > _EQUAL)).all())


@dataclass(frozen=True, order=True)
class _Rank:
    """A candidate; the nearest sorts first, of equally near ones the first in the file."""

    distance: float
    order: int
    key: Key = field(compare=False)
    at: int = field(compare=False)


@dataclass(frozen=True)
class Nearest:
    """What a search found.

    Attributes:
        tokens: that were compared (or sentences, or types), those left out among them.
        untold: sentences passed over because the file does not tell their tokens.
        neighbors: for each query, with their cosines, the nearest first.
    """

    tokens: int
    untold: int
    neighbors: list[list[tuple[Place, float]]]


def read_query(layer: StoredLayer, name: str) -> Query:
    """The query that a user calls `name`, as in `find_place`, with its vectors.

    Raises:
        UsageError: no such token, or its vector is all zeros.
        EmbeddingsFileError: its vector is not finite, or the file is damaged.
    """
    place = find_place(layer, name)
    vectors = layer.vectors(place.key)
    at = place.at or 0
    _check_finite(layer, place.key, vectors[at : at + 1], at)
    with np.errstate(invalid="ignore"):
        query = Query(name, layer.path, place, unit(vectors))
    if not query.vector.any():
        raise UsageError(
            f"{layer.path}: the vector of {name} is all zeros, near to nothing",
            "name another token, or another `--layer`",
        )
    return query


def nearest(
    layer: StoredLayer, queries: Sequence[Query], n: int, *, same_word: bool = False
) -> Nearest:
    """The `n` tokens nearest to each query, by cosine.

    All tokens of sentences equal to the query's are left out, and so are vectors of zeros. Of
    equally near ones the first in the file comes first. The file is read once, and `PIECE_TOKENS`
    of it (or one sentence, if longer) are in memory at a time.

    Args:
        layer: where to look; the queries may be of another file of the same model.
        same_word: only tokens spelled as the query's, but for the case of letters.
    Raises:
        UsageError: `same_word`, and a file does not tell its tokens.
        EmbeddingsFileError: a vector is not finite, or the file is damaged.
    """
    if same_word and not layer.by_token:
        raise UsageError(
            f"{layer.path}: holds vectors of {layer.what}, which have no word in common",
            "leave out `--same-word`",
        )
    if same_word:
        _check_told(queries)
    search = _Search(layer, queries, n, same_word)
    for key in layer:
        search.add(key)
    search.compare()
    if same_word and search.untold and search.untold == search.sentences:
        raise untold(layer)
    return Nearest(search.tokens, search.untold, search.found())


def _check_told(queries: Sequence[Query]) -> None:
    for query in queries:
        if query.place.tokens is None:
            raise UsageError(
                f"{query.source}: does not tell which word {query.name} is",
                "leave out `--same-word`; a file of `--layout flat` holds the tokens",
            )


class _Search:
    """A search on its way through a file."""

    def __init__(
        self, layer: StoredLayer, queries: Sequence[Query], n: int, same_word: bool
    ) -> None:
        self._layer, self._queries, self._n = layer, queries, n
        self._words = [(query.place.token or "").lower() for query in queries] if same_word else []
        self._lengths = {len(query.vectors) for query in queries}
        self._vectors = np.stack([query.vector for query in queries])
        self._best: list[list[_Rank]] = [[] for _ in queries]
        self.tokens = self.untold = self.sentences = 0
        self._clear()

    def _clear(self) -> None:
        self._keys: list[Key] = []
        self._held: list[Vectors] = []
        self._allowed: list[npt.NDArray[np.bool_]] = []
        self._n_held = 0

    def add(self, key: Key) -> None:
        """Add the next sentence of the file, and compare if there are enough."""
        vectors = self._layer.vectors(key)
        if not len(vectors):
            return
        self.sentences += 1
        self._allowed.append(self._may_be_near(key, vectors))
        self._keys.append(key)
        self._held.append(vectors)
        self._n_held += len(vectors)
        if self._n_held >= PIECE_TOKENS:
            self.compare()

    def _may_be_near(self, key: Key, vectors: Vectors) -> npt.NDArray[np.bool_]:
        """Which tokens of a sentence may be neighbours of each query: (query, token)."""
        allowed = np.ones((len(self._queries), len(vectors)), bool)
        asked = self._words or len(vectors) in self._lengths
        tokens = self._layer.tokens(key) if asked else None
        for row, word in zip(allowed, self._words, strict=False):
            row[:] = [token.lower() == word for token in tokens] if tokens else False
        self.untold += bool(self._words) and tokens is None
        for row, query in zip(allowed, self._queries, strict=True):
            if len(query.vectors) == len(vectors) and query.is_in(tokens, vectors):
                row[:] = False
        return allowed

    def compare(self) -> None:
        """Compare the sentences that were added with all queries."""
        if not self._keys:
            return
        vectors = _floats(np.concatenate(self._held))
        allowed = np.concatenate(self._allowed, axis=1)
        ends = np.cumsum([len(held) for held in self._held])
        scaled, greatest = _scaled(vectors)
        self._check(vectors, greatest, ends)
        # Not by BLAS, whose threads a process with little memory may not be able to have.
        lengths = np.sqrt(np.einsum("td,td->t", scaled, scaled))
        products = np.einsum("td,qd->qt", scaled, self._vectors.astype(vectors.dtype))
        cosines = products / np.where(lengths > 0, lengths, 1)
        allowed &= greatest > 0
        for number in range(len(self._queries)):
            near = self._nearer(number, cosines[number], allowed[number])
            # Equal vectors get equal cosines here, wherever they stand.
            exact = (unit(vectors[near]) * self._vectors[number]).sum(-1)
            self._keep(number, near, exact, ends)
        self.tokens += len(vectors)
        self._clear()

    def _check(self, vectors: Vectors, greatest: Vectors, ends: npt.NDArray[np.int64]) -> None:
        wrong = np.flatnonzero(~np.isfinite(greatest))
        if len(wrong):
            at = int(wrong[0])
            sentence, begin = self._sentence(at, ends)
            key = self._keys[sentence]
            _check_finite(self._layer, key, vectors[at : at + 1], at - begin)

    @staticmethod
    def _sentence(at: int, ends: npt.NDArray[np.int64]) -> tuple[int, int]:
        """Which of the added sentences a token is in, and where that begins."""
        sentence = int(np.searchsorted(ends, at, "right"))
        return sentence, int(ends[sentence - 1]) if sentence else 0

    def _nearer(
        self, number: int, cosines: Vectors, allowed: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int64]:
        """The tokens that may be among the nearest of a query."""
        candidates = np.flatnonzero(allowed)
        cosines = cosines[candidates]
        best = self._best[number]
        least = -best[-1].distance if len(best) == self._n else -np.inf
        if len(cosines) > self._n:
            least = max(least, float(np.partition(cosines, -self._n)[-self._n]))
        return candidates[cosines >= least - _MARGIN]

    def _keep(
        self,
        number: int,
        near: npt.NDArray[np.int64],
        cosines: Double,
        ends: npt.NDArray[np.int64],
    ) -> None:
        best = self._best[number]
        for at, cosine in zip(near.tolist(), cosines.tolist(), strict=True):
            sentence, begin = self._sentence(at, ends)
            insort(best, _Rank(-cosine, self.tokens + at, self._keys[sentence], at - begin))
            del best[self._n :]

    def found(self) -> list[list[tuple[Place, float]]]:
        """The nearest of each query so far, with what is told of their sentences."""
        layer = self._layer
        return [
            [
                (
                    Place(rank.key, rank.at if layer.by_token else None, layer.tokens(rank.key)),
                    min(1.0, max(-1.0, -rank.distance)),
                )
                for rank in best
            ]
            for best in self._best
        ]


def unit(vectors: Vectors) -> Double:
    """Vectors at length 1, so that products are cosines, (vector, dim) float64; zeros stay."""
    scaled, _ = _scaled(vectors.astype(np.float64))
    lengths = np.sqrt((scaled * scaled).sum(-1, keepdims=True))
    found: Double = scaled / np.where(lengths > 0, lengths, 1)
    return found


def _floats(vectors: Vectors) -> Vectors:
    """In a type that products are precise in: float32 or float64."""
    return vectors.astype(np.result_type(vectors.dtype, np.float32), copy=False)


def _scaled(vectors: Vectors) -> tuple[Vectors, Vectors]:
    """Vectors whose greatest value is 1, so that no square is too great or too small.

    Returns:
        them, (vector, dim), and the greatest values, (vector,), which are not finite where one of
        the vector is not; zeros stay.
    """
    greatest = np.maximum(vectors.max(-1), -vectors.min(-1))
    with np.errstate(invalid="ignore"):
        scaled = vectors / np.where(greatest > 0, greatest, 1)[:, np.newaxis]
    return scaled, greatest


def _check_finite(layer: StoredLayer, key: Key, vectors: Vectors, at: int) -> None:
    if not np.isfinite(vectors).all():
        token = f", token {at}" if layer.by_token else ""
        raise EmbeddingsFileError(
            f"{layer.path}: sentence {key!r}{token}: a value is not finite",
            f"`elmo inspect --json {layer.path}` lists every problem; embed the text anew",
        )
