"""A softmax fitted to a frozen biLM: what a model without one needs before anything else.

The biLM does not change, so that its top layer's outputs are computed once and kept in half
precision; then only the softmax is trained on them. Each sentence is read from a state of zeros, as
it is when perplexity is measured: a softmax fitted to other states would do worse there, and what
fine-tuning gains would look like more than it is.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.domain import part_of
from elmo_cli.lm.evaluation import length_sorted, top_layer_outputs
from elmo_cli.lm.forward import Dropout, type_vectors
from elmo_cli.lm.initialize import new_softmax
from elmo_cli.lm.language_model import LanguageModel
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.sampled_softmax import LogUniformSampler, sampled_softmax_loss
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.state import State
from elmo_cli.text.vocabulary import Vocabulary

# Of short runs. Adam's steps are of one size however small a gradient is: at a high rate the types
# that are seldom drawn as negatives are thrown about.
_RATE, _RATE_SAMPLED = 5e-3, 2e-3
_PREDICTIONS = 1024  # learned from in one step, fewer where a pass would have less than 128 steps
_FEW_STEPS = 128
_SMALL_GAIN = 0.02  # of the held-out perplexity in a pass; with less, the rate is halved
_LEAST_GAIN = 0.005  # with less in each of two passes, fitting ends
_MOST_PASSES = 20
_BYTES = 1 << 29  # of the outputs that are kept


@dataclass(frozen=True)
class Fit:
    """A fitted softmax and how it was fitted.

    Attributes:
        head: the softmax with the best held-out perplexity of all passes.
        tokens: predictions that it was fitted on, in each direction, the ends of sentences among
            them.
        passes: over them.
        seconds: in all.
    """

    head: NextTokenSoftmax
    tokens: int
    passes: int
    seconds: float


def fit_head(
    bilm: BiLM,
    vocabulary: Vocabulary,
    corpus: Corpus,
    heldout: Corpus,
    settings: TrainSettings,
    *,
    max_tokens: int,
    max_seconds: float | None = None,
    report: Callable[[dict[str, Any]], None] = lambda line: None,
) -> Fit:
    """Fit a softmax to a frozen biLM, on text of which the biLM reads each token once.

    Biases begin at the logarithm of each type's share and weights small, so that the first figure
    is that of a unigram. Adam trains both at a rate that is halved when a pass over the text gains
    little, until the held-out perplexity hardly falls any more.

    Args:
        vocabulary: what the softmax is to predict.
        corpus: to fit on; of a longer text, `max_tokens` are read, whole sentences in random order.
        heldout: to measure after each pass.
        settings: negative samples, dropout and seed.
        max_tokens: fewer where the outputs would take more than 512 MiB.
        max_seconds: no pass begins after so much time, and reading takes at most a third of it.
        report: called with the facts of each pass: `fit_pass`, `tokens`, `seconds`, `heldout`.
    """
    begun = time.monotonic()
    most = min(max_tokens, _BYTES // (4 * bilm.options.projection_dim))
    outputs, targets = _outputs(
        bilm,
        vocabulary,
        _some(corpus, most, settings.seed),
        seed=settings.seed,
        deadline=None if max_seconds is None else begun + max_seconds / 3,
    )
    counts = corpus.predicted_counts(vocabulary)
    head = new_softmax(counts, bilm.options.projection_dim, seed=settings.seed).to(outputs.device)
    trainer = _HeadTrainer(head, settings)
    best, kept, n_passes, n_tokens = math.inf, {}, 0, len(outputs) // 2
    rate, in_vain = trainer.rate, 0
    while True:
        measured = perplexity(LanguageModel(bilm, head, vocabulary), heldout)
        seconds = time.monotonic() - begun
        report(
            {
                "fit_pass": n_passes,
                "tokens": n_tokens,
                "seconds": round(seconds, 1),
                "heldout": asdict(measured),
            }
        )
        gain = 1 - measured.average / best
        if gain > 0:
            best = measured.average
            kept = {name: value.clone() for name, value in head.state_dict().items()}
        rate = rate / 2 if gain < _SMALL_GAIN else rate
        in_vain = in_vain + 1 if gain < _LEAST_GAIN else 0
        is_late = max_seconds is not None and seconds >= max_seconds
        if in_vain == 2 or is_late or n_passes == _MOST_PASSES:
            break
        trainer.learn(outputs, targets, rate=rate)
        n_passes += 1
    head.load_state_dict(kept)
    return Fit(head, n_tokens, n_passes, time.monotonic() - begun)


@torch.no_grad()
def _outputs(
    bilm: BiLM, vocabulary: Vocabulary, corpus: Corpus, *, seed: int, deadline: float | None
) -> tuple[Tensor, Tensor]:
    """Top layer's outputs, (prediction, projection) float16, and what came, (prediction,)."""
    table = type_vectors(bilm.char_cnn, corpus.characters)
    ids = torch.from_numpy(corpus.ids(vocabulary)).to(table.device)
    schedules, zeros = list(length_sorted(corpus)), State.zeros(bilm.options, 1)
    outputs, targets = [], []
    # Batches have sentences of one length: in random order, because there may be no time for all.
    for k in np.random.default_rng(seed).permutation(len(schedules)):
        for positions, predicted, top in top_layer_outputs(
            bilm, table, corpus, schedules[k], zeros
        ):
            exists = torch.from_numpy(positions >= 0).to(table.device)
            exists = exists.unsqueeze(1).expand_as(predicted)
            outputs.append(top[exists].half())
            targets.append(ids[predicted[exists]])
        if deadline is not None and time.monotonic() >= deadline:
            break
    return torch.cat(outputs), torch.cat(targets)


def _some(corpus: Corpus, max_tokens: int, seed: int) -> Corpus:
    """Random sentences of `max_tokens` predictions in each direction at most, one at least."""
    order = np.random.default_rng(seed).permutation(corpus.n_sentences)
    n_fit = np.searchsorted(np.cumsum(np.diff(corpus.starts)[order] - 1), max_tokens, "right")
    wanted = np.zeros(corpus.n_sentences, np.bool_)
    wanted[order[: max(1, int(n_fit))]] = True
    return part_of(corpus, wanted)


class _HeadTrainer:
    def __init__(self, head: NextTokenSoftmax, settings: TrainSettings) -> None:
        self._head = head
        self._device = head.weight.device
        self._random = torch.Generator().manual_seed(settings.seed)
        dropped = torch.Generator(self._device).manual_seed(settings.seed)
        self._dropout = Dropout(settings.dropout, dropped)
        self._sampler = None
        if n_negatives := settings.n_negatives(len(head.bias)):
            self._sampler = LogUniformSampler(len(head.bias), n_negatives)
        self.rate = _RATE if self._sampler is None else _RATE_SAMPLED
        self._optimizer = torch.optim.Adam(head.parameters(), lr=self.rate, betas=(0.9, 0.98))

    def learn(self, outputs: Tensor, targets: Tensor, *, rate: float) -> None:
        """One pass over all predictions in random order."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        order = torch.randperm(len(targets), generator=self._random)
        at_once = max(1, min(_PREDICTIONS, len(targets) // _FEW_STEPS))
        for some in torch.split(order.to(self._device), at_once):
            self._optimizer.zero_grad(set_to_none=True)
            loss = self._loss(self._dropout(outputs[some].float()), targets[some])
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()

    def _loss(self, h: Tensor, targets: Tensor) -> Tensor:
        if self._sampler is None:
            loss: Tensor = -self._head(h, targets).mean()
            return loss
        negatives, expected = (x.to(self._device) for x in self._sampler.draw(self._random))
        return sampled_softmax_loss(self._head, h, targets, negatives, expected)
