"""State: picking, growing and replacing rows, on unequal numbers."""

from __future__ import annotations

import pytest
import torch

from elmo_cli.model.bilm import State
from elmo_cli.model.options import Options

OPTIONS = Options(filters=((1, 4),), projection_dim=3, lstm_dim=5, n_layers=2)


def some_state() -> State:
    """Four rows, each number its own."""
    h = torch.arange(2 * 2 * 4 * 3, dtype=torch.float32).reshape(2, 2, 4, 3)
    c = -torch.arange(2 * 2 * 4 * 5, dtype=torch.float32).reshape(2, 2, 4, 5)
    return State(h, c)


def test_rows_are_selected_added_and_replaced() -> None:
    """Otherwise a row would continue with another row's cells."""
    state = some_state()
    index = torch.tensor([2, 0])
    for rows in (slice(1, 3), index):
        picked = state.select_rows(rows)
        assert torch.equal(picked.h, state.h[:, :, rows])
        assert torch.equal(picked.c, state.c[:, :, rows])
    larger = state.with_rows_added(6)
    for grown, before in ((larger.h, state.h), (larger.c, state.c)):
        assert torch.equal(grown[:, :, :4], before)
        assert grown.shape[2] == 6
        assert not grown[:, :, 4:].any()
    assert state.with_rows_added(2).h.shape[2] == 4
    other = State(torch.full((2, 2, 2, 3), 0.5), torch.full((2, 2, 2, 5), 0.25))
    replaced = state.with_rows(index, other)
    assert torch.equal(state.h, some_state().h)
    assert torch.equal(replaced.h[:, :, [1, 3]], state.h[:, :, [1, 3]])
    assert (replaced.h[:, :, [0, 2]] == 0.5).all()
    assert (replaced.c[:, :, [0, 2]] == 0.25).all()


def test_expanded_rows_do_not_share_memory() -> None:
    """Otherwise an engine that works in place would change every row at once."""
    state = some_state()
    repeated = state.select_rows(slice(2, 3)).expand(3)
    repeated.h[0, 0, 0, 0] = 1000
    repeated.c[0, 0, 0, 0] = 1000
    expected = some_state()  # `state` itself may have changed
    for row in (1, 2):
        assert torch.equal(repeated.h[:, :, row], expected.h[:, :, 2])
        assert torch.equal(repeated.c[:, :, row], expected.c[:, :, 2])


def test_bytes_and_sizes() -> None:
    zeros = State.zeros(OPTIONS, 7, dtype=torch.float64)
    assert zeros.h.shape == (2, 2, 7, 3)
    assert zeros.c.shape == (2, 2, 7, 5)
    assert zeros.h.dtype == zeros.c.dtype == torch.float64
    moved = zeros.to(torch.device("meta"))
    assert moved.h.device.type == moved.c.device.type == "meta"
    assert not zeros.h.any()
    assert not zeros.c.any()
    read = State.from_bytes(some_state().to_bytes(), OPTIONS)
    assert torch.equal(read.h, some_state().h)
    assert torch.equal(read.c, some_state().c)
    for content in (b"", b"\0" * 4, some_state().to_bytes()[:-1], some_state().to_bytes()[:-4]):
        with pytest.raises(ValueError, match="are no state"):
            State.from_bytes(content, OPTIONS)
