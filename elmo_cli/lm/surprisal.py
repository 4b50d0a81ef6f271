"""SurprisalTable: the surprisal of each token or sentence of a text, in rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from elmo_cli.arrays import Float64Array, FloatArray
from elmo_cli.fields import check_fields, one_of
from elmo_cli.lm.evaluation import TextScores
from elmo_cli.lm.perplexity import ByteModel
from elmo_cli.lm.stream import BACKWARD, FORWARD

Cell = int | float | str | None

_NATS = {"bits": math.log(2), "nats": 1.0}  # in one unit
_TOKEN_COLUMNS = (
    "sentence_id",
    "token_id",
    "token",
    "surprisal",
    "backward_surprisal",
    "unknown",
)
_SENTENCE_COLUMNS = (
    "sentence_id",
    "source",
    "line",
    "tokens",
    "unknown",
    "surprisal",
    "backward_surprisal",
)


@dataclass(frozen=True)
class SurprisalTable:
    """The surprisals of a text: the negative log-likelihoods of its predictions.

    A `sentence_id` is the key of the sentence in `elmo embed` plus one, so blank lines count.
    Tokens are numbered from 1. The boundaries of a sentence have rows of their own: `<S>`, number
    0, is predicted backward only, and `</S>`, the number after the last token, forward only; their
    other surprisal is None.

    Attributes:
        scores: of a corpus that was read with its lines; all predictions must be scored.
        per: what has a row, "token" or "sentence".
        unit: "bits" or "nats".
        has_spelling: whether the last column is `spelling`: the information in the spelling of
            unknown tokens (see `ByteModel`), 0 for other tokens and boundaries.

    Source of the first four columns: `lm-zoo get-surprisals`.
    """

    scores: TextScores
    per: str = one_of("token", "sentence")
    unit: str = one_of(*_NATS)
    has_spelling: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        columns = _TOKEN_COLUMNS if self.per == "token" else _SENTENCE_COLUMNS
        return (*columns, "spelling") if self.has_spelling else columns

    def rows(self) -> Iterator[tuple[Cell, ...]]:
        """Yield the rows in the order of the text; only those of a sentence are in memory."""
        return self._token_rows() if self.per == "token" else self._sentence_rows()

    def sums(self) -> Float64Array:
        """Return the surprisals of the sentences, (direction, sentence)."""
        return np.asarray(self._surprisals(self.scores.sums()))

    def spelling_sums(self) -> Float64Array:
        """Return the information in the spelling of unknown tokens, (sentence,)."""
        corpus = self.scores.corpus
        return np.add.reduceat(self._spelling[corpus.tokens], corpus.starts[:-1])

    def _token_rows(self) -> Iterator[tuple[Cell, ...]]:
        corpus = self.scores.corpus
        spelling = self._spelling.tolist()  # (type,)
        is_unknown = self.scores.is_unknown.tolist()  # (type,)
        ranges = pairwise(corpus.starts.tolist())
        in_text_order = self.scores.in_text_order()
        for key, (begin, end), scored in zip(corpus.keys, ranges, in_text_order, strict=True):
            forward, backward = scored
            # <S> w1 … wn </S>, each (n + 2,)
            types = corpus.tokens[begin:end].tolist()
            surprisals = [None, *self._surprisals(forward).tolist()]
            backward_surprisals = [*self._surprisals(backward).tolist(), None]
            columns = zip(types, surprisals, backward_surprisals, strict=True)
            for position, (type_number, surprisal, backward_surprisal) in enumerate(columns):
                row: tuple[Cell, ...] = (
                    key + 1,
                    position,
                    corpus.types[type_number],
                    surprisal,
                    backward_surprisal,
                    int(is_unknown[type_number]),
                )
                yield (*row, spelling[type_number]) if self.has_spelling else row

    def _sentence_rows(self) -> Iterator[tuple[Cell, ...]]:
        corpus = self.scores.corpus
        n_tokens = np.diff(corpus.starts) - 2
        n_unknown = self.scores.unknown_counts()
        sums = self.sums()
        spelling = self.spelling_sums()
        for number, (source, line) in enumerate(corpus.lines):
            row: tuple[Cell, ...] = (
                corpus.keys[number] + 1,
                source,
                line,
                int(n_tokens[number]),
                int(n_unknown[number]),
                float(sums[FORWARD, number]),
                float(sums[BACKWARD, number]),
            )
            yield (*row, float(spelling[number])) if self.has_spelling else row

    @cached_property
    def _spelling(self) -> Float64Array:
        """The information in the spelling of each type, (type,); 0 if it is known."""
        types = self.scores.corpus.types
        information = np.zeros(len(types))
        if self.has_spelling:
            unknown = np.flatnonzero(self.scores.is_unknown)
            byte_model = ByteModel(self.scores.vocabulary)
            bits = byte_model.bits_per_token([types[number] for number in unknown])
            information[unknown] = bits * (math.log(2) / _NATS[self.unit])
        return information

    def _surprisals(self, log_likelihoods: FloatArray) -> FloatArray:
        """Convert log-likelihoods, natural logarithms of any shape."""
        # A minus sign in front would turn 0 into -0.
        return 0.0 - log_likelihoods.astype(np.float64) / _NATS[self.unit]
