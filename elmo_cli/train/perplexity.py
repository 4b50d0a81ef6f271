"""Perplexity: how well a biLM predicts a text, in each direction, with the full softmax."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.softmax import NextToken
from elmo_cli.model.state import State
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.train.corpus import BACKWARD, FORWARD, Corpus, Numbers
from elmo_cli.train.unroll import type_vectors, unroll

_ROWS_AT_ONCE = 64
_STEPS_AT_ONCE = 64
_PREDICTIONS_AT_ONCE = 2048


@dataclass(frozen=True)
class Perplexity:
    """What was measured.

    Attributes:
        forward, backward: exp of the mean negative log-likelihood in a direction.
        average: exp of the mean over both directions.
        predictions: in each direction; the end of a sentence (its begin, backward) is one.
        unknown: share of the tokens that the vocabulary lacks; `<UNK>` was to be predicted there.
    """

    forward: float
    backward: float
    average: float
    predictions: int
    unknown: float


@torch.no_grad()
def perplexity(
    bilm: BiLM,
    head: NextToken,
    vocabulary: Vocabulary,
    corpus: Corpus,
    *,
    carry: bool = False,
    n_rows: int = 1,
) -> Perplexity:
    """Measure a biLM on a text.

    Args:
        vocabulary: of `head`.
        carry: False starts each sentence from a state of zeros; True reads the text in `n_rows`
            rows without a stop, as bilm-tf's test does, the state being zero at each row's start.
        n_rows: rows that a carried text is cut into.

    Source: bilm-tf `bilm/training.py` `test`; nothing of the text's end is dropped here.
    """
    table = type_vectors(bilm.char_cnn, corpus.characters)
    ids = corpus.ids(vocabulary)
    cuts = _even_cuts(corpus, n_rows) if carry else corpus.starts
    sums, n_predictions = torch.zeros(2, dtype=torch.float64), 0
    for read, predicted in _batches(corpus, cuts):
        values, there = _log_likelihoods(bilm, head, table, ids, read, predicted)
        sums += torch.where(there, values, 0.0).sum((0, 2), dtype=torch.float64)
        n_predictions += int(there[:, FORWARD].sum())
    mean = (-sums / n_predictions).tolist()
    counts = corpus.counts()
    return Perplexity(
        forward=math.exp(mean[FORWARD]),
        backward=math.exp(mean[BACKWARD]),
        average=math.exp((mean[FORWARD] + mean[BACKWARD]) / 2),
        predictions=n_predictions,
        unknown=float(counts[ids == vocabulary.unknown].sum() / counts.sum()),
    )


def _even_cuts(corpus: Corpus, n_rows: int) -> npt.NDArray[np.int64]:
    wanted = np.linspace(0, corpus.starts[-1], n_rows + 1)
    return np.unique(corpus.starts[np.searchsorted(corpus.starts, wanted)])


def _batches(corpus: Corpus, cuts: npt.NDArray[np.int64]) -> Iterator[tuple[Numbers, Numbers]]:
    """Runs of sentences as rows, by length: read and predicted, (token, direction, row), -1 past
    the end of a row."""
    begins = np.searchsorted(corpus.starts, cuts)
    order = np.argsort(np.diff(cuts), kind="stable")
    for first in range(0, len(order), _ROWS_AT_ONCE):
        rows = [
            [corpus.laid_out(sentences, direction)[:2] for direction in (FORWARD, BACKWARD)]
            for sentences in (
                np.arange(begins[k], begins[k + 1]) for k in order[first : first + _ROWS_AT_ONCE]
            )
        ]
        longest = max(len(row[FORWARD][0]) for row in rows)
        both = np.full((2, longest, 2, len(rows)), -1, np.int32)
        for r, row in enumerate(rows):
            for direction in (FORWARD, BACKWARD):
                for side in (0, 1):
                    numbers = row[direction][side]
                    both[side, : len(numbers), direction, r] = numbers
        yield both[0], both[1]


def _log_likelihoods(
    bilm: BiLM,
    head: NextToken,
    table: Tensor,
    type_ids: npt.NDArray[np.int64],
    read: Numbers,
    predicted: Numbers,
) -> tuple[Tensor, Tensor]:
    """(token, direction, row): the log-likelihoods, arbitrary past a row's end; what is there."""
    state = State.zeros(bilm.options, read.shape[2], dtype=table.dtype)
    values = []
    for begin in range(0, len(read), _STEPS_AT_ONCE):
        steps = slice(begin, begin + _STEPS_AT_ONCE)
        vectors = table[torch.from_numpy(np.maximum(read[steps], 0).astype(np.int64))]
        top, state = unroll(bilm, vectors, state)
        ids = torch.from_numpy(type_ids[np.maximum(predicted[steps], 0)])
        pairs = zip(
            torch.split(top.flatten(0, 2), _PREDICTIONS_AT_ONCE),
            torch.split(ids.flatten(), _PREDICTIONS_AT_ONCE),
            strict=True,
        )
        values.append(torch.cat([head(h, targets) for h, targets in pairs]).view_as(ids))
    return torch.cat(values), torch.from_numpy(predicted >= 0)
