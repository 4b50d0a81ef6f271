"""Training the softmax: the sampled loss, and the fit to a frozen biLM for models without one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.domain import Domain
from elmo_cli.lm.evaluation import length_sorted, top_layer_outputs
from elmo_cli.lm.forward import Dropout, type_vectors
from elmo_cli.lm.language_model import LanguageModel, new_softmax
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.text.vocabulary import Vocabulary

_PREDICTIONS_AT_ONCE = {"cpu": 256}  # so that their logits stay in the cache
_PREDICTIONS_AT_ONCE_ON_GPU = 4096
# Adam's steps do not shrink with the gradient: with a high rate, types that are rarely sampled
# would move at random.
_LEARNING_RATE, _LEARNING_RATE_SAMPLED = 5e-3, 2e-3
_MAX_BATCH = 1024  # predictions
_MIN_STEPS = 128  # per pass; the batches of a short text are smaller
_SMALL_GAIN = 0.02  # of the held-out perplexity in a pass: below it the learning rate is halved
_NO_GAIN = 0.005  # below it in two consecutive passes, fitting ends
_MAX_PASSES = 20
_MAX_BYTES = 1 << 29  # of all outputs


class LogUniformSampler:
    """Draws distinct types, frequent ones (with small ids) more often.

    Type k has probability log((k + 2) / (k + 1)) / log(n_types + 1): Zipf's law for a vocabulary in
    order of descending frequency. Types are drawn until `n_negatives` (< `n_types`) are distinct.

    Source: TensorFlow's `log_uniform_candidate_sampler`, which bilm-tf uses in training.
    """

    def __init__(self, n_types: int, n_negatives: int) -> None:
        self.n_types, self.n_negatives = n_types, n_negatives
        ranks = torch.arange(1, n_types + 1, dtype=torch.float64)
        self._probability = torch.log1p(1 / ranks) / math.log(n_types + 1)

    def draw(self, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw distinct types, (n_negatives,) int64; and expected counts of all types, (type,)."""
        drawn = torch.empty(0, dtype=torch.int64)
        while True:
            more = torch.rand(4 * self.n_negatives, generator=generator, dtype=torch.float64)
            ids = (more * math.log(self.n_types + 1)).exp().long() - 1
            drawn = torch.cat([drawn, ids.clamp_(0, self.n_types - 1)])
            first = _first_positions(drawn, self.n_types)
            if len(first) >= self.n_negatives:
                break
        last = int(first[self.n_negatives - 1])
        expected = -torch.expm1((last + 1) * torch.log1p(-self._probability))
        return drawn[first[: self.n_negatives]], expected.float()


def _first_positions(ids: Tensor, n_types: int) -> Tensor:
    """Return the position of the first occurrence of each distinct id, in order."""
    positions = torch.full((n_types,), len(ids))
    positions.scatter_reduce_(0, ids, torch.arange(len(ids)), "amin")
    return positions[positions < len(ids)].sort().values


def sampled_softmax_loss(
    softmax: NextTokenSoftmax,
    h: Tensor,
    targets: Tensor,
    negatives: Tensor,
    expected_counts: Tensor,
    *,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """Compute the mean negative log-likelihood of targets among themselves and the negatives.

    Args:
        h: outputs of the top layer, (prediction, projection).
        targets: ids, (prediction,) int64.
        negatives: distinct ids, (negative,) int64, the same for all predictions; a negative that
            is the target of a prediction is ignored there.
        expected_counts: expected count of each type in a draw, (type,); its logarithm is subtracted
            from the logits, which corrects for frequent types being drawn often.
        dtype: dtype of the large matrix products, such as bfloat16; that of the weights by default.

    For a target that is always drawn, the expected loss is that of the full softmax except for the
    bias of the logarithm. For a target that is drawn with probability q, it is lower by up to
    another -log q, so it does not estimate the perplexity; but its mean gradient is zero where that
    of the full softmax is zero: for the model whose distribution equals that of the targets.

    Source: Jean et al. 2015; TensorFlow's `sampled_softmax_loss`.
    """
    correction = expected_counts.log()
    # The position of a type among the negatives, -1 for those that were not drawn.
    column = torch.full_like(expected_counts, -1, dtype=torch.int64)
    column[negatives] = torch.arange(len(negatives), device=negatives.device)
    # A single gather, since each may have a gradient as large as the softmax.
    both = torch.cat([targets, negatives])
    loss: Tensor = _SampledSoftmaxLoss.apply(  # type: ignore[no-untyped-call]
        h.to(dtype),
        _rows(softmax.weight, both),
        softmax.bias.index_select(0, both) - correction[both],
        column[targets],
    )
    return loss


def _rows(weight: Tensor, ids: Tensor) -> Tensor:
    """Select rows of a weight; on a CPU, an existing gradient is updated only in these rows: to
    write another one, zero almost everywhere, would cost a tenth of a step with many types."""
    if weight.grad is not None and weight.device.type == "cpu":
        return nn.functional.embedding(ids, weight, sparse=True)
    return weight.index_select(0, ids)


class _SampledSoftmaxLoss(torch.autograd.Function):
    """Loss and gradient in one pass over groups of predictions: all logits together would be the
    largest array of training."""

    @staticmethod
    def forward(ctx: Any, h: Tensor, rows: Tensor, biases: Tensor, hit: Tensor) -> Tensor:
        """Take softmax `rows` and `biases` of the targets, followed by those of the negatives."""
        n = len(h)
        d_h = torch.empty_like(h)
        d_rows, d_biases = torch.zeros_like(rows), torch.zeros_like(biases)
        d_weight, d_bias = d_rows[n:], d_biases[n:]
        weight, bias, total = rows[n:].to(h.dtype), biases[n:], biases.new_zeros(())
        is_hit, column = (hit >= 0).unsqueeze(1), hit.clamp_min(0).unsqueeze(1)
        at_once = _PREDICTIONS_AT_ONCE.get(h.device.type, _PREDICTIONS_AT_ONCE_ON_GPU)
        for begin in range(0, n, at_once):
            part = slice(begin, min(begin + at_once, n))
            true_weight = rows[part].to(h.dtype)
            true = (h[part] * true_weight).sum(1, dtype=biases.dtype) + biases[part]
            logits = _logits(h[part], weight, bias)  # (prediction, negative)
            kept = logits.gather(1, column[part]).masked_fill_(is_hit[part], -math.inf)
            logits.scatter_(1, column[part], kept)
            highest = torch.maximum(logits.amax(1), true)
            logits.sub_(highest.unsqueeze(1)).exp_()
            own = (true - highest).exp()
            whole = logits.sum(1) + own
            total += (whole.log() + highest - true).sum()
            d_true = torch.sub(own / whole, 1, out=d_biases[part]).unsqueeze(1)
            d_logits = logits.div_(whole.unsqueeze(1))
            d_bias += d_logits.sum(0)
            d_logits = d_logits.to(h.dtype)
            torch.mm(d_logits, weight, out=d_h[part])
            if d_weight.dtype == h.dtype:
                d_weight.addmm_(d_logits.t(), h[part])
            else:
                d_weight += d_logits.t() @ h[part]
            d_h[part] += (d_true * true_weight).to(h.dtype)
            torch.mul(d_true, h[part], out=d_rows[part])
        ctx.save_for_backward(d_h, d_rows, d_biases)
        return total / n

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_loss: Tensor) -> tuple[Tensor | None, ...]:
        share = d_loss / len(ctx.saved_tensors[0])
        return *(gradient * share for gradient in ctx.saved_tensors), None


def _logits(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    if h.dtype == bias.dtype:
        return torch.addmm(bias, h, weight.t())
    return torch.mm(h, weight.t()).to(bias.dtype).add_(bias)


def fit_softmax(
    bilm: BiLM,
    vocabulary: Vocabulary,
    domain: Domain,
    settings: TrainSettings,
    max_tokens: int,
    report: Callable[[dict[str, Any]], None] = lambda line: None,
) -> NextTokenSoftmax:
    """Fit a softmax to a frozen biLM, starting with the frequencies of the types.

    The outputs of the top layer are computed once and kept in half precision. Each sentence starts
    from zero states, as it does when perplexity is measured: a softmax fitted to other states would
    measure worse, and fine-tuning would seem to gain more. The learning rate of Adam is halved when
    a pass gains little, and fitting ends when the held-out perplexity has stopped falling.

    Args:
        domain: its training text is fitted on, its validation text measures each pass.
        settings: negative samples, dropout and seed; `max_seconds` limits the fit: no pass starts
            later, and the biLM computes outputs for at most a third of it.
        max_tokens: of the text to fit on, in whole random sentences; fewer if their outputs would
            take more than 512 MiB.
        report: called after each pass with `fit_pass`, `tokens`, `seconds`, `heldout`.
    """
    start_s, max_seconds = time.monotonic(), settings.max_seconds or math.inf
    projection, seed = bilm.options.projection_dim, settings.seed
    sample = _sample(domain.train, min(max_tokens, _MAX_BYTES // (4 * projection)), seed)
    outputs, targets = _outputs(bilm, vocabulary, sample, seed, start_s + max_seconds / 3)
    counts = domain.train.predicted_counts(vocabulary)
    softmax = new_softmax(counts, projection, seed=seed).to(outputs.device)
    fit = _Fit(softmax, settings)
    best, weights, n_passes, n_without_gain = math.inf, {}, 0, 0
    while True:
        measured = perplexity(LanguageModel(bilm, softmax, vocabulary), domain.validation)
        seconds = time.monotonic() - start_s
        facts = {"fit_pass": n_passes, "tokens": len(outputs) // 2, "seconds": round(seconds, 1)}
        report({**facts, "heldout": asdict(measured)})
        gain = 1 - measured.average / best
        if gain > 0:
            best, weights = measured.average, deepcopy(softmax.state_dict())
        if gain < _SMALL_GAIN:
            fit.optimizer.param_groups[0]["lr"] /= 2
        n_without_gain = n_without_gain + 1 if gain < _NO_GAIN else 0
        if n_without_gain == 2 or seconds >= max_seconds or n_passes == _MAX_PASSES:
            break
        fit.run_pass(outputs, targets)
        n_passes += 1
    softmax.load_state_dict(weights)
    return softmax


def _sample(corpus: Corpus, max_tokens: int, seed: int) -> Corpus:
    """Random sentences with at most `max_tokens` predictions in each direction; at least one."""
    order = np.random.default_rng(seed).permutation(corpus.n_sentences)
    n_wanted = np.searchsorted(np.cumsum(np.diff(corpus.starts)[order] - 1), max_tokens, "right")
    return corpus.select(np.isin(np.arange(len(order)), order[: max(1, int(n_wanted))]))


@torch.no_grad()
def _outputs(
    bilm: BiLM, vocabulary: Vocabulary, corpus: Corpus, seed: int, deadline_s: float
) -> tuple[Tensor, Tensor]:
    """The top layer's outputs, (prediction, projection) float16, and target ids, (prediction,)."""
    table = type_vectors(bilm.char_cnn, corpus.characters)
    ids = torch.from_numpy(corpus.ids(vocabulary)).to(table.device)
    zeros = State.zeros(bilm.options, 1)
    outputs, targets = [], []
    # In random order, because a batch has sentences of one length and the deadline may come first.
    schedules = list(length_sorted(corpus))
    for k in np.random.default_rng(seed).permutation(len(schedules)):
        for positions, types, top in top_layer_outputs(bilm, table, corpus, schedules[k], zeros):
            exists = torch.from_numpy(positions >= 0).unsqueeze(1).expand_as(types)
            exists = exists.to(table.device)
            outputs.append(top[exists].half())
            targets.append(ids[types[exists]])
        if time.monotonic() >= deadline_s:
            break
    return torch.cat(outputs), torch.cat(targets)


class _Fit:
    """The training of a softmax on stored outputs."""

    def __init__(self, softmax: NextTokenSoftmax, settings: TrainSettings) -> None:
        self._softmax, n_types = softmax, len(softmax.bias)
        self._device = softmax.weight.device
        self._rng = torch.Generator().manual_seed(settings.seed)
        dropout_rng = torch.Generator(self._device).manual_seed(settings.seed)
        self._dropout = Dropout(settings.dropout, dropout_rng)
        n_negatives = settings.n_negatives(n_types)
        self._sampler = LogUniformSampler(n_types, n_negatives) if n_negatives else None
        rate = _LEARNING_RATE_SAMPLED if n_negatives else _LEARNING_RATE
        self.optimizer = torch.optim.Adam(softmax.parameters(), lr=rate, betas=(0.9, 0.98))

    def run_pass(self, outputs: Tensor, targets: Tensor) -> None:
        """Train on all predictions once, in random order."""
        order = torch.randperm(len(targets), generator=self._rng).to(self._device)
        batch_size = max(1, min(_MAX_BATCH, len(targets) // _MIN_STEPS))
        for batch in torch.split(order, batch_size):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self._loss(self._dropout(outputs[batch].float()), targets[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    def _loss(self, h: Tensor, targets: Tensor) -> Tensor:
        if self._sampler is None:
            loss: Tensor = -self._softmax(h, targets).mean()
            return loss
        negatives, expected = (x.to(self._device) for x in self._sampler.draw(self._rng))
        return sampled_softmax_loss(self._softmax, h, targets, negatives, expected)
