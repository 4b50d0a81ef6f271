"""The sampled softmax: its draws, its loss and gradient, and where it equals the full one."""

from __future__ import annotations

import math
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.softmax import LogUniformSampler, NegativeSamples, sampled_softmax_loss
from elmo_cli.model.bilm import NextTokenSoftmax

N_TYPES = 50


@pytest.fixture
def softmax() -> NextTokenSoftmax:
    torch.manual_seed(1)
    softmax = NextTokenSoftmax(N_TYPES, 6).double()
    torch.nn.init.normal_(softmax.bias)
    return softmax


class Predictions(NamedTuple):
    """The arguments of the loss after the softmax."""

    h: Tensor
    targets: Tensor
    negatives: NegativeSamples


@pytest.fixture
def predictions() -> Predictions:
    torch.manual_seed(2)
    h = torch.randn(600, 6, dtype=torch.float64, requires_grad=True)
    sampler = LogUniformSampler(N_TYPES, 20)
    negatives = sampler.draw(torch.Generator().manual_seed(0))
    return Predictions(
        h=h,
        targets=torch.randint(0, N_TYPES, (600,)),
        negatives=negatives.to(h.device, h.dtype),
    )


def test_a_draw_has_distinct_types() -> None:
    """A type drawn twice would count twice in the sum."""
    sampler = LogUniformSampler(N_TYPES, 30)
    negatives = sampler.draw(torch.Generator().manual_seed(0))
    assert len(set(negatives.ids.tolist())) == 30
    expected = negatives.expected_counts
    assert expected.shape == (N_TYPES,)
    assert ((expected > 0) & (expected <= 1)).all()


def test_no_more_types_are_drawn_than_there_are() -> None:
    settings = TrainSettings(max_steps=1, negative_samples=300)
    assert [settings.n_negatives(n_types) for n_types in (299, 300, 301)] == [0, 0, 300]
    usual = TrainSettings(max_steps=1)
    assert [usual.n_negatives(n_types) for n_types in (3000, 8192, 8193)] == [0, 0, 2048]
    assert TrainSettings(max_steps=1, negative_samples=0).n_negatives(10**6) == 0


def test_loss_and_gradients_are_those_of_plain_operations(
    softmax: NextTokenSoftmax, predictions: Predictions
) -> None:
    """The gradient is written by hand, in groups; accidental hits must be excluded."""
    h, targets, negatives = predictions
    inputs = [h, softmax.weight, softmax.bias]
    loss = sampled_softmax_loss(softmax, h, targets, negatives)
    gradients = torch.autograd.grad(3 * loss, inputs)

    ids = negatives.ids
    correction = negatives.expected_counts.log()
    true = (h * softmax.weight[targets]).sum(1) + softmax.bias[targets] - correction[targets]
    scores = functional.linear(h, softmax.weight[ids], (softmax.bias - correction)[ids])
    scores = scores.masked_fill(ids == targets.unsqueeze(1), -math.inf)
    scores = torch.cat([true.unsqueeze(1), scores], 1)
    plain = functional.cross_entropy(scores, torch.zeros(len(h), dtype=torch.int64))
    assert abs(loss.item() - plain.item()) < 1e-12
    plain_gradients = torch.autograd.grad(3 * plain, inputs)
    torch.testing.assert_close(gradients, plain_gradients, atol=1e-12, rtol=0)


def test_an_existing_gradient_is_added_to(
    softmax: NextTokenSoftmax, predictions: Predictions
) -> None:
    """That of the softmax is kept from step to step, and updated only in some rows."""
    is_sparse_update: list[bool] = []
    softmax.weight.register_hook(lambda update: is_sparse_update.append(update.is_sparse))
    softmax.weight.grad = None
    sampled_softmax_loss(softmax, *predictions).backward()
    alone = softmax.weight.grad.clone()
    existing = torch.full_like(softmax.weight, 0.25)
    softmax.weight.grad = existing
    sampled_softmax_loss(softmax, *predictions).backward()
    assert softmax.weight.grad is existing
    assert is_sparse_update == [False, True]
    torch.testing.assert_close(existing, alone + 0.25, atol=1e-14, rtol=0)


def test_all_types_as_negatives_give_the_full_softmax(
    softmax: NextTokenSoftmax, predictions: Predictions
) -> None:
    """The sampled loss must have the same optimum as the one that is measured."""
    h = predictions.h
    targets = predictions.targets
    sure = torch.ones(N_TYPES, dtype=torch.float64)
    every_type = NegativeSamples(ids=torch.randperm(N_TYPES), expected_counts=sure)
    sampled = sampled_softmax_loss(softmax, h, targets, every_type)
    assert abs(sampled.item() + softmax(h, targets).mean().item()) < 1e-12


def test_the_mean_gradient_is_zero_where_the_full_one_is(softmax: NextTokenSoftmax) -> None:
    """So training ends in the same model: the one whose distribution is that of the targets."""
    torch.manual_seed(5)
    h = torch.randn(1, 6).double()
    probabilities = torch.linspace(1, 0.1, N_TYPES).double()  # of being drawn, of each type
    frequencies = functional.linear(h, softmax.weight, softmax.bias)[0].softmax(0)
    gradients = []
    for _ in range(500):
        drawn = (torch.rand(N_TYPES) < probabilities).nonzero().squeeze(1)
        targets = torch.multinomial(frequencies, 400, replacement=True)
        negatives = NegativeSamples(ids=drawn, expected_counts=probabilities)
        loss = sampled_softmax_loss(softmax, h.expand(400, 6), targets, negatives)
        gradients.append(torch.autograd.grad(loss, softmax.bias)[0])
    stacked = torch.stack(gradients)  # (draw, type)
    standard_errors = stacked.std(0) / len(stacked) ** 0.5
    deviations = stacked.mean(0) / standard_errors
    assert deviations.abs().max() < 4  # of fifty values
    assert (deviations**2).mean() < 2


def test_expected_counts_of_the_sampler_are_unbiased_within_one_percent() -> None:
    """Their logarithm corrects the logits: a wrong one biases training towards common types.

    `LogUniformSampler` stops at a number of types, so its expected counts are approximate.
    """
    torch.manual_seed(6)
    scores = torch.randn(2000, dtype=torch.float64) - torch.arange(1, 2001).log()
    sampler = LogUniformSampler(2000, 256)
    generator = torch.Generator().manual_seed(0)
    draws = [sampler.draw(generator) for _ in range(400)]
    partition = scores.exp().sum()
    ratios = []
    for negatives in draws:
        weights = 1 / negatives.expected_counts[negatives.ids]
        estimate = (scores[negatives.ids].exp() * weights).sum()
        ratios.append(estimate / partition)
    assert abs(torch.stack(ratios).mean().item() - 1) < 0.01
    all_ids = torch.cat([negatives.ids for negatives in draws])
    drawn = torch.bincount(all_ids, minlength=2000) / len(draws)
    assert (drawn[:50] > 0.65).all()
    assert (drawn[-500:] < 0.2).all()
