"""Batch: rows of tokens for one pass through the biLM, and which sentence each row is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np

from elmo_cli.arrays import Int64Array
from elmo_cli.text.characters import TokenIds

_MAX_PADDED = 16  # times the tokens; without padding some arrays still have a cell per row and step


class TypeNumbers:
    """Numbers of types (distinct tokens), in the order in which they first occur.

    Args:
        token_ids: those of the model, which has its own sentence boundaries.
    """

    def __init__(self, token_ids: TokenIds) -> None:
        self._begin = token_ids.begin
        self._end = token_ids.end
        # A new type gets the next number. `__len__` of the dictionary would give it too, but then
        # the dictionary would refer to itself, and stay in memory until cycles are collected.
        self._index: defaultdict[str, int] = defaultdict(count().__next__)

    def __len__(self) -> int:
        return len(self._index)

    @property
    def types(self) -> list[str]:
        """All types, by number."""
        return list(self._index)

    def numbers_of(self, tokens: Sequence[str]) -> Int64Array:
        """Numbers of a sentence's tokens and its two boundaries, (token + 2,); adds new types."""
        wrapped = (self._begin, *tokens, self._end)
        numbers = map(self._index.__getitem__, wrapped)
        return np.fromiter(numbers, np.int64, len(wrapped))


@dataclass(frozen=True)
class Batch:
    """Sentences that go through the biLM together; lengths include the sentence boundaries."""

    rows: tuple[Int64Array, ...]  # for each row the numbers of its types
    source_rows: Int64Array  # for each row its index in the list of sentences, (batch,)

    @cached_property
    def lengths(self) -> Int64Array:
        """Tokens of each row, (batch,)."""
        return np.array([len(row) for row in self.rows], np.int64)

    def rows_slice(self, rows: slice) -> Batch:
        """Some of the rows as another batch."""
        return Batch(rows=self.rows[rows], source_rows=self.source_rows[rows])


def batches_by_length(
    rows: Sequence[Int64Array], *, batch_size: int, batch_tokens: int, padded: bool
) -> list[Batch]:
    """Divide rows, the type numbers of sentences, into batches of similar length.

    Args:
        batch_size, batch_tokens: the most rows and tokens of a batch; a single row may be longer.
        padded: whether each row counts as long as the longest of its batch; if not, padding the
            batch may multiply its tokens by at most `_MAX_PADDED`.
    Returns:
        Each row once, in batches from long to short.
    """
    lengths = np.array([len(row) for row in rows], np.int64)
    order = np.argsort(-lengths, kind="stable")
    batches = []
    while len(order):
        candidate_lengths = lengths[order[:batch_size]]
        # Tokens of a batch of the first 1, 2, … candidates.
        padded_tokens = candidate_lengths[0] * np.arange(1, 1 + len(candidate_lengths))
        if padded:
            n_tokens = padded_tokens
        else:
            n_tokens = np.maximum(np.cumsum(candidate_lengths), padded_tokens // _MAX_PADDED)
        n_rows = max(1, int(np.searchsorted(n_tokens, batch_tokens, "right")))
        chosen = order[:n_rows]
        batches.append(Batch(rows=tuple(rows[i] for i in chosen), source_rows=chosen))
        order = order[n_rows:]
    return batches
