"""ProjectedLSTM against the oracle: states that are not zero, ragged rows, clips that bite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from make_weights import SHAPES
from oracle import Oracle
from tolerance import ATOL
from torch import Tensor

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.lstm import ProjectedLSTM

Paired = Callable[..., tuple[BiLM, Oracle]]
LENGTHS = [7, 3, 0, 1, 5]


def random(*shape: int, scale: float = 1.0) -> Tensor:
    return scale * torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("seed")
def test_rows_are_those_of_the_oracle(shape: str, paired: Paired) -> None:
    """Without it gates, forget bias, clips or the projection could be other than TensorFlow's."""
    bilm, oracle = paired(SHAPES[shape])
    layer = bilm.double().backward_lm.layers[0]
    options = bilm.options
    x = random(len(LENGTHS), max(LENGTHS), options.projection_dim, scale=2)
    h, c = random(len(LENGTHS), options.projection_dim), random(len(LENGTHS), options.lstm_dim)
    outputs, new_h, new_c = layer(x, torch.tensor(LENGTHS), h, c)
    for r, length in enumerate(LENGTHS):
        at_h, at_c = h[r].numpy().copy(), c[r].numpy().copy()
        if length:
            expected = oracle.direction(1, 0, x[r, :length].numpy(), at_h, at_c)
            close(outputs[r, :length], expected)
        close(new_h[r], at_h)
        close(new_c[r], at_c)


def test_a_row_of_no_tokens_keeps_its_state(tiny_bilm: BiLM, seed: int) -> None:
    """Without it a row that has ended would go on reading padding."""
    layer = tiny_bilm.forward_lm.layers[1]
    h, c = torch.randn(2, 8), torch.randn(2, 16)
    _, new_h, new_c = layer(torch.randn(2, 4, 8), torch.tensor([0, 4]), h, c)
    assert torch.equal(new_h[0], h[0])
    assert torch.equal(new_c[0], c[0])
    assert not torch.equal(new_h[1], h[1])


@pytest.mark.usefixtures("seed")
def test_clips_bite_and_the_clipped_cell_is_carried_on(paired: Paired) -> None:
    """Without it the tests of the clips could pass without a value at its clip."""
    bilm, _ = paired(SHAPES["tight clips"])
    layer = bilm.forward_lm.layers[0]
    x = 3 * torch.randn(4, 30, 5)
    outputs, h, c = layer(x, torch.full((4,), 30), torch.zeros(4, 5), torch.zeros(4, 9))
    assert c.abs().max() == pytest.approx(0.3)
    assert outputs.abs().max() == pytest.approx(0.2)
    assert ((outputs.abs() == outputs.abs().max()).float().mean()) > 0.02
    assert torch.equal(h, outputs[:, -1])


@pytest.mark.usefixtures("seed")
def test_no_projection_means_no_projection_clip(paired: Paired) -> None:
    """Without it the clip of the projection would act where TensorFlow's cell has none."""
    bilm, _ = paired(SHAPES["no W_P_0"])
    layer = bilm.forward_lm.layers[0]
    assert bilm.options.proj_clip == pytest.approx(0.1)
    outputs, _, _ = layer(torch.randn(2, 9, 6), torch.tensor([9, 9]), *torch.zeros(2, 2, 6))
    assert outputs.abs().max() > 0.3


@pytest.mark.usefixtures("seed")
def test_two_halves_are_the_whole(tiny_bilm: BiLM) -> None:
    """Without it a state that goes in would not be the state that came out."""
    layer = tiny_bilm.forward_lm.layers[0]
    assert isinstance(layer, ProjectedLSTM)
    x, h, c = torch.randn(3, 6, 8), torch.randn(3, 8), torch.randn(3, 16)
    whole, whole_h, whole_c = layer(x, torch.full((3,), 6), h, c)
    first, h, c = layer(x[:, :4], torch.full((3,), 4), h, c)
    second, h, c = layer(x[:, 4:], torch.full((3,), 2), h, c)
    np.testing.assert_allclose(torch.cat([first, second], 1), whole, rtol=0, atol=1e-6)
    np.testing.assert_allclose(h, whole_h, rtol=0, atol=1e-6)
    np.testing.assert_allclose(c, whole_c, rtol=0, atol=1e-6)


def close(found: Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=ATOL["plain", "float64"])
