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
_LEARNING_RATE = 5e-3
_LEARNING_RATE_SAMPLED = 2e-3
_MAX_BATCH = 1024  # predictions
_MIN_STEPS = 128  # per pass; the batches of a short text are smaller
_SMALL_GAIN = 0.02  # of the held-out perplexity in a pass: below it the learning rate is halved
_NO_GAIN = 0.005  # below it in two consecutive passes, fitting ends
_MAX_PASSES = 20
_MAX_BYTES = 1 << 29  # of all outputs
_BYTES_PER_VALUE = 2  # of an output, in half precision
_N_DIRECTIONS = 2


def fit_softmax(
    bilm: BiLM,
    vocabulary: Vocabulary,
    domain: Domain,
    settings: TrainSettings,
    max_tokens: int,
    report: Callable[[dict[str, Any]], None],
) -> NextTokenSoftmax:
    """Fit a softmax to a frozen biLM, starting with the frequencies of the types.

    The outputs of the top layer are computed once and kept in half precision. Each sentence starts
    from zero states, as it does when perplexity is measured: a softmax fitted to other states would
    measure worse, and fine-tuning would seem to gain more. The learning rate of Adam is halved when
    a pass gains little, and fitting ends when the held-out perplexity has stopped falling.

    Args:
        domain: its training text is fitted on, its validation text measures each pass.
        settings: negative samples, dropout and seed.
        max_tokens: of the text to fit on, in whole random sentences; fewer if their outputs would
            take more than 512 MiB.
        report: called after each pass with `fit_pass`, `tokens`, `seconds`, `heldout`.
    """
    start_s = time.monotonic()
    projection_dim = bilm.options.projection_dim
    most_in_memory = _MAX_BYTES // (_N_DIRECTIONS * projection_dim * _BYTES_PER_VALUE)
    sample = _sample(domain.train, min(max_tokens, most_in_memory), settings.seed)
    outputs, targets = _outputs(bilm, vocabulary, sample)
    counts = domain.train.predicted_counts(vocabulary)
    softmax = new_softmax(counts, projection_dim, seed=settings.seed).to(outputs.device)
    fit = _SoftmaxFit(softmax, settings)
    best = math.inf
    best_weights: dict[str, Tensor] = {}
    n_without_gain = 0
    for n_passes in range(_MAX_PASSES + 1):
        if n_passes > 0:
            fit.run_pass(outputs, targets)
        measured = perplexity(LanguageModel(bilm, softmax, vocabulary), domain.validation)
        report(
            {
                "fit_pass": n_passes,
                "tokens": len(outputs) // _N_DIRECTIONS,
                "seconds": round(time.monotonic() - start_s, 1),
                "heldout": asdict(measured),
            }
        )
        gain = 1 - measured.average / best
        if gain > 0:
            best = measured.average
            best_weights = deepcopy(softmax.state_dict())
        if gain < _SMALL_GAIN:
            fit.halve_learning_rate()
        n_without_gain = n_without_gain + 1 if gain < _NO_GAIN else 0
        if n_without_gain == 2:
            break
    softmax.load_state_dict(best_weights)
    return softmax


def _sample(corpus: Corpus, max_tokens: int, seed: int) -> Corpus:
    """Random sentences with at most `max_tokens` predictions in each direction; at least one."""
    order = np.random.default_rng(seed).permutation(corpus.n_sentences)
    n_predictions = np.diff(corpus.starts) - 1  # of each sentence
    total = np.cumsum(n_predictions[order])
    n_wanted = max(1, int(np.searchsorted(total, max_tokens, "right")))
    is_wanted = np.zeros(corpus.n_sentences, bool)
    is_wanted[order[:n_wanted]] = True
    return corpus.select(is_wanted)


@torch.no_grad()
def _outputs(bilm: BiLM, vocabulary: Vocabulary, corpus: Corpus) -> tuple[Tensor, Tensor]:
    """The top layer's outputs, (prediction, projection) float16, and target ids, (prediction,)."""
    table = type_vectors(bilm.char_cnn, corpus.characters)
    ids = torch.from_numpy(corpus.ids(vocabulary)).to(table.device)
    zeros = State.zeros(bilm.options, 1)
    outputs: list[Tensor] = []
    targets: list[Tensor] = []
    for schedule in length_sorted(corpus):
        for positions, types, top in top_layer_outputs(bilm, table, corpus, schedule, zeros):
            exists = torch.from_numpy(positions >= 0).unsqueeze(1).expand_as(types)
            exists = exists.to(table.device)
            outputs.append(top[exists].half())
            targets.append(ids[types[exists]])
    return torch.cat(outputs), torch.cat(targets)


class _SoftmaxFit:
    """The training of a softmax on stored outputs."""

    def __init__(self, softmax: NextTokenSoftmax, settings: TrainSettings) -> None:
        self._softmax = softmax
        self._device = softmax.weight.device
        self._rng = torch.Generator().manual_seed(settings.seed)
        dropout_rng = torch.Generator(self._device).manual_seed(settings.seed)
        self._dropout = Dropout(settings.dropout, dropout_rng)
        n_types = len(softmax.bias)
        n_negatives = settings.n_negatives(n_types)
        self._sampler: LogUniformSampler | None = None
        rate = _LEARNING_RATE
        if n_negatives:
            self._sampler = LogUniformSampler(n_types, n_negatives)
            rate = _LEARNING_RATE_SAMPLED
        self.optimizer = torch.optim.Adam(softmax.parameters(), lr=rate, betas=(0.9, 0.98))

    def halve_learning_rate(self) -> None:
        self.optimizer.param_groups[0]["lr"] /= 2

    def run_pass(self, outputs: Tensor, targets: Tensor) -> None:
        """Train on all predictions once, in random order."""
        order = torch.randperm(len(targets), generator=self._rng).to(self._device)
        batch_size = max(1, min(_MAX_BATCH, len(targets) // _MIN_STEPS))
        for batch in torch.split(order, batch_size):
            self.optimizer.zero_grad(set_to_none=True)
            h = self._dropout(outputs[batch].float())  # (prediction, projection)
            loss = self._loss(h, targets[batch])
            loss.backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()

    def _loss(self, h: Tensor, targets: Tensor) -> Tensor:
        if self._sampler is None:
            loss: Tensor = -self._softmax(h, targets).mean()
            return loss
        negatives = self._sampler.draw(self._rng).to(self._device, h.dtype)
        return sampled_softmax_loss(self._softmax, h, targets, negatives)
