"""Batch: rows of tokens for one pass through the biLM, and the way back to the order given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from elmo_cli.text.characters import BEGIN, END

Ids = npt.NDArray[np.int64]
_SPARSE = 16  # where nothing is padded, some numbers are still laid out by row and step


class Types:
    """Distinct tokens in the order they were met, and the number of each."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._index)

    @property
    def types(self) -> list[str]:
        """All types, by number."""
        return list(self._index)

    def number(self, tokens: Sequence[str]) -> Ids:
        """Numbers of a sentence's tokens with its borders, (token + 2,); new types are added."""
        index = self._index
        wrapped = (BEGIN, *tokens, END)
        return np.fromiter((index.setdefault(t, len(index)) for t in wrapped), np.int64)


@dataclass(frozen=True)
class Batch:
    """Sentences that go through the biLM together.

    Attributes:
        rows: for each row the numbers of its types, the borders of the sentence among them.
        positions: for each row its place in the list that the batch was cut from, (batch,).
    """

    rows: tuple[Ids, ...]
    positions: Ids

    @property
    def lengths(self) -> Ids:
        """Tokens of each row with its borders, (batch,)."""
        return np.array([len(row) for row in self.rows], np.int64)

    def tokens(self, *, padded: bool) -> int:
        """Tokens of all rows, borders too; where they are padded, all are of the longest length."""
        lengths = self.lengths
        return int(len(lengths) * lengths.max() if padded else lengths.sum())

    def part(self, rows: slice) -> Batch:
        """Some of the rows, as a batch of its own."""
        return Batch(self.rows[rows], self.positions[rows])


def batches_by_length(
    rows: Sequence[Ids], *, batch_size: int, batch_tokens: int, padded: bool
) -> list[Batch]:
    """Cut rows into batches of like length, the longest first.

    Args:
        rows: type numbers of each sentence.
        batch_size: rows of a batch at most.
        batch_tokens: tokens of a batch at most, borders too; a single row may be longer.
        padded: whether rows count as if they were as long as the longest of the batch; if not, the
            longest may be so long that they would be `_SPARSE` times as many.
    Returns:
        Batches that hold each row once; within a batch rows go from long to short.
    """
    lengths = np.array([len(row) for row in rows], np.int64)
    order = np.argsort(-lengths, kind="stable")
    batches = []
    while len(order):
        ordered = lengths[order[:batch_size]]
        tokens = ordered[0] * np.arange(1, 1 + len(ordered))
        if not padded:
            tokens = np.maximum(np.cumsum(ordered), tokens // _SPARSE)
        size = max(1, int(np.searchsorted(tokens, batch_tokens, "right")))
        positions, order = order[:size], order[size:]
        batches.append(Batch(tuple(rows[p] for p in positions), positions))
    return batches
