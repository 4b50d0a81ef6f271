"""Losses of predicting the next token: the full softmax, or a sampled one."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo_cli.model.bilm import NextTokenSoftmax

_PREDICTIONS_AT_ONCE = {"cpu": 256}  # the scores then stay in the processor's cache
_ELSEWHERE = 4096


class LogUniformSampler:
    """Draws types without repetition, common ones (of small id) more often.

    A draw has type k with probability log((k + 2) / (k + 1)) / log(n_types + 1): Zipf's law for a
    vocabulary in descending order. Draws go on until `n_negatives` distinct types are there, which
    there must be.
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


def sampled_softmax_loss(
    head: NextTokenSoftmax,
    h: Tensor,
    targets: Tensor,
    negatives: Tensor,
    expected: Tensor,
    *,
    dtype: torch.dtype | None = None,
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
        dtype: of the large products, such as bfloat16; None for that of the weights.
    Returns:
        A scalar.

    What its mean over draws is: let q be the chance of a type to be drawn, s its score, t the
    target and R the sum of exp(s_k) / q_k over the drawn types but t. The loss is
    log(1 + q_t R / exp(s_t)).

    - R is unbiased: its mean is the sum of exp(s_k) over all types but t, whatever the scores. That
      is exact where `expected` is; `LogUniformSampler`'s is off by less than a hundredth.
    - For a target that is drawn for certain the loss is the full softmax's but for the bias of the
      logarithm: lower by about half the variance of R over the square of the whole sum.
    - For a rarer target it is lower still, by up to -log q_t more. It is no estimate of the
      perplexity then; but its gradient's mean is zero where the full softmax's is: at the model
      whose distribution is that of the targets.

    Source: Jean et al. 2015; TensorFlow's `sampled_softmax_loss`.
    """
    correction = expected.log()
    # Where a type stands among the negatives, -1 for those that were not drawn.
    column = torch.full_like(expected, -1, dtype=torch.int64)
    column[negatives] = torch.arange(len(negatives), device=negatives.device)
    # One gather, for each may have a gradient as large as the softmax.
    both = torch.cat([targets, negatives])
    loss: Tensor = _SampledLoss.apply(  # type: ignore[no-untyped-call]
        h.to(dtype),
        _rows(head.weight, both),
        head.bias.index_select(0, both) - correction[both],
        column[targets],
    )
    return loss


def _rows(weight: Tensor, ids: Tensor) -> Tensor:
    """Rows of a weight. Where it has a gradient the new one is added to its rows alone, instead of
    as one that is zero nearly everywhere, as large as the softmax, with memory of its own."""
    if weight.grad is not None and weight.device.type == "cpu":
        return nn.functional.embedding(ids, weight, sparse=True)
    return weight.index_select(0, ids)


class _SampledLoss(torch.autograd.Function):
    """Loss and gradient in one walk, some predictions at a time: the scores, which would be the
    largest array of training, are never kept."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, rows: Tensor, biases: Tensor, hit: Tensor) -> Tensor:
        """The rows of the softmax and their biases: of the targets, then of the negatives."""
        n = len(h)
        d_h = torch.empty_like(h)
        d_rows, d_biases = torch.zeros_like(rows), torch.zeros_like(biases)
        d_weight, d_bias = d_rows[n:], d_biases[n:]
        weight, bias, total = rows[n:].to(h.dtype), biases[n:], biases.new_zeros(())
        is_hit, place = (hit >= 0).unsqueeze(1), hit.clamp_min(0).unsqueeze(1)
        at_once = _PREDICTIONS_AT_ONCE.get(h.device.type, _ELSEWHERE)
        for begin in range(0, n, at_once):
            part = slice(begin, min(begin + at_once, n))
            true_weight = rows[part].to(h.dtype)
            true = (h[part] * true_weight).sum(1, dtype=biases.dtype) + biases[part]
            scores = _scores(h[part], weight, bias)  # (prediction, negative)
            kept = scores.gather(1, place[part]).masked_fill_(is_hit[part], -math.inf)
            scores.scatter_(1, place[part], kept)
            highest = torch.maximum(scores.amax(1), true)
            scores.sub_(highest.unsqueeze(1)).exp_()
            own = (true - highest).exp()
            whole = scores.sum(1) + own
            total += (whole.log() + highest - true).sum()
            d_true = torch.sub(own / whole, 1, out=d_biases[part]).unsqueeze(1)
            d_scores = scores.div_(whole.unsqueeze(1))
            d_bias += d_scores.sum(0)
            d_scores = d_scores.to(h.dtype)
            torch.mm(d_scores, weight, out=d_h[part])
            if d_weight.dtype == h.dtype:
                d_weight.addmm_(d_scores.t(), h[part])
            else:
                d_weight += d_scores.t() @ h[part]
            d_h[part] += (d_true * true_weight).to(h.dtype)
            torch.mul(d_true, h[part], out=d_rows[part])
        ctx.save_for_backward(d_h, d_rows, d_biases)
        return total / n

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        share = d_loss / len(ctx.saved_tensors[0])
        return *(gradient * share for gradient in ctx.saved_tensors), None


def _scores(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if h.dtype == bias.dtype:
        return torch.addmm(bias, h, weight.t())
    return torch.mm(h, weight.t()).to(bias.dtype).add_(bias)
