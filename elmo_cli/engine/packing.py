"""PackedBatch: a batch in one direction, time step after time step, without padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from elmo_cli.engine.gemm import padded_rows
from elmo_cli.text.batching import Batch, Ids


@dataclass(frozen=True)
class PackedBatch:
    """The positions of a batch in one direction: step after step, the longest rows first.

    A position is one row of one time step. With a shared start, rows that have read the same tokens
    share a position. Each step is computed for `padded_rows(n)` positions; those in excess belong
    to the next step, or at the end to no row, and their results are discarded.

    Attributes:
        rows_per_step: positions of each step.
        parents: for each step the positions of the previous step that its own continue, (padded
            position,); for the first step, rows of the state. None for the first ones, in order.
        types: the number of the type that is read at each position, (position,).
        token_positions: the position of each token without sentence boundaries, in the order of
            the batch, (token,).
    """

    rows_per_step: list[int]
    parents: list[Tensor | None]
    types: Tensor
    token_positions: Tensor

    @classmethod
    def of(
        cls, batch: Batch, order: Ids, device: torch.device, *, backward: bool, shared_start: bool
    ) -> PackedBatch:
        """Lay out a batch.

        Args:
            order: the batch's row for each sorted row, from long to short; the state is so sorted.
            backward: whether rows are read from their end.
            shared_start: whether rows that read the same tokens share positions. The boundary at
                which a row ends is then left out: no token follows it.
        """
        tokens, is_running = _tokens_by_step(batch, order, backward, n_unread=int(shared_start))
        n_running = is_running.sum(0)  # (step,)
        if shared_start:
            ranks, counts, parents = _share_prefixes(tokens, n_running)
        else:
            ranks = np.broadcast_to(np.arange(len(order))[:, None], tokens.shape)
            counts, parents = n_running.tolist(), [None] * len(n_running)
        starts = np.cumsum([0, *counts])[:-1]
        positions = starts + ranks  # (sorted row, step)
        n_positions = max(starts + [padded_rows(n) for n in counts])
        types = np.full(n_positions, tokens[0, 0])
        types[positions[is_running]] = tokens[is_running]
        token_positions = positions[_inner_tokens(batch, order, backward=backward)]
        padded = [None if p is None else _pad_parents(p).to(device) for p in parents]
        types_t = torch.from_numpy(types).to(device)
        return cls(counts, padded, types_t, torch.from_numpy(token_positions).to(device))


def _pad_parents(parents: Ids) -> Tensor:
    """With parents for the positions in excess."""
    excess = padded_rows(len(parents)) - len(parents)
    return torch.from_numpy(np.pad(parents, (0, excess)))


def _tokens_by_step(
    batch: Batch, order: Ids, backward: bool, *, n_unread: int
) -> tuple[Ids, np.ndarray]:
    """The tokens of sorted rows in reading order, (row, step), and where there are any."""
    lengths = batch.lengths[order] - n_unread
    is_running = np.arange(lengths[0]) < lengths[:, None]  # (row, step)
    tokens = np.zeros(is_running.shape, np.int64)
    rows = (batch.rows[r][::-1] if backward else batch.rows[r] for r in order)
    tokens[is_running] = np.concatenate([row[: len(row) - n_unread] for row in rows])
    return tokens, is_running


def _inner_tokens(batch: Batch, order: Ids, *, backward: bool) -> tuple[Ids, Ids]:
    """Sorted row and step of each token without boundaries, in the order of the batch."""
    lengths = batch.lengths
    rank = np.argsort(order)  # the inverse permutation
    n_inner = lengths - 2
    row = np.repeat(np.arange(len(order)), n_inner)
    step = 1 + np.arange(len(row)) - np.repeat(np.cumsum(n_inner) - n_inner, n_inner)
    return rank[row], lengths[row] - 1 - step if backward else step


def _share_prefixes(tokens: Ids, n_running: Ids) -> tuple[Ids, list[int], list[Ids | None]]:
    """One position per distinct prefix.

    Args:
        tokens: of rows from long to short, (row, step).
        n_running: rows that have a token at each step.
    Returns:
        The rank of each row's position in each step, (row, step); positions and parents per step.
    """
    n_rows, n_steps = tokens.shape
    ranks = np.zeros((n_rows, n_steps), np.int64)
    counts: list[int] = []
    parents: list[Ids | None] = []
    previous = np.zeros(n_rows, np.int64)  # rank of each row in the step before
    n_types = tokens.max() + 1
    for step, n in enumerate(n_running.tolist()):
        prefixes = previous[:n] * n_types + tokens[:n, step]
        _, first, inverse = np.unique(prefixes, return_index=True, return_inverse=True)
        by_row = np.argsort(first)  # so that positions are in the order of their longest rows
        parent = previous[first[by_row]]
        is_same = np.array_equal(parent, np.arange(len(parent)))
        counts.append(len(first))
        parents.append(None if is_same else parent)
        previous = np.argsort(by_row)[inverse]
        ranks[:n, step] = previous
        if len(first) == n:  # no prefix is shared from here on
            ranks[:, step + 1 :] = np.arange(n_rows)[:, None]
            counts += n_running[step + 1 :].tolist()
            parents += [None] * (n_steps - step - 1)
            break
    return ranks, counts, parents
