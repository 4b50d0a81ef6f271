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
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.arrays import BoolArray, Float32Array, Float64Array, Int32Array, Int64Array
from elmo_cli.engine.runtime import out_of_memory_as_device_error
from elmo_cli.errors import UsageError, WeightFileError
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.forward import forward, type_vectors
from elmo_cli.lm.stream import BACKWARD, FORWARD, flatten
from elmo_cli.messages import plural
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.text.vocabulary import Vocabulary

_SENTENCES_AT_ONCE = 64  # streams of a schedule of sentences
_STEPS_AT_ONCE = 64  # of a schedule, in one forward pass
_PREDICTIONS_AT_ONCE = 1024  # in one product with the softmax
_TYPES_AT_ONCE = {"cpu": 1024}  # so that their logits stay in the cache
_TYPES_AT_ONCE_ON_GPU = 16384


class Predictor(Protocol):
    """A biLM with its softmax and vocabulary, such as a `LanguageModel`.

    It is a protocol because the module of `LanguageModel` imports this one.
    """

    @property
    def bilm(self) -> BiLM:
        """The biLM."""

    @property
    def softmax(self) -> NextTokenSoftmax:
        """The softmax of both directions."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The types of the softmax."""


@dataclass(frozen=True)
class SentenceScore:
    """The score of one sentence.

    Attributes:
        number: zero-based, in the corpus.
        tokens, unknown: numbers of its tokens, and of those that are not in the vocabulary.
        predictions: number of scored predictions in each direction.
        forward, backward: their log-likelihood in each direction, a natural logarithm.
        perplexity: of both directions.
    """

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
        corpus: the text.
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
        text_order = np.arange(self.corpus.n_sentences)
        _, targets = flatten(self.corpus, text_order, direction)
        return targets

    def sums(self) -> Float64Array:
        """Return the log-likelihood of the scored predictions, (direction, sentence)."""
        values = np.nan_to_num(self.values, nan=0.0)
        return np.add.reduceat(values, self.corpus.prediction_starts[:-1], 1, dtype=np.float64)

    @cached_property
    def is_unknown(self) -> BoolArray:
        """Whether each type of the corpus is missing from the vocabulary, (type,)."""
        return np.asarray(self.corpus.ids(self.vocabulary) == self.vocabulary.unknown)

    def unknown_counts(self) -> Int64Array:
        """Return the number of tokens that are not in the vocabulary, (sentence,)."""
        is_unknown = self.is_unknown[self.corpus.tokens]  # of each token and boundary
        starts = self.corpus.starts[:-1]
        return np.add.reduceat(is_unknown, starts, dtype=np.int64)

    def in_text_order(self) -> Iterator[tuple[Float32Array, Float32Array]]:
        """Yield two views of `values` for each sentence of n tokens, (n + 1,) each.

        Forward are the likelihoods of w1 … wn </S>, backward those of <S> w1 … wn.
        """
        for begin, end in pairwise(self.corpus.prediction_starts.tolist()):
            forward = self.values[FORWARD, begin:end]
            backward = self.values[BACKWARD, begin:end]
            yield forward, backward[::-1]

    def sentences(self) -> Iterator[SentenceScore]:
        """Yield the sentences with a scored prediction, in text order."""
        n_tokens = np.diff(self.corpus.starts) - 2
        n_unknown = self.unknown_counts()
        starts = self.corpus.prediction_starts[:-1]
        n_scored = np.add.reduceat(self.is_scored, starts, dtype=np.int64)
        sums = self.sums()
        for k in np.flatnonzero(n_scored).tolist():
            n_predictions = int(n_scored[k])
            forward = float(sums[FORWARD, k])
            backward = float(sums[BACKWARD, k])
            mean_nll = -(forward + backward) / (2 * n_predictions)
            yield SentenceScore(
                number=k,
                tokens=int(n_tokens[k]),
                unknown=int(n_unknown[k]),
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
    model: Predictor,
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
        carry: carry the state through the text, read in `batch_size` streams, see
            `carried_schedule`.
        on_progress: called with the number of newly computed predictions.
    Raises:
        UsageError: there are fewer sentences than streams, so nothing would be scored.
        WeightFileError: the weights are so large that a likelihood is not finite.
        DeviceError: the device of the model has no memory left.
    """
    if carry and batch_size > corpus.n_sentences:  # before memory is taken for the streams
        n_sentences = plural(corpus.n_sentences, "sentence")
        raise UsageError(
            f"the text has {n_sentences}, and nothing is left to score when the first stream has "
            "ended",
            "choose a smaller number; `batch_size=1` scores the whole text",
            where=f"`batch_size={batch_size}`",
        )
    bilm = model.bilm
    device = model.softmax.weight.device
    schedules = [carried_schedule(corpus, batch_size)] if carry else length_sorted(corpus)
    state = State.zeros(bilm.options, 1) if initial_state is None else initial_state
    values = np.full((2, corpus.n_predictions), np.nan, np.float32)  # (direction, position)
    sizes = f"{len(corpus.types):,} distinct types and a vocabulary of {len(model.vocabulary):,}"
    hint = "choose `device=cpu`, or score less text at a time"
    with out_of_memory_as_device_error(device, sizes, hint):
        ids = torch.from_numpy(corpus.ids(model.vocabulary)).to(device)  # (type of the corpus,)
        table = type_vectors(bilm.char_cnn, corpus.characters)  # (type, projection)
        for schedule in schedules:
            for positions, targets, top in top_layer_outputs(bilm, table, corpus, schedule, state):
                exists = positions >= 0  # (step, stream)
                mask = torch.from_numpy(exists).to(device)
                for direction in (FORWARD, BACKWARD):
                    h = top[:, direction][mask]  # (prediction, projection)
                    target_ids = ids[targets[:, direction][mask]]  # (prediction,)
                    log_likelihoods = _log_likelihoods(model.softmax, h, target_ids)
                    values[direction, positions[exists]] = log_likelihoods.cpu().numpy()
                on_progress(int(exists.sum()))
    return TextScores(values=values, corpus=corpus, vocabulary=model.vocabulary)


def length_sorted(corpus: Corpus) -> Iterator[Int64Array]:
    """Yield schedules with one sentence per stream, grouped by similar length."""
    starts = corpus.prediction_starts
    lengths = np.diff(starts)
    order = np.argsort(lengths, kind="stable")
    for first in range(0, len(order), _SENTENCES_AT_ONCE):
        batch = order[first : first + _SENTENCES_AT_ONCE]  # sentence of each stream, (stream,)
        steps = np.arange(lengths[batch].max())[:, None]  # (step, 1)
        positions = starts[batch] + steps  # (step, stream)
        yield np.where(steps < lengths[batch], positions, -1)


def carried_schedule(corpus: Corpus, batch_size: int) -> Int64Array:
    """Return one schedule of the whole text; a stream that ends takes the next sentence.

    At each step, stream 0 takes its sentence before stream 1. The schedule ends before the first
    step at which a stream finds no sentence; the rest of the other streams is not scored.

    Args:
        batch_size: number of streams, at most that of the sentences.

    Source: bilm-tf `bilm/data.py` `_get_batch`, with windows of one step as in its `test`.
    """
    starts = corpus.prediction_starts.tolist()
    # The positions of each stream, sentence by sentence.
    streams: list[list[Int64Array]] = [[] for _ in range(batch_size)]
    ends = [(0, stream) for stream in range(batch_size)]  # a heap of (step of its end, stream)
    for start, end in pairwise(starts):
        first_end, stream = ends[0]
        streams[stream].append(np.arange(start, end))
        heapq.heapreplace(ends, (first_end + end - start, stream))
    n_steps, _ = ends[0]
    columns = [np.concatenate(sentences)[:n_steps] for sentences in streams]
    return np.stack(columns, 1)


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
    state = initial_state.to(table.device).expand(schedule.shape[1])
    for first in range(0, len(schedule), _STEPS_AT_ONCE):
        positions = schedule[first : first + _STEPS_AT_ONCE]  # (step, stream)
        inputs, targets = _types_at_predictions(corpus, np.maximum(positions, 0))
        vectors = table[torch.from_numpy(inputs).to(table.device)]
        top, state = forward(bilm, vectors, state)
        yield positions, torch.from_numpy(targets).to(table.device), top


def _types_at_predictions(corpus: Corpus, predictions: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Return the type numbers of the inputs and the targets of some predictions.

    Args:
        predictions: their positions, (step, stream); a position is the number of a prediction in
            the text, not an index in `corpus.tokens`.
    Returns:
        Two arrays, (step, direction, stream).
    """
    starts = corpus.prediction_starts
    sentence = np.searchsorted(starts, predictions, "right") - 1  # (step, stream)
    # Indices of the inputs in `corpus.tokens`, where each sentence has one symbol more.
    forward_indices = predictions + sentence
    backward_indices = corpus.starts[sentence + 1] - 1 - (predictions - starts[sentence])
    inputs = corpus.tokens[np.stack([forward_indices, backward_indices], 1)]
    targets = corpus.tokens[np.stack([forward_indices + 1, backward_indices - 1], 1)]
    return inputs.astype(np.int64), targets.astype(np.int64)


def _log_likelihoods(softmax: NextTokenSoftmax, h: Tensor, targets: Tensor) -> Tensor:
    """Compute log-likelihoods, (prediction,), for some predictions and types at a time.

    Outputs are equal where sentences share a prefix; the normalizer of equal ones is computed once.

    Args:
        h: outputs of the top layer, (prediction, projection).
        targets: ids, (prediction,) int64.
    Raises:
        WeightFileError: a log-likelihood is not finite.
    """
    n_types = _TYPES_AT_ONCE.get(h.device.type, _TYPES_AT_ONCE_ON_GPU)
    weights = torch.split(softmax.weight, n_types)
    biases = torch.split(softmax.bias, n_types)
    distinct, numbers = _distinct_rows(h)  # (output, projection), (prediction,)
    groups = []
    for rows in torch.split(distinct, _PREDICTIONS_AT_ONCE):
        sums = [  # of each group of types, (output,)
            functional.linear(rows, weight, bias).logsumexp(1)
            for weight, bias in zip(weights, biases, strict=True)
        ]
        groups.append(torch.stack(sums).logsumexp(0))
    normalizers = torch.cat(groups)[numbers]  # (prediction,)
    target_logits = (h * softmax.weight[targets]).sum(1) + softmax.bias[targets]
    values = (target_logits - normalizers).clamp_max_(0)  # rounding could give more than 1
    if not values.isfinite().all():
        problem = "its logits are too large for float32"
        hint = "weights and softmax must come from one model; training may have diverged"
        raise WeightFileError(problem, hint, where="the softmax")
    return values


def _distinct_rows(h: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct rows of `h`, and for each row of `h` its number among them.

    On other devices than a CPU, finding equal rows takes longer than their products; there, all
    rows are returned.
    """
    if h.device.type != "cpu":
        return h, torch.arange(len(h), device=h.device)
    rows, numbers = torch.unique(h, dim=0, return_inverse=True)
    return rows, numbers
