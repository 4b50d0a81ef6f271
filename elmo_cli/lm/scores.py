"""Scores: the log-likelihood of each prediction that a language model makes in a text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from elmo_cli.engine.runtime import is_out_of_memory
from elmo_cli.errors import DeviceError, UsageError, WeightFileError
from elmo_cli.lm.corpus import Corpus, Int32Array
from elmo_cli.lm.forward import forward, type_vectors
from elmo_cli.lm.rows import Places, Rows, borders_of, dealt, one_by_one, symbols_at
from elmo_cli.lm.stream import BACKWARD, FORWARD, flatten
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.state import State
from elmo_cli.text.vocabulary import Vocabulary

_ROWS_AT_ONCE = 64
_STEPS_AT_ONCE = 64
_PREDICTIONS_AT_ONCE = 1024
_TYPES_AT_ONCE = {"cpu": 1024}  # their scores then stay in the processor's cache
_ELSEWHERE = 16384


@dataclass(frozen=True)
class Scores:
    """The log-likelihood of each prediction.

    Attributes:
        values: natural logarithm, (direction, place) float32; NaN for what was not counted. The
            places are those of `rows`: a sentence of n tokens has n + 1, the first of them the
            first that each direction predicts: forward w1 … wn </S>, backward wn … w1 <S>.
        borders: the first place of each sentence, and at last the number of places.
        corpus: the text.
        vocabulary: what was predicted from.
    """

    values: npt.NDArray[np.float32]
    borders: Places
    corpus: Corpus
    vocabulary: Vocabulary

    @property
    def is_counted(self) -> npt.NDArray[np.bool_]:
        """Which places were counted, (place,)."""
        counted: npt.NDArray[np.bool_] = ~np.isnan(self.values[FORWARD])
        return counted

    def predicted(self, direction: int) -> Int32Array:
        """The types that are predicted, (place,)."""
        return flatten(self.corpus, np.arange(self.corpus.n_sentences), direction)[1]

    def sums(self) -> npt.NDArray[np.float64]:
        """The log-likelihood of each sentence, what was not counted left out: (direction,
        sentence)."""
        return np.add.reduceat(
            np.nan_to_num(self.values, nan=0.0), self.borders[:-1], 1, dtype=np.float64
        )

    def sentences(self) -> Iterator[SentenceScore]:
        """The sentences of which a prediction was counted, in the order of the text."""
        unknown = self.corpus.ids(self.vocabulary) == self.vocabulary.unknown
        n_counted = np.add.reduceat(self.is_counted, self.borders[:-1], dtype=np.int64)
        sums = self.sums()
        for k in np.flatnonzero(n_counted).tolist():
            begin, end = self.corpus.starts[k] + 1, self.corpus.starts[k + 1] - 1
            yield SentenceScore(
                number=k,
                tokens=int(end - begin),
                unknown=int(unknown[self.corpus.tokens[begin:end]].sum()),
                predictions=int(n_counted[k]),
                forward=float(sums[FORWARD, k]),
                backward=float(sums[BACKWARD, k]),
            )


@dataclass(frozen=True)
class SentenceScore:
    """A sentence and how well it was predicted.

    Attributes:
        number: among the sentences of the corpus, from 0.
        tokens: in the sentence.
        unknown: tokens that the vocabulary lacks.
        predictions: that were counted, in each direction.
        forward, backward: log-likelihoods of these, natural logarithm.
    """

    number: int
    tokens: int
    unknown: int
    predictions: int
    forward: float
    backward: float

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log-likelihood, over both directions."""
        return perplexity_from(-(self.forward + self.backward) / (2 * self.predictions))


def perplexity_from(nll: float) -> float:
    """exp of a mean negative log-likelihood; infinite where that is more than a float can hold, as
    a model that has diverged may have it."""
    try:
        return math.exp(nll)
    except OverflowError:
        return math.inf


@torch.no_grad()
def score(
    bilm: BiLM,
    head: NextTokenSoftmax,
    vocabulary: Vocabulary,
    corpus: Corpus,
    *,
    start: State | None = None,
    carry: bool = False,
    n_rows: int = 1,
    advance: Callable[[int], None] = lambda n: None,
) -> Scores:
    """Predict a text with the full softmax.

    Memory grows by about 80 bytes a token, and by the vectors of all distinct types.

    Args:
        bilm, head: on one device, which computes.
        vocabulary: of `head`.
        start: the state, of one row, that each sentence (each row, with `carry`) starts from;
            zeros if not given.
        carry: False starts each sentence from `start`; True carries the state through the text in
            `n_rows` rows that are dealt its sentences as bilm-tf's test does (see `rows.dealt`),
            which drops the end of the text where a row has run dry.
        n_rows: rows of a carried text.
        advance: called with the number of predictions that were made, now and then.
    Raises:
        UsageError: nothing is left to count.
        WeightFileError: weights so large that a prediction has no likelihood.
        DeviceError: the device has no memory left.
    """
    device = head.weight.device
    borders = borders_of(corpus)
    values = np.full((2, int(borders[-1])), np.nan, np.float32)
    try:
        table = type_vectors(bilm.char_cnn, corpus.characters)
        ids = torch.from_numpy(corpus.ids(vocabulary)).to(device)
        state = State.zeros(bilm.options, 1) if start is None else start
        all_rows = [dealt(corpus, n_rows)] if carry else one_by_one(corpus, _ROWS_AT_ONCE)
        for rows in all_rows:
            for places, predicted, top in _read(bilm, table, corpus, rows, state.to(device)):
                counted = places >= 0
                wanted = torch.from_numpy(counted).to(device)
                for direction in (FORWARD, BACKWARD):
                    h, targets = top[:, direction][wanted], ids[predicted[:, direction][wanted]]
                    values[direction, places[counted]] = _log_likelihoods(head, h, targets)
                advance(int(counted.sum()))
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise DeviceError(
            f"{device}: out of memory, with {len(corpus.types):,} distinct types in the text and "
            f"{len(vocabulary):,} in the vocabulary",
            "`--device cpu`, or less text at a time",
        ) from None
    if np.isnan(values).all():
        raise _nothing_counted(corpus, n_rows)
    return Scores(values, borders, corpus, vocabulary)


def _read(
    bilm: BiLM, table: Tensor, corpus: Corpus, rows: Rows, start: State
) -> Iterator[tuple[Places, Tensor, Tensor]]:
    """Window after window of some rows: the places, (step, row); the types predicted there,
    (step, direction, row); the top layer's outputs, (step, direction, row, projection)."""
    state = start.expand(len(rows.sentences))
    borders = borders_of(corpus)
    for places in rows.windows(borders, _STEPS_AT_ONCE):
        read, predicted = (
            torch.from_numpy(symbols.astype(np.int64)).to(table.device)
            for symbols in symbols_at(corpus, borders, places)
        )
        top, state = forward(bilm, table[read], state)
        yield places, predicted, top


def _log_likelihoods(head: NextTokenSoftmax, h: Tensor, targets: Tensor) -> npt.NDArray[np.float32]:
    """What `head` computes, (prediction,), for a part of the predictions and types at a time."""
    at_once = _PREDICTIONS_AT_ONCE
    pairs = zip(torch.split(h, at_once), torch.split(targets, at_once), strict=True)
    found: npt.NDArray[np.float32] = torch.cat([_in_parts(head, *p) for p in pairs]).cpu().numpy()
    if not np.isfinite(found).all():
        raise WeightFileError(
            "the softmax: scores that are too large for float32",
            "weights and softmax must come from one model; training may have diverged",
        )
    return found


def _in_parts(head: NextTokenSoftmax, h: Tensor, targets: Tensor) -> Tensor:
    n_types = _TYPES_AT_ONCE.get(h.device.type, _ELSEWHERE)
    parts = zip(torch.split(head.weight, n_types), torch.split(head.bias, n_types), strict=True)
    of_parts = [functional.linear(h, *part).logsumexp(1) for part in parts]
    own = (h * head.weight[targets]).sum(1) + head.bias[targets]
    # Rounding alone could make a likelihood of more than 1.
    return (own - torch.stack(of_parts).logsumexp(0)).clamp_max_(0)


def _nothing_counted(corpus: Corpus, n_rows: int) -> UsageError:
    return UsageError(
        f"--batch-size {n_rows}: the text has {corpus.n_sentences} sentences, and nothing is left "
        "to score when the first stream has ended",
        "give a smaller number; `--batch-size 1` scores the whole text",
    )
