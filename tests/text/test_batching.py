"""Batches: like lengths together, in bounds."""

from __future__ import annotations

import numpy as np
import pytest

from elmo_cli.text.batching import Batch, batches_by_length

LENGTHS = [3, 40, 7, 7, 3, 12, 3, 5, 40, 9]


def cut(*, batch_size: int = 100, batch_tokens: int = 1000, padded: bool = False) -> list[Batch]:
    rows = [np.full(length, number) for number, length in enumerate(LENGTHS)]
    return batches_by_length(rows, batch_size=batch_size, batch_tokens=batch_tokens, padded=padded)


def lengths(batches: list[Batch]) -> list[list[int]]:
    return [batch.lengths.tolist() for batch in batches]


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    ("batch_size", "batch_tokens"), [(100, 1000), (3, 1000), (100, 45), (1, 1)]
)
def test_each_row_is_in_one_batch(batch_size: int, batch_tokens: int, padded: bool) -> None:
    """Without it a sentence would have no vectors, or those of another."""
    batches = cut(batch_size=batch_size, batch_tokens=batch_tokens, padded=padded)
    places = [int(place) for batch in batches for place in batch.source_rows]
    assert sorted(places) == list(range(len(LENGTHS)))
    for batch in batches:
        for row, place in zip(batch.rows, batch.source_rows, strict=True):
            assert row.tolist() == [place] * LENGTHS[place]


def test_rows_go_from_long_to_short_and_equal_ones_stay_in_order() -> None:
    """Without it the same text might be cut in another way, and come to other bits."""
    (batch,) = cut()
    assert batch.source_rows.tolist() == [1, 8, 5, 9, 2, 3, 7, 0, 4, 6]


def test_a_batch_has_so_many_rows_and_tokens_at_most() -> None:
    """Without it memory would follow the text."""
    assert lengths(cut(batch_size=4)) == [[40, 40, 12, 9], [7, 7, 5, 3], [3, 3]]
    assert lengths(cut(batch_tokens=80)) == [[40, 40], [12, 9, 7, 7, 5, 3, 3, 3]]
    assert lengths(cut(batch_tokens=79)) == [[40], [40, 12, 9, 7, 7], [5, 3, 3, 3]]
    assert lengths(cut(batch_tokens=30)) == [[40], [40], [12, 9, 7], [7, 5, 3, 3, 3]]


def test_where_rows_are_padded_they_count_as_the_longest() -> None:
    """Without it one long sentence would make a padded batch of a gigabyte."""
    assert lengths(cut(batch_tokens=120, padded=True)) == [[40, 40, 12], [9, 7, 7, 5, 3, 3, 3]]
    assert lengths(cut(batch_tokens=36, padded=True)) == [
        [40], [40], [12, 9, 7], [7, 5, 3, 3, 3],
    ]  # fmt: skip


def test_where_nothing_is_padded_a_row_may_be_far_longer_but_not_at_any_length() -> None:
    """Without it numbers that are laid out by row and step would take a gigabyte."""
    rows = [np.full(length, 0) for length in [1000, *[2] * 99]]
    batches = batches_by_length(rows, batch_size=100, batch_tokens=2000, padded=False)
    assert [len(batch.rows) for batch in batches] == [32, 68]  # 32 rows of 1,000 are 16 times 2,000


def test_tokens_with_and_without_padding() -> None:
    """Without it a memory that ended would be measured in something else than batches are."""
    (batch,) = cut()
    assert batch.tokens(padded=False) == sum(LENGTHS)
    assert batch.tokens(padded=True) == 40 * len(LENGTHS)


def test_no_rows_are_no_batch() -> None:
    """Without it a block of empty sentences would end the run."""
    assert batches_by_length([], batch_size=3, batch_tokens=9, padded=False) == []
