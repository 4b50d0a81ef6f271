"""Perplexity: how well a biLM predicts a text, in each direction, with the full softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.scores import Scores, perplexity_from, score
from elmo_cli.lm.spelling import Speller, byte_counts
from elmo_cli.lm.stream import BACKWARD, FORWARD
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class BitsPerByte:
    """What it takes to write the text down, as the figure that compares across vocabularies.

    The bits are -log2 of the likelihood of all predictions, ends of sentences among them, and for
    each predicted `<UNK>` the bits of the token's spelling (see `spelling.Speller`). The bytes are
    those of the tokens in UTF-8 and one more for each, as if they stood in a file with spaces
    between them and a sentence a line.

    Attributes:
        forward, backward: in a direction.
        average: of both.
        spelling: how much of the average is for spelling.
    """

    forward: float
    backward: float
    average: float
    spelling: float


@dataclass(frozen=True)
class Perplexity:
    """What was measured.

    Attributes:
        forward, backward: exp of the mean negative log-likelihood in a direction.
        average: exp of the mean over both directions.
        predictions: in each direction; the end of a sentence (its begin, backward) is one.
        unknown_fraction: of the predicted tokens, those that the vocabulary lacks.
        tokens, sentences: of the text, whether counted or not.
        not_scored: predictions in each direction that were not scored: what the rows of a carried
            text leave at the end.
        bits_per_byte: with the unknown tokens spelled out.
    """

    forward: float
    backward: float
    average: float
    predictions: int
    unknown_fraction: float
    tokens: int
    sentences: int
    not_scored: int
    bits_per_byte: BitsPerByte


def perplexity(
    bilm: BiLM, head: NextTokenSoftmax, vocabulary: Vocabulary, corpus: Corpus
) -> Perplexity:
    """Measure a biLM on a text, each sentence from a state of zeros.

    Args and errors are those of `score`.

    Source: bilm-tf `bilm/training.py` `test`, which carries the state.
    """
    return perplexity_of(score(bilm, head, vocabulary, corpus))


def perplexity_of(scores: Scores) -> Perplexity:
    """The figures of a whole text."""
    corpus, is_counted = scores.corpus, scores.is_counted
    n_predictions = int(is_counted.sum())
    is_token = is_counted.copy()
    is_token[scores.borders[1:] - 1] = False
    # How often each type was to be predicted as a token, (direction, type); the directions differ
    # where rows end within a sentence.
    n_types = len(corpus.types)
    counts = np.stack(
        [
            np.bincount(scores.predicted(direction)[is_token], minlength=n_types)
            for direction in (FORWARD, BACKWARD)
        ]
    )
    unknown = np.flatnonzero(corpus.ids(scores.vocabulary) == scores.vocabulary.unknown)
    spelling = counts[:, unknown] @ Speller(scores.vocabulary).bits(
        [corpus.types[k] for k in unknown]
    )
    n_bytes = counts @ byte_counts(corpus.types)
    nll = -scores.sums().sum(1)
    bits = nll / math.log(2) + spelling
    mean = (nll / n_predictions).tolist()
    return Perplexity(
        forward=perplexity_from(mean[FORWARD]),
        backward=perplexity_from(mean[BACKWARD]),
        average=perplexity_from((mean[FORWARD] + mean[BACKWARD]) / 2),
        predictions=n_predictions,
        unknown_fraction=float(counts[:, unknown].sum() / counts.sum()),
        tokens=corpus.n_tokens,
        sentences=corpus.n_sentences,
        not_scored=len(is_counted) - n_predictions,
        bits_per_byte=BitsPerByte(
            forward=float(bits[FORWARD] / n_bytes[FORWARD]),
            backward=float(bits[BACKWARD] / n_bytes[BACKWARD]),
            average=float(bits.sum() / n_bytes.sum()),
            spelling=float(spelling.sum() / n_bytes.sum()),
        ),
    )
