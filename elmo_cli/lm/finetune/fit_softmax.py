"""Fit a softmax to a frozen biLM, for models without one."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.evaluation import length_sorted, top_layer_outputs
from elmo_cli.lm.finetune.domain import Domain
from elmo_cli.lm.forward import Dropout, type_vectors
from elmo_cli.lm.language_model import LanguageModel, new_softmax
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.softmax import LogUniformSampler, sampled_softmax_loss
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.text.vocabulary import Vocabulary

# Adam's steps do not shrink with the gradient: with a high rate, types that are rarely sampled
# would move at random.
_LEARNING_RATE, _LEARNING_RATE_SAMPLED = 5e-3, 2e-3
_MAX_BATCH = 1024  # predictions
_MIN_STEPS = 128  # per pass; the batches of a short text are smaller
_SMALL_GAIN = 0.02  # of the held-out perplexity in a pass: below it the learning rate is halved
_NO_GAIN = 0.005  # below it in two consecutive passes, fitting ends
_MAX_PASSES = 20
_MAX_BYTES = 1 << 29  # of all outputs


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
    fit = _SoftmaxFit(softmax, settings)
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


class _SoftmaxFit:
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
