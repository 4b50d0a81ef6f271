"""Batches of rows with similar lengths, within limits."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from elmo_cli.text.batching import Batch, TypeNumbers, batches_by_length
from elmo_cli.text.characters import CharacterIds

LENGTHS = [3, 40, 7, 7, 3, 12, 3, 5, 40, 9]


def batches(given: list[int] = LENGTHS, **settings: Any) -> list[Batch]:
    settings = {"batch_size": 100, "batch_tokens": 1000, "padded": False, **settings}
    return batches_by_length([np.full(n, i) for i, n in enumerate(given)], **settings)


@pytest.mark.parametrize(("size", "tokens"), [(100, 1000), (3, 1000), (100, 45), (1, 1)])
def test_each_row_is_in_one_batch(size: int, tokens: int) -> None:
    """Otherwise a sentence has no vectors, or those of another."""
    made = batches(batch_size=size, batch_tokens=tokens)
    assert sorted(i for batch in made for i in batch.source_rows) == list(range(len(LENGTHS)))
    for batch in made:
        for row, i in zip(batch.rows, batch.source_rows, strict=True):
            assert row.tolist() == [i] * LENGTHS[i]


def test_rows_go_from_long_to_short_and_equal_ones_stay_in_order() -> None:
    """Otherwise the same text may be divided in another way, with other bits as its result."""
    (batch,) = batches()
    assert batch.source_rows.tolist() == [1, 8, 5, 9, 2, 3, 7, 0, 4, 6]


@pytest.mark.parametrize(
    ("settings", "lengths"),
    [
        ({"batch_size": 4}, [[40, 40, 12, 9], [7, 7, 5, 3], [3, 3]]),
        ({"batch_tokens": 80}, [[40, 40], [12, 9, 7, 7, 5, 3, 3, 3]]),
        ({"batch_tokens": 79}, [[40], [40, 12, 9, 7, 7], [5, 3, 3, 3]]),
        ({"batch_tokens": 30}, [[40], [40], [12, 9, 7], [7, 5, 3, 3, 3]]),
        ({"batch_tokens": 120, "padded": True}, [[40, 40, 12], [9, 7, 7, 5, 3, 3, 3]]),
        ({"batch_tokens": 36, "padded": True}, [[40], [40], [12, 9, 7], [7, 5, 3, 3, 3]]),
    ],
)
def test_limits_of_a_batch(settings: dict[str, Any], lengths: list[list[int]]) -> None:
    """Otherwise memory grows with the text, or with one long sentence of a padded batch."""
    assert [batch.lengths.tolist() for batch in batches(**settings)] == lengths


def test_padding_is_limited_also_where_it_does_not_count() -> None:
    """Arrays with a cell per row and step would take a gigabyte; 32 * 1,000 are 16 * 2,000."""
    made = batches([1000, *[2] * 99], batch_tokens=2000)
    assert [len(batch.rows) for batch in made] == [32, 68]
    assert batches([]) == []


class Token(str):
    """A string that can be referred to weakly."""


def test_types_are_freed_at_once() -> None:
    """Every block has its own; in a large text, those of hundreds of blocks would add up."""
    types = TypeNumbers(CharacterIds())
    token = Token("a")
    assert types.numbers_of([token, "b", "a"]).tolist() == [0, 1, 2, 1, 3]
    freed = weakref.ref(token)
    gc.disable()
    try:
        del token, types
        assert freed() is None
    finally:
        gc.enable()
