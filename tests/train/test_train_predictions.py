"""The sampled softmax: its draws, its loss and gradient, and where it equals the full one."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.model.softmax import NextToken
from elmo_cli.train.predictions import LogUniformSampler, sampled_loss

N_TYPES = 50


@pytest.fixture
def head() -> NextToken:
    torch.manual_seed(1)
    head = NextToken(N_TYPES, 6).double()
    torch.nn.init.normal_(head.bias)
    return head


@pytest.fixture
def predictions() -> tuple[Tensor, Tensor]:
    torch.manual_seed(2)
    return (
        torch.randn(600, 6, dtype=torch.float64, requires_grad=True),
        torch.randint(0, N_TYPES, (600,)),
    )


def test_a_draw_has_distinct_types() -> None:
    """A type drawn twice would count twice in the sum."""
    sampler = LogUniformSampler(N_TYPES, 30)
    negatives, expected = sampler.draw(torch.Generator().manual_seed(0))
    assert len(set(negatives.tolist())) == 30
    assert expected.shape == (N_TYPES,)
    assert ((expected > 0) & (expected <= 1)).all()


def test_expected_counts_are_the_shares_of_many_draws() -> None:
    """Their logarithm corrects the scores; a wrong one biases training towards common types."""
    sampler, generator = LogUniformSampler(N_TYPES, 12), torch.Generator().manual_seed(3)
    n_draws = 3000
    drawn, expected = torch.zeros(N_TYPES), torch.zeros(N_TYPES)
    for _ in range(n_draws):
        negatives, in_this = sampler.draw(generator)
        drawn[negatives] += 1 / n_draws
        expected += in_this / n_draws
    # The number of tries is itself drawn, so the formula is good to a few hundredths only.
    assert (drawn - expected).abs().max() < 0.03
    assert (drawn[:5] > 0.5).all()
    assert (drawn[-5:] < 0.2).all()


def test_loss_and_gradients_are_those_of_plain_operations(
    head: NextToken, predictions: tuple[Tensor, Tensor]
) -> None:
    """The gradient is written by hand, in pieces; accidental hits must leave the sum."""
    h, targets = predictions
    negatives, expected = LogUniformSampler(N_TYPES, 20).draw(torch.Generator().manual_seed(0))
    expected = expected.double()
    wanted = [h, head.weight, head.bias]
    loss = sampled_loss(head, h, targets, negatives, expected)
    found = torch.autograd.grad(3 * loss, wanted)

    correction = expected.log()
    true = (h * head.weight[targets]).sum(1) + head.bias[targets] - correction[targets]
    scores = functional.linear(h, head.weight[negatives], (head.bias - correction)[negatives])
    scores = scores.masked_fill(negatives == targets.unsqueeze(1), -math.inf)
    scores = torch.cat([true.unsqueeze(1), scores], 1)
    plain = functional.cross_entropy(scores, torch.zeros(len(h), dtype=torch.int64))
    assert abs(loss.item() - plain.item()) < 1e-12
    for one, other in zip(found, torch.autograd.grad(3 * plain, wanted), strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_all_types_as_negatives_give_the_full_softmax(
    head: NextToken, predictions: tuple[Tensor, Tensor]
) -> None:
    """Without it the sampled loss would aim at another model than the one that is measured."""
    h, targets = predictions
    sure = torch.ones(N_TYPES, dtype=torch.float64)
    sampled = sampled_loss(head, h, targets, torch.randperm(N_TYPES), sure)
    assert abs(sampled.item() + head(h, targets).mean().item()) < 1e-12
