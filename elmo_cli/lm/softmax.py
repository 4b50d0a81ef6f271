"""The sampled softmax: which types are drawn as negatives, and the loss among them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo_cli.model.bilm import NextTokenSoftmax

_PREDICTIONS_AT_ONCE = {"cpu": 256}  # so that their logits stay in the cache
_PREDICTIONS_AT_ONCE_ON_GPU = 4096


@dataclass(frozen=True)
class NegativeSamples:
    """The types that the targets of a batch are compared with.

    Attributes:
        ids: distinct types, (negative,) int64, the same for all predictions.
        expected_counts: expected count of each type in such a draw, (type,).
    """

    ids: Tensor
    expected_counts: Tensor

    def to(self, device: torch.device, dtype: torch.dtype) -> NegativeSamples:
        """The same samples on a device; `dtype` is that of the expected counts."""
        return NegativeSamples(self.ids.to(device), self.expected_counts.to(device, dtype))


class LogUniformSampler:
    """Draws distinct types, frequent ones (with small ids) more often.

    Type k has probability log((k + 2) / (k + 1)) / log(n_types + 1): Zipf's law for a vocabulary in
    order of descending frequency. Types are drawn until `n_negatives` (< `n_types`) are distinct.

    Source: TensorFlow's `log_uniform_candidate_sampler`, which bilm-tf uses in training.
    """

    def __init__(self, n_types: int, n_negatives: int) -> None:
        self.n_types = n_types
        self.n_negatives = n_negatives
        ranks = torch.arange(1, n_types + 1, dtype=torch.float64)  # (type,)
        self._probability = torch.log1p(1 / ranks) / math.log(n_types + 1)

    def draw(self, generator: torch.Generator) -> NegativeSamples:
        """Draw `n_negatives` distinct types; all on the CPU, the expected counts in float32."""
        drawn = torch.empty(0, dtype=torch.int64)  # (draw,), with repetitions
        first = drawn  # positions in `drawn` of the first draw of each type, (distinct type,)
        while len(first) < self.n_negatives:
            uniform = torch.rand(4 * self.n_negatives, generator=generator, dtype=torch.float64)
            ids = (uniform * math.log(self.n_types + 1)).exp().long() - 1
            drawn = torch.cat([drawn, ids.clamp_(0, self.n_types - 1)])
            first = _first_positions(drawn, self.n_types)
        first = first[: self.n_negatives]
        n_draws = int(first[-1]) + 1  # until the last negative was found
        expected_counts = -torch.expm1(n_draws * torch.log1p(-self._probability))
        return NegativeSamples(ids=drawn[first], expected_counts=expected_counts.float())


def _first_positions(ids: Tensor, n_types: int) -> Tensor:
    """Return the position of the first occurrence of each distinct id, in order."""
    positions = torch.full((n_types,), len(ids))
    positions.scatter_reduce_(0, ids, torch.arange(len(ids)), "amin")
    return positions[positions < len(ids)].sort().values


def sampled_softmax_loss(
    softmax: NextTokenSoftmax,
    h: Tensor,
    targets: Tensor,
    negatives: NegativeSamples,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Compute the mean negative log-likelihood of targets among themselves and the negatives.

    Args:
        h: outputs of the top layer, (prediction, projection).
        targets: ids, (prediction,) int64.
        negatives: one that is the target of a prediction is ignored there. The logarithm of the
            expected counts is subtracted from the logits, which corrects for frequent types being
            drawn often.
        dtype: dtype of the large matrix products, such as bfloat16; that of the weights by default.

    For a target that is always drawn, the expected loss is that of the full softmax except for the
    bias of the logarithm. For a target that is drawn with probability q, it is lower by up to
    another -log q, so it does not estimate the perplexity; but its mean gradient is zero where that
    of the full softmax is zero: for the model whose distribution equals that of the targets.

    Source: Jean et al. 2015; TensorFlow's `sampled_softmax_loss`.
    """
    correction = negatives.expected_counts.log()  # (type,)
    # The position of a type among the negatives, -1 for those that were not drawn.
    column = torch.full_like(negatives.expected_counts, -1, dtype=torch.int64)  # (type,)
    column[negatives.ids] = torch.arange(len(negatives.ids), device=negatives.ids.device)
    # A single gather, since each may have a gradient as large as the softmax.
    ids = torch.cat([targets, negatives.ids])  # (prediction + negative,)
    weights = _rows(softmax.weight, ids)  # (prediction + negative, projection)
    biases = softmax.bias.index_select(0, ids) - correction[ids]  # (prediction + negative,)
    loss: Tensor = _SampledSoftmaxLoss.apply(  # type: ignore[no-untyped-call]
        h.to(dtype), weights, biases, column[targets]
    )
    return loss


def _rows(weight: Tensor, ids: Tensor) -> Tensor:
    """Select rows of a weight: (type, projection) -> (id, projection).

    On a CPU, an existing gradient is updated only in these rows: to write another one, zero almost
    everywhere, would cost a tenth of a step with many types.
    """
    if weight.grad is not None and weight.device.type == "cpu":
        return nn.functional.embedding(ids, weight, sparse=True)
    return weight.index_select(0, ids)


class _SampledSoftmaxLoss(torch.autograd.Function):
    """Loss and gradient in one pass over groups of predictions.

    All logits together would be the largest array of training.
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, weights: Tensor, biases: Tensor, hits: Tensor) -> Tensor:
        """Compute the mean loss, and the gradient for `backward`.

        Args:
            h: outputs of the top layer, (prediction, projection).
            weights: of the targets, then of the negatives, (prediction + negative, projection).
            biases: of the targets, then of the negatives, (prediction + negative,).
            hits: position of each target among the negatives, -1 if it is none, (prediction,).
        """
        n = len(h)
        d_h = torch.empty_like(h)
        d_weights = torch.zeros_like(weights)
        d_biases = torch.zeros_like(biases)
        d_negative_weight = d_weights[n:]  # a view, as the next one
        d_negative_bias = d_biases[n:]
        negative_weight = weights[n:].to(h.dtype)  # (negative, projection)
        negative_bias = biases[n:]  # (negative,)
        is_hit = (hits >= 0).unsqueeze(1)  # (prediction, 1)
        column = hits.clamp_min(0).unsqueeze(1)  # (prediction, 1)
        total = biases.new_zeros(())
        at_once = _PREDICTIONS_AT_ONCE.get(h.device.type, _PREDICTIONS_AT_ONCE_ON_GPU)
        for begin in range(0, n, at_once):
            part = slice(begin, min(begin + at_once, n))
            true_weight = weights[part].to(h.dtype)  # (prediction, projection)
            true_product = (h[part] * true_weight).sum(1, dtype=biases.dtype)  # (prediction,)
            true_logit = true_product + biases[part]  # (prediction,)
            logits = _logits(h[part], negative_weight, negative_bias)  # (prediction, negative)
            kept = logits.gather(1, column[part]).masked_fill_(is_hit[part], -math.inf)
            logits.scatter_(1, column[part], kept)
            # From here on, `logits` are overwritten by their exponentials and their gradient.
            highest = torch.maximum(logits.amax(1), true_logit)  # (prediction,)
            logits.sub_(highest.unsqueeze(1)).exp_()
            true_exp = (true_logit - highest).exp()  # (prediction,)
            partition = logits.sum(1) + true_exp  # (prediction,)
            total += (partition.log() + highest - true_logit).sum()
            d_true = torch.sub(true_exp / partition, 1, out=d_biases[part]).unsqueeze(1)
            d_logits = logits.div_(partition.unsqueeze(1))  # (prediction, negative)
            d_negative_bias += d_logits.sum(0)
            d_logits = d_logits.to(h.dtype)
            torch.mm(d_logits, negative_weight, out=d_h[part])
            if d_negative_weight.dtype == h.dtype:
                d_negative_weight.addmm_(d_logits.t(), h[part])
            else:
                d_negative_weight += d_logits.t() @ h[part]
            d_h[part] += (d_true * true_weight).to(h.dtype)
            torch.mul(d_true, h[part], out=d_weights[part])
        ctx.save_for_backward(d_h, d_weights, d_biases)
        return total / n

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        d_h, d_weights, d_biases = ctx.saved_tensors
        scale = d_loss / len(d_h)
        return d_h * scale, d_weights * scale, d_biases * scale, None


def _logits(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Compute h @ weight.T + bias in the dtype of `bias`: (prediction, negative)."""
    if h.dtype == bias.dtype:
        return torch.addmm(bias, h, weight.t())
    return torch.mm(h, weight.t()).to(bias.dtype).add_(bias)
