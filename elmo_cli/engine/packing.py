"""Packing: what one direction reads of a batch, one time step after the other, without padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo_cli.engine.packed import height
from elmo_cli.text.batching import Batch, Ids


@dataclass(frozen=True)
class Packing:
    """The places of a batch in one direction: step after step, in a step longest rows first.

    A place stands for one row, or for all rows that began in the same state and have read the same
    tokens since: what the LSTMs compute for them is the same. Products want certain numbers of rows
    (`packed.height`), so a step computes some places too many, which are then those of the next
    step, or at the end places of no row; what comes of them goes nowhere.

    Attributes:
        counts: places of each step.
        parents: for each step the places of the step before that its own go on from,
            (height(count),); of the first step, rows of the state. None where those are the first
            ones, in order.
        numbers: the number of the type that is read at each place, (packed + some of no row,).
        inner: the place of each token without borders, in the order of the batch, (token,).
    """

    counts: list[int]
    parents: list[Tensor | None]
    numbers: Tensor
    inner: Tensor

    @classmethod
    def of(
        cls, batch: Batch, order: Ids, *, backward: bool, is_alike: bool, device: torch.device
    ) -> Packing:
        """Lay out a batch.

        Args:
            batch: its rows.
            order: the batch's row for each sorted row, from long to short; the state is so sorted.
            backward: whether rows are read from their end.
            is_alike: whether all rows begin in one state, of a single row, and nobody asks where
                they stop. Then there is a place for what they have in common, and the border at
                which a row ends is left out: no token is behind it.
            device: of the tensors.
        """
        tokens, running = _laid_out(batch, order, backward=backward, n_unread=int(is_alike))
        n_running = running.sum(0)  # (step,)
        if is_alike:
            places, counts, parents = _prefixes(tokens, n_running)
        else:
            places = np.broadcast_to(np.arange(len(order))[:, None], tokens.shape)
            counts, parents = n_running.tolist(), [None] * len(n_running)
        starts = np.cumsum([0, *counts])
        packed = starts[:-1] + places  # (sorted row, step)
        n_places = max(start + height(n) for start, n in zip(starts[:-1], counts, strict=True))
        numbers = np.full(n_places, tokens[0, 0])
        numbers[packed[running]] = tokens[running]
        inner = packed[_inner_tokens(batch, order, backward=backward)]

        def there(array: Ids) -> Tensor:
            return torch.from_numpy(array).to(device)

        begun = [None if p is None else there(_with_more(p)) for p in parents]
        return cls(counts, begun, there(numbers), there(inner))


def _with_more(parents: Ids) -> Ids:
    """With parents for the places too many."""
    return np.pad(parents, (0, height(len(parents)) - len(parents)))


def _laid_out(batch: Batch, order: Ids, *, backward: bool, n_unread: int) -> tuple[Ids, np.ndarray]:
    """The tokens of sorted rows in the order of reading, (row, step), and where there are any."""
    lengths = batch.lengths[order] - n_unread
    running = np.arange(lengths[0]) < lengths[:, None]  # (row, step)
    tokens = np.zeros(running.shape, np.int64)
    rows = (batch.rows[r][::-1] if backward else batch.rows[r] for r in order)
    tokens[running] = np.concatenate([row[: len(row) - n_unread] for row in rows])
    return tokens, running


def _inner_tokens(batch: Batch, order: Ids, *, backward: bool) -> tuple[Ids, Ids]:
    """Sorted row and step of each token without borders, in the order of the batch."""
    lengths = batch.lengths
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    n_inner = lengths - 2
    row = np.repeat(np.arange(len(order)), n_inner)
    step = 1 + np.arange(len(row)) - np.repeat(np.cumsum(n_inner) - n_inner, n_inner)
    return rank[row], lengths[row] - 1 - step if backward else step


def _prefixes(tokens: Ids, n_running: Ids) -> tuple[Ids, list[int], list[Ids | None]]:
    """A place for each different beginning.

    Args:
        tokens: of rows from long to short, (row, step).
        n_running: rows that have a token at each step.
    Returns:
        The place of each row at each step, (row, step); counts and parents of the steps.
    """
    n_rows, n_steps = tokens.shape
    places = np.zeros((n_rows, n_steps), np.int64)
    counts: list[int] = []
    parents: list[Ids | None] = []
    before = np.zeros(n_rows, np.int64)  # place of each row in the step before
    beyond = tokens.max() + 1
    for step, n in enumerate(n_running.tolist()):
        begun = before[:n] * beyond + tokens[:n, step]
        _, first, inverse = np.unique(begun, return_index=True, return_inverse=True)
        turn = np.argsort(first)  # so that places stand in the order of their longest rows
        number = np.empty_like(turn)
        number[turn] = np.arange(len(turn))
        here = number[inverse]
        parent = before[first[turn]]
        is_same = np.array_equal(parent, np.arange(len(parent)))
        counts.append(len(first))
        parents.append(None if is_same else parent)
        places[:n, step] = here
        if len(first) == n:  # nothing is in common from here on
            places[:, step + 1 :] = np.arange(n_rows)[:, None]
            counts += n_running[step + 1 :].tolist()
            parents += [None] * (n_steps - step - 1)
            break
        before = here
    return places, counts, parents
