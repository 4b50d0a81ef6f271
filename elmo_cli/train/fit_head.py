"""A softmax fitted to a frozen biLM: what a model without one needs before anything else.

The biLM does not change, so that its top layer's outputs are computed once, without dropout, and
kept in half precision; then only the softmax is trained on them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.softmax import NextToken
from elmo_cli.model.state import State
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.train.corpus import Corpus, windows
from elmo_cli.train.initial import new_head
from elmo_cli.train.perplexity import perplexity
from elmo_cli.train.predictions import LogUniformSampler, sampled_loss
from elmo_cli.train.settings import TrainSettings
from elmo_cli.train.unroll import Dropout, type_vectors, unroll

_RATE = 4e-3
_PREDICTIONS = 1024  # learnt from in one step
_LEAST_GAIN = 0.005  # of the held-out perplexity in a pass; with less, fitting ends
_MOST_PASSES = 12
_BYTES = 1 << 29  # of the outputs that are kept


@dataclass(frozen=True)
class Fit:
    """A fitted softmax and how it was fitted.

    Attributes:
        head: the softmax with the best held-out perplexity of all passes.
        tokens: of the text whose predictions it was fitted on, in each direction.
        passes: over them.
        seconds: in all.
    """

    head: NextToken
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
    is that of a unigram. Adam trains both until a pass over the text helps the held-out perplexity
    by less than half a percent.

    Args:
        vocabulary: what the softmax is to predict.
        corpus: to fit on; of a longer text, `max_tokens` are read, whole sentences in random order.
        heldout: to measure after each pass.
        settings: rows, steps, negatives, the largest vocabulary without them, dropout and seed.
        max_tokens: fewer where the outputs would take more than 512 MiB.
        max_seconds: no pass begins after so much time, and reading takes at most a third of it.
        report: called with the facts of each pass: `pass`, `tokens`, `seconds`, `heldout`.
    """
    begun = time.monotonic()
    outputs, targets = _outputs(
        bilm, vocabulary, corpus, settings, max_tokens, max_seconds and begun + max_seconds / 3
    )
    counts = corpus.predicted_counts(vocabulary)
    head = new_head(counts, bilm.options.projection, seed=settings.seed)
    trainer = _HeadTrainer(head, settings)
    best, kept, n_passes, n_tokens = math.inf, {}, 0, len(outputs) // 2
    for n_passes in range(_MOST_PASSES + 1):
        if n_passes > 0:
            trainer.learn(outputs, targets, rate=_RATE * 0.5 ** (n_passes - 1))
        measured = perplexity(bilm, head, vocabulary, heldout)
        seconds = time.monotonic() - begun
        report(
            {
                "pass": n_passes,
                "tokens": n_tokens,
                "seconds": round(seconds, 1),
                "heldout": {
                    "forward": measured.forward,
                    "backward": measured.backward,
                    "average": measured.average,
                },
            }
        )
        gain = 1 - measured.average / best
        if gain > 0:
            best = measured.average
            kept = {name: value.clone() for name, value in head.state_dict().items()}
        if gain < _LEAST_GAIN or (max_seconds is not None and seconds >= max_seconds):
            break
    head.load_state_dict(kept)
    return Fit(head, n_tokens, n_passes, time.monotonic() - begun)


@torch.no_grad()
def _outputs(
    bilm: BiLM,
    vocabulary: Vocabulary,
    corpus: Corpus,
    settings: TrainSettings,
    max_tokens: int,
    deadline: float | None,
) -> tuple[Tensor, Tensor]:
    """Top layer's outputs, (prediction, projection) float16, and what came, (prediction,)."""
    most = min(max_tokens, _BYTES // (4 * bilm.options.projection))
    a_window = settings.rows * settings.steps
    stream = windows(corpus, n_rows=settings.rows, n_steps=settings.steps, seed=settings.seed)
    epoch = takewhile(lambda window: window.epoch == 0, stream)
    read = list(islice(epoch, max(1, most // a_window)))
    types, places = np.unique(np.stack([window.read for window in read]), return_inverse=True)
    table = type_vectors(bilm.char_cnn, corpus.characters[types])
    places = places.reshape(len(read), *read[0].read.shape)
    ids = corpus.ids(vocabulary)
    state = State.zeros(bilm.options, settings.rows)
    outputs, targets = [], []
    for window, place in zip(read, places, strict=True):
        top, state = unroll(bilm, table[torch.from_numpy(place)], state)
        outputs.append(top.flatten(0, 2).half())
        targets.append(torch.from_numpy(ids[window.predicted.reshape(-1)]))
        if deadline is not None and time.monotonic() >= deadline:
            break
    return torch.cat(outputs), torch.cat(targets)


class _HeadTrainer:
    def __init__(self, head: NextToken, settings: TrainSettings) -> None:
        self._head = head
        self._optimizer = torch.optim.Adam(head.parameters(), lr=_RATE, betas=(0.9, 0.98))
        self._generator = torch.Generator().manual_seed(settings.seed)
        self._dropout = Dropout(settings.dropout, self._generator)
        self._sampler = None
        if len(head.bias) > settings.full_softmax:
            self._sampler = LogUniformSampler(len(head.bias), settings.negatives)

    def learn(self, outputs: Tensor, targets: Tensor, *, rate: float) -> None:
        """One pass over all predictions in random order."""
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        order = torch.randperm(len(targets), generator=self._generator)
        for some in torch.split(order, _PREDICTIONS):
            self._optimizer.zero_grad(set_to_none=True)
            loss = self._loss(self._dropout(outputs[some].float()), targets[some])
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()

    def _loss(self, h: Tensor, targets: Tensor) -> Tensor:
        if self._sampler is None:
            loss: Tensor = -self._head(h, targets).mean()
            return loss
        negatives, expected = self._sampler.draw(self._generator)
        return sampled_loss(self._head, h, targets, negatives, expected)
