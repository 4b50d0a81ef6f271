"""Losses of predicting the next token: the full softmax of `model.NextToken`, or a sampled one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo_cli.model.softmax import NextToken

_PREDICTIONS_AT_ONCE = 256


class LogUniformSampler:
    """Draws types without repetition, common ones (of small id) more often.

    A draw has type k with probability log((k + 2) / (k + 1)) / log(n_types + 1): Zipf's law for a
    vocabulary in descending order. Draws go on until `n_negatives` distinct types are there.
    Source: TensorFlow's `log_uniform_candidate_sampler`, which bilm-tf trains with.
    """

    def __init__(self, n_types: int, n_negatives: int) -> None:
        self.n_types, self.n_negatives = n_types, n_negatives
        ranks = torch.arange(1, n_types + 1, dtype=torch.float64)
        self._probability = torch.log1p(1 / ranks) / math.log(n_types + 1)

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Distinct types, (n_negatives,) int64, and how often each type is expected in such a
        draw, (type,) float32."""
        drawn = torch.empty(0, dtype=torch.int64)
        while True:
            more = torch.rand(4 * self.n_negatives, generator=generator, dtype=torch.float64)
            ids = (more * math.log(self.n_types + 1)).exp().long() - 1
            drawn = torch.cat([drawn, ids.clamp_(0, self.n_types - 1)])
            first = _first_places(drawn, self.n_types)
            if len(first) >= self.n_negatives:
                break
        last = int(first[self.n_negatives - 1])
        expected = -torch.expm1((last + 1) * torch.log1p(-self._probability))
        return drawn[first[: self.n_negatives]], expected.float()


def _first_places(ids: Tensor, n_types: int) -> Tensor:
    """Where each distinct id stands for the first time, in order."""
    places = torch.full((n_types,), len(ids))
    places.scatter_reduce_(0, ids, torch.arange(len(ids)), "amin")
    return places[places < len(ids)].sort().values


def sampled_loss(
    head: NextToken, h: Tensor, targets: Tensor, negatives: Tensor, expected: Tensor
) -> Tensor:
    """Mean negative log-likelihood of each target among itself and some negatives.

    Args:
        head: the softmax layer.
        h: top layer's outputs, (prediction, projection).
        targets: ids, (prediction,) int64.
        negatives: distinct ids, (negative,) int64, the same for all predictions. One that is the
            target itself takes no part in that prediction.
        expected: expected count of each type in a draw, (type,); its logarithm is subtracted from
            the scores, so that common types are not punished for being drawn often.
    Returns:
        A scalar.

    Source: Jean et al. 2015; TensorFlow's `sampled_softmax_loss`.
    """
    correction = expected.log()
    # Where a type stands among the negatives, -1 for those that were not drawn.
    column = torch.full((len(expected),), -1, dtype=torch.int64)
    column[negatives] = torch.arange(len(negatives))
    loss: Tensor = _SampledLoss.apply(  # type: ignore[no-untyped-call]
        h,
        head.weight[targets],
        head.bias[targets] - correction[targets],
        head.weight[negatives],
        head.bias[negatives] - correction[negatives],
        column[targets],
    )
    return loss


class _SampledLoss(torch.autograd.Function):
    """Loss and gradient in one walk, a few predictions at a time: the scores, which would be the
    largest array of training, stay in the processor's cache and are never kept."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        true_weight: Tensor,
        true_bias: Tensor,
        weight: Tensor,
        bias: Tensor,
        hit: Tensor,
    ) -> Tensor:
        d_h, d_weight = torch.empty_like(h), torch.zeros_like(weight)
        d_bias, d_true = torch.zeros_like(bias), torch.empty_like(true_bias)
        true = (h * true_weight).sum(1) + true_bias
        total = h.new_zeros(())
        for begin in range(0, len(h), _PREDICTIONS_AT_ONCE):
            part = slice(begin, begin + _PREDICTIONS_AT_ONCE)
            scores = torch.addmm(bias, h[part], weight.t())  # (prediction, negative)
            rows = (hit[part] >= 0).nonzero().squeeze(1)
            scores[rows, hit[part][rows]] = -math.inf
            highest = torch.maximum(scores.amax(1), true[part])
            scores.sub_(highest.unsqueeze(1)).exp_()
            own = (true[part] - highest).exp()
            whole = scores.sum(1) + own
            total += (whole.log() + highest - true[part]).sum()
            d_true[part] = own / whole - 1
            d_scores = scores.div_(whole.unsqueeze(1))
            torch.mm(d_scores, weight, out=d_h[part])
            d_weight.addmm_(d_scores.t(), h[part])
            d_bias += d_scores.sum(0)
        d_h.addcmul_(d_true.unsqueeze(1), true_weight)
        ctx.save_for_backward(d_h, d_true.unsqueeze(1) * h, d_true, d_weight, d_bias)
        return total / len(h)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        share = d_loss / len(ctx.saved_tensors[0])
        return *(gradient * share for gradient in ctx.saved_tensors), None
