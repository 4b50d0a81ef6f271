"""The sampled softmax: its draws, its loss and gradient, and where it equals the full one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.softmax import LogUniformSampler, sampled_softmax_loss
from elmo_cli.model.bilm import NextTokenSoftmax

N_TYPES = 50


@pytest.fixture
def softmax() -> NextTokenSoftmax:
    torch.manual_seed(1)
    softmax = NextTokenSoftmax(N_TYPES, 6).double()
    torch.nn.init.normal_(softmax.bias)
    return softmax


@pytest.fixture
def predictions() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Outputs, targets, negatives and their expected counts."""
    torch.manual_seed(2)
    h = torch.randn(600, 6, dtype=torch.float64, requires_grad=True)
    draw = LogUniformSampler(N_TYPES, 20).draw(torch.Generator().manual_seed(0))
    return h, torch.randint(0, N_TYPES, (600,)), draw[0], draw[1].double()


def test_a_draw_has_distinct_types() -> None:
    """A type drawn twice would count twice in the sum."""
    sampler = LogUniformSampler(N_TYPES, 30)
    negatives, expected = sampler.draw(torch.Generator().manual_seed(0))
    assert len(set(negatives.tolist())) == 30
    assert expected.shape == (N_TYPES,)
    assert ((expected > 0) & (expected <= 1)).all()


def test_no_more_types_are_drawn_than_there_are() -> None:
    settings = TrainSettings(max_steps=1, negative_samples=300)
    assert [settings.n_negatives(n_types) for n_types in (299, 300, 301)] == [0, 0, 300]
    usual = TrainSettings(max_steps=1)
    assert [usual.n_negatives(n_types) for n_types in (3000, 8192, 8193)] == [0, 0, 2048]
    assert TrainSettings(max_steps=1, negative_samples=0).n_negatives(10**6) == 0


def test_expected_counts_are_the_means_of_many_draws() -> None:
    """Their logarithm corrects the logits; a wrong one biases training towards common types."""
    sampler, generator = LogUniformSampler(N_TYPES, 12), torch.Generator().manual_seed(3)
    draws = [sampler.draw(generator) for _ in range(3000)]
    drawn = torch.bincount(torch.cat([ids for ids, _ in draws]), minlength=N_TYPES) / len(draws)
    expected = torch.stack([counts for _, counts in draws]).mean(0)
    # The number of tries is itself drawn, so the formula is good to a few hundredths only.
    assert (drawn - expected).abs().max() < 0.03
    assert (drawn[:5] > 0.5).all()
    assert (drawn[-5:] < 0.2).all()


def test_loss_and_gradients_are_those_of_plain_operations(
    softmax: NextTokenSoftmax, predictions: tuple[Tensor, ...]
) -> None:
    """The gradient is written by hand, in groups; accidental hits must be excluded."""
    h, targets, negatives, expected = predictions
    wanted = [h, softmax.weight, softmax.bias]
    loss = sampled_softmax_loss(softmax, h, targets, negatives, expected)
    found = torch.autograd.grad(3 * loss, wanted)

    correction = expected.log()
    true = (h * softmax.weight[targets]).sum(1) + softmax.bias[targets] - correction[targets]
    scores = functional.linear(h, softmax.weight[negatives], (softmax.bias - correction)[negatives])
    scores = scores.masked_fill(negatives == targets.unsqueeze(1), -math.inf)
    scores = torch.cat([true.unsqueeze(1), scores], 1)
    plain = functional.cross_entropy(scores, torch.zeros(len(h), dtype=torch.int64))
    assert abs(loss.item() - plain.item()) < 1e-12
    torch.testing.assert_close(found, torch.autograd.grad(3 * plain, wanted), atol=1e-12, rtol=0)


def test_an_existing_gradient_is_added_to(
    softmax: NextTokenSoftmax, predictions: tuple[Tensor, ...]
) -> None:
    """That of the softmax is kept from step to step, and updated only in some rows."""
    found, is_sparse_update = list[Tensor](), list[bool]()
    softmax.weight.register_hook(lambda new: is_sparse_update.append(new.is_sparse))
    for before in (None, torch.full_like(softmax.weight, 0.25)):
        softmax.weight.grad = before
        sampled_softmax_loss(softmax, *predictions).backward()
        assert before is None or softmax.weight.grad is before
        found.append(softmax.weight.grad.clone())
    assert is_sparse_update == [False, True]
    torch.testing.assert_close(found[1], found[0] + 0.25, atol=1e-14, rtol=0)


def test_all_types_as_negatives_give_the_full_softmax(
    softmax: NextTokenSoftmax, predictions: tuple[Tensor, ...]
) -> None:
    """The sampled loss must have the same optimum as the one that is measured."""
    h, targets, *_ = predictions
    sure = torch.ones(N_TYPES, dtype=torch.float64)
    sampled = sampled_softmax_loss(softmax, h, targets, torch.randperm(N_TYPES), sure)
    assert abs(sampled.item() + softmax(h, targets).mean().item()) < 1e-12


PROBABILITIES = torch.linspace(1, 0.1, N_TYPES, dtype=torch.float64)


def draws(n: int) -> Iterator[Tensor]:
    """Types that are drawn independently, each with its own probability."""
    torch.manual_seed(4)
    return ((torch.rand(N_TYPES) < PROBABILITIES).nonzero().squeeze(1) for _ in range(n))


def standard_errors(values: Tensor, expected: Tensor | float) -> Tensor:
    """How many standard errors the means of the columns are off."""
    return (values.mean(0) - expected) / (values.std(0) / len(values) ** 0.5)


@torch.no_grad()
def test_the_sum_over_the_other_types_is_unbiased(softmax: NextTokenSoftmax) -> None:
    """It is what sampling is for: a few types stand for all."""
    torch.manual_seed(5)
    h = torch.randn(1, 6, dtype=torch.float64)
    weights = functional.linear(h, softmax.weight, softmax.bias)[0].exp()
    for target in (0, 30):
        prediction = h, torch.tensor([target])
        losses = [
            sampled_softmax_loss(softmax, *prediction, drawn, PROBABILITIES)
            for drawn in draws(1500)
        ]
        sums = torch.stack(losses).expm1() * weights[target] / PROBABILITIES[target]
        others = weights.sum() - weights[target]
        assert sums.std() > 0.2 * others  # the draws do differ
        assert standard_errors(sums, others).abs() < 3


def test_the_mean_gradient_is_zero_where_the_full_one_is(softmax: NextTokenSoftmax) -> None:
    """So training ends in the same model: the one whose distribution is that of the targets."""
    torch.manual_seed(5)
    h = torch.randn(1, 6, dtype=torch.float64)
    frequencies = functional.linear(h, softmax.weight, softmax.bias)[0].softmax(0)
    gradients = []
    for drawn in draws(500):
        targets = torch.multinomial(frequencies, 400, replacement=True)
        loss = sampled_softmax_loss(softmax, h.expand(400, 6), targets, drawn, PROBABILITIES)
        gradients.append(torch.autograd.grad(loss, softmax.bias)[0])
    off = standard_errors(torch.stack(gradients), 0.0)
    assert off.abs().max() < 4  # of fifty values
    assert (off**2).mean() < 2


def test_expected_counts_of_the_sampler_are_unbiased_within_one_percent() -> None:
    """`LogUniformSampler` stops at a number of types, so its expected counts are approximate."""
    torch.manual_seed(6)
    scores = torch.randn(2000, dtype=torch.float64) - torch.arange(1, 2001).log()
    sampler, generator = LogUniformSampler(2000, 256), torch.Generator().manual_seed(0)
    found = []
    for _ in range(400):
        drawn, expected = sampler.draw(generator)
        found.append((scores[drawn].exp() / expected[drawn]).sum() / scores.exp().sum())
    assert abs(torch.stack(found).mean().item() - 1) < 0.01
