"""Evaluation: the log-likelihood of every prediction of a text, with the full softmax.

Predictions are numbered throughout the text; this number is their *position*. A sentence of n
tokens has n + 1 of them, forward w1 … wn </S> and backward wn … w1 <S>. A *schedule* says which
predictions are computed together: positions, (step, stream) int64, -1 if a stream has none.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.arrays import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from elmo_cli.engine.runtime import out_of_memory_as_device_error
from elmo_cli.errors import UsageError, WeightFileError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.forward import forward, type_vectors
from elmo_cli.lm.language_model import LanguageModel
from elmo_cli.lm.stream import BACKWARD, FORWARD, flatten
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.text.vocabulary import Vocabulary

_SENTENCES_AT_ONCE = 64
_STEPS_AT_ONCE = 64
_PREDICTIONS_AT_ONCE = 1024
_TYPES_AT_ONCE = {"cpu": 1024}  # so that their logits stay in the cache
_TYPES_AT_ONCE_ON_GPU = 16384


class SentenceScore(NamedTuple):
    """The score of one sentence: its zero-based number in the corpus; its numbers of tokens,
    unknown tokens and scored predictions in each direction; their log-likelihood in each direction;
    and the perplexity of both."""

    number: int
    tokens: int
    unknown: int
    predictions: int
    forward: float
    backward: float
    perplexity: float


@dataclass(frozen=True)
class TextScores:
    """The log-likelihood of each prediction of a text.

    Attributes:
        values: natural logarithm, (direction, position) float32; NaN where not scored.
        vocabulary: the vocabulary of the softmax.
    """

    values: Float32Array
    corpus: Corpus
    vocabulary: Vocabulary

    @property
    def is_scored(self) -> BoolArray:
        """Whether each prediction was scored, (position,)."""
        return np.asarray(~np.isnan(self.values[FORWARD]))

    def targets(self, direction: int) -> Int32Array:
        """Return the target type numbers, (position,)."""
        return flatten(self.corpus, np.arange(self.corpus.n_sentences), direction)[1]

    def sums(self) -> Float64Array:
        """Return the log-likelihood of the scored predictions, (direction, sentence)."""
        values = np.nan_to_num(self.values, nan=0.0)
        return np.add.reduceat(values, self.corpus.prediction_starts[:-1], 1, dtype=np.float64)

    def sentences(self) -> Iterator[SentenceScore]:
        """Yield the sentences with a scored prediction, in text order."""
        is_unknown = self.corpus.ids(self.vocabulary) == self.vocabulary.unknown
        starts = self.corpus.prediction_starts[:-1]
        n_scored = np.add.reduceat(self.is_scored, starts, dtype=np.int64)
        sums = self.sums()
        for k in np.flatnonzero(n_scored).tolist():
            begin = self.corpus.starts[k] + 1  # without <S>
            end = self.corpus.starts[k + 1] - 1  # without </S>
            tokens = self.corpus.tokens[begin:end]
            n_predictions = int(n_scored[k])
            forward = float(sums[FORWARD, k])
            backward = float(sums[BACKWARD, k])
            mean_nll = -(forward + backward) / (2 * n_predictions)
            yield SentenceScore(
                number=k,
                tokens=len(tokens),
                unknown=int(is_unknown[tokens].sum()),
                predictions=n_predictions,
                forward=forward,
                backward=backward,
                perplexity=exp_or_inf(mean_nll),
            )


def exp_or_inf(nll: float) -> float:
    """Return exp of a mean negative log-likelihood; inf if it overflows, after divergence."""
    try:
        return math.exp(nll)
    except OverflowError:
        return math.inf


@torch.no_grad()
def score(
    model: LanguageModel,
    corpus: Corpus,
    *,
    initial_state: State | None = None,
    carry: bool = False,
    batch_size: int = 1,
    on_progress: Callable[[int], None] = lambda n: None,
) -> TextScores:
    """Predict a text with the full softmax.

    Args:
        initial_state: one row: the state before each sentence, or with `carry` before the text;
            zeros by default.
        carry: carry the state through the text, read in `batch_size` streams (see `carried`).
        on_progress: called with the number of newly computed predictions.
    Raises:
        UsageError: nothing is left to score.
        WeightFileError: the weights are so large that a likelihood is not finite.
        DeviceError: the device of the model has no memory left.
    """
    bilm, softmax, device = model.bilm, model.softmax, model.softmax.weight.device
    schedules = [carried(corpus, batch_size)] if carry else length_sorted(corpus)
    values = np.full((2, corpus.n_predictions), np.nan, np.float32)
    state = State.zeros(bilm.options, 1) if initial_state is None else initial_state
    what = f"{len(corpus.types):,} distinct types and a vocabulary of {len(model.vocabulary):,}"
    hint = "choose `device=cpu`, or score less text at a time"
    with out_of_memory_as_device_error(device, what, hint):
        ids = torch.from_numpy(corpus.ids(model.vocabulary)).to(device)
        table = type_vectors(bilm.char_cnn, corpus.characters)
        for schedule in schedules:
            for positions, targets, top in top_layer_outputs(bilm, table, corpus, schedule, state):
                exists = positions >= 0
                mask = torch.from_numpy(exists).to(device)
                for way in (FORWARD, BACKWARD):
                    found = _log_likelihoods(softmax, top[:, way][mask], ids[targets[:, way][mask]])
                    values[way, positions[exists]] = found.cpu().numpy()
                on_progress(int(exists.sum()))
    if np.isnan(values).all():
        what = f"`batch_size={batch_size}`: the text has {corpus.n_sentences} sentences, and "
        what += "nothing is left to score when the first stream has ended"
        raise UsageError(what, "choose a smaller number; `batch_size=1` scores the whole text")
    return TextScores(values, corpus, model.vocabulary)


def length_sorted(corpus: Corpus) -> Iterator[Int64Array]:
    """Yield schedules with one sentence per stream, grouped by similar length."""
    starts = corpus.prediction_starts
    lengths = np.diff(starts)
    order = np.argsort(lengths, kind="stable")
    for first in range(0, len(order), _SENTENCES_AT_ONCE):
        batch = order[first : first + _SENTENCES_AT_ONCE]
        steps = np.arange(lengths[batch].max())[:, None]
        yield np.where(steps < lengths[batch], starts[batch] + steps, -1)


def carried(corpus: Corpus, batch_size: int) -> Int64Array:
    """Return one schedule of the whole text; a stream that ends takes the next sentence.

    At each step, stream 0 takes its sentence before stream 1. The schedule ends before the first
    step at which a stream finds no sentence; the rest of the other streams is not scored.

    Source: bilm-tf `bilm/data.py` `_get_batch`, with windows of one step as in its `test`.
    """
    starts = corpus.prediction_starts
    streams: list[list[Int64Array]] = [[np.empty(0, np.int64)] for _ in range(batch_size)]
    ends = [(0, k) for k in range(batch_size)]  # (step at which a stream ends, stream): a heap
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        step, k = ends[0]
        streams[k].append(np.arange(first, last))
        heapq.heapreplace(ends, (step + last - first, k))
    n_steps = ends[0][0]
    return np.stack([np.concatenate(stream)[:n_steps] for stream in streams], 1)


def top_layer_outputs(
    bilm: BiLM, table: Tensor, corpus: Corpus, schedule: Int64Array, initial_state: State
) -> Iterator[tuple[Int64Array, Tensor, Tensor]]:
    """Compute the predictions of a schedule, some steps at a time.

    Args:
        table: the vector of each type of the corpus, from `type_vectors`.
        initial_state: one row: the state before the first step of each stream.
    Yields:
        Positions, (step, stream); target type numbers, (step, direction, stream); outputs of the
        top layer, (step, direction, stream, projection). Where there is no prediction, targets and
        outputs are undefined.
    """
    starts, tokens = corpus.prediction_starts, corpus.tokens
    state = initial_state.to(table.device).expand(schedule.shape[1])
    for first in range(0, len(schedule), _STEPS_AT_ONCE):
        positions = schedule[first : first + _STEPS_AT_ONCE]
        existing = np.maximum(positions, 0)
        sentence = np.searchsorted(starts, existing, "right") - 1
        ahead = existing + sentence  # index of the input in `corpus.tokens`
        back = corpus.starts[sentence + 1] - 1 - (existing - starts[sentence])
        inputs, targets = (
            torch.from_numpy(tokens[np.stack(pair, 1)].astype(np.int64)).to(table.device)
            for pair in ((ahead, back), (ahead + 1, back - 1))
        )
        top, state = forward(bilm, table[inputs], state)
        yield positions, targets, top


def _log_likelihoods(softmax: NextTokenSoftmax, h: Tensor, targets: Tensor) -> Tensor:
    """Compute log-likelihoods, (prediction,), for some predictions and types at a time."""
    n_types = _TYPES_AT_ONCE.get(h.device.type, _TYPES_AT_ONCE_ON_GPU)
    parts = (torch.split(values, n_types) for values in (softmax.weight, softmax.bias))
    layers = list(zip(*parts, strict=True))
    at_once, found = _PREDICTIONS_AT_ONCE, []
    for some, ids in zip(*(torch.split(x, at_once) for x in (h, targets)), strict=True):
        sums = [functional.linear(some, *layer).logsumexp(1) for layer in layers]
        own = (some * softmax.weight[ids]).sum(1) + softmax.bias[ids]
        # Rounding could give a likelihood above 1.
        found.append((own - torch.stack(sums).logsumexp(0)).clamp_max_(0))
    values = torch.cat(found)
    if not values.isfinite().all():
        hint = "weights and softmax must come from one model; training may have diverged"
        raise WeightFileError("the softmax: its logits are too large for float32", hint)
    return values
