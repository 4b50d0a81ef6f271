"""State: picking, growing and replacing rows, on unequal numbers."""

from __future__ import annotations

import pytest
import torch

from elmo_cli.model.options import Options
from elmo_cli.model.state import State

OPTIONS = Options(filters=((1, 4),), projection_dim=3, lstm_dim=5, n_layers=2)


@pytest.fixture
def state() -> State:
    """Four rows, each number its own."""
    h = torch.arange(2 * 2 * 4 * 3, dtype=torch.float32).reshape(2, 2, 4, 3)
    c = -torch.arange(2 * 2 * 4 * 5, dtype=torch.float32).reshape(2, 2, 4, 5)
    return State(h, c)


def test_zeros_has_the_sizes_of_the_options() -> None:
    """Without it h and c could be exchanged where they have one size."""
    state = State.zeros(OPTIONS, 7, dtype=torch.float64)
    assert (state.h.shape, state.c.shape) == ((2, 2, 7, 3), (2, 2, 7, 5))
    assert state.h.dtype == state.c.dtype == torch.float64
    assert not state.h.any()
    assert not state.c.any()


@pytest.mark.parametrize("index", [slice(1, 3), torch.tensor([3, 0, 2])])
def test_rows_come_in_the_order_of_the_index(state: State, index: slice | torch.Tensor) -> None:
    """Without it a row would continue with another row's cells."""
    picked = state.select_rows(index)
    assert torch.equal(picked.h, state.h[:, :, index])
    assert torch.equal(picked.c, state.c[:, :, index])


def test_replaced_rows_leave_the_others_and_the_first_state_alone(state: State) -> None:
    """Without it a smaller batch would change the state of rows that it does not have."""
    before = state.h.clone()
    other = State(torch.full((2, 2, 2, 3), 0.5), torch.full((2, 2, 2, 5), 0.25))
    replaced = state.with_rows(torch.tensor([2, 0]), other)
    assert torch.equal(state.h, before)
    assert torch.equal(replaced.h[:, :, [1, 3]], state.h[:, :, [1, 3]])
    assert (replaced.h[:, :, [0, 2]] == 0.5).all()
    assert (replaced.c[:, :, [0, 2]] == 0.25).all()


def test_added_rows_are_zero_and_none_is_taken(state: State) -> None:
    """Without it a batch larger than the one before would start from another row's state."""
    larger = state.with_rows_added(6)
    assert torch.equal(larger.c[:, :, :4], state.c)
    assert not larger.c[:, :, 4:].any()
    assert state.with_rows_added(2).h.shape[2] == 4


def test_expanded_rows_do_not_share_memory(state: State) -> None:
    """Without it an engine that works in place would change every row at once."""
    repeated = state.select_rows(slice(2, 3)).expand(3)
    repeated.h[0, 0, 0, 0] = 1000
    assert torch.equal(repeated.h[:, :, 1], state.h[:, :, 2])
    assert torch.equal(repeated.c[:, :, 2], state.c[:, :, 2])


def test_both_parts_move() -> None:
    """Without it c would stay on the CPU while h goes to the GPU."""
    moved = State.zeros(OPTIONS, 1).to("meta")
    assert moved.h.device.type == moved.c.device.type == "meta"
