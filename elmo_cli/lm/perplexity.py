"""Perplexity and bits per byte of a text under a biLM, with the full softmax.

Perplexity scores the prediction of `<UNK>` but not which token it was, which favors models with
small vocabularies. Bits per byte also include the bits of its spelling, so that a small
vocabulary has no advantage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import Float64Array, Int64Array
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.evaluation import TextScores, exp_or_inf, score
from elmo_cli.lm.language_model import LanguageModel
from elmo_cli.lm.stream import BACKWARD, FORWARD
from elmo_cli.text.vocabulary import SPECIALS, Vocabulary

_ORDER = 3  # number of bytes of context
_BORDER = 256  # the symbol before a token (_ORDER times) and after it
_N_SYMBOLS = 257


@dataclass(frozen=True)
class BitsPerByte:
    """Bits of a text per byte of its tokens, in each direction and both.

    The bits are -log2 of the likelihood of all predictions, including ends of sentences, plus the
    bits of the spelling of each predicted `<UNK>` (see `ByteModel`), which are `spelling` bits per
    byte on average. The bytes are those of the tokens in UTF-8, plus one per token for the space or
    line end that follows it.
    """

    forward: float
    backward: float
    average: float
    spelling: float


@dataclass(frozen=True)
class Perplexity:
    """Perplexity and related figures of a whole text.

    Attributes:
        forward, backward, average: exp of the mean negative log-likelihood in one direction, and
            over both.
        predictions, not_scored: numbers of predictions in each direction that were scored and that
            were not, including the end of each sentence (its start, backward).
        unknown_fraction: fraction of the predicted tokens that are not in the vocabulary.
        tokens, sentences: numbers in the text, scored or not.
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
    model: LanguageModel, corpus: Corpus, *, on_progress: Callable[[int], None] = lambda n: None
) -> Perplexity:
    """Measure a biLM on a text, each sentence from zero states; arguments and errors of `score`.

    Source: bilm-tf `bilm/training.py` `test`, which carries the state.
    """
    return perplexity_of(score(model, corpus, on_progress=on_progress))


def perplexity_of(scores: TextScores) -> Perplexity:
    """Compute the figures from the scores of a text."""
    corpus = scores.corpus
    vocabulary = scores.vocabulary
    n_predictions = int(scores.is_scored.sum())
    counts = _target_counts(scores)  # (direction, type)
    unknown = np.flatnonzero(scores.is_unknown)  # (unknown type,)
    unknown_types = [corpus.types[k] for k in unknown]
    spelling_bits = ByteModel(vocabulary).bits_per_token(unknown_types)  # (unknown type,)
    # From here on, (direction,).
    spelling = counts[:, unknown] @ spelling_bits
    n_bytes = counts @ byte_counts(corpus.types)
    nll = -scores.sums().sum(1)
    bits = nll / math.log(2) + spelling
    mean_nll = nll / n_predictions
    bits_per_byte = bits / n_bytes
    return Perplexity(
        forward=exp_or_inf(mean_nll[FORWARD]),
        backward=exp_or_inf(mean_nll[BACKWARD]),
        average=exp_or_inf(mean_nll.mean()),
        predictions=n_predictions,
        unknown_fraction=float(counts[:, unknown].sum() / counts.sum()),
        tokens=corpus.n_tokens,
        sentences=corpus.n_sentences,
        not_scored=corpus.n_predictions - n_predictions,
        bits_per_byte=BitsPerByte(
            forward=float(bits_per_byte[FORWARD]),
            backward=float(bits_per_byte[BACKWARD]),
            average=float(bits.sum() / n_bytes.sum()),
            spelling=float(spelling.sum() / n_bytes.sum()),
        ),
    )


def _target_counts(scores: TextScores) -> Int64Array:
    """Return how often each type is the target of a scored prediction, (direction, type).

    Ends of sentences are left out. The directions differ if streams end within a sentence.
    """
    corpus = scores.corpus
    is_token = scores.is_scored.copy()
    is_token[corpus.prediction_starts[1:] - 1] = False
    counts = []
    for direction in (FORWARD, BACKWARD):
        targets = scores.targets(direction)[is_token]
        counts.append(np.bincount(targets, minlength=len(corpus.types)))
    return np.stack(counts)


class ByteModel:
    """A byte-level model of the spelling of tokens, including their end.

    A byte is predicted from the three before it by Witten-Bell interpolation: with n the count of a
    byte after a context, N the count of the context and T the number of different bytes after it,
    p = (n + T p') / (N + T), where p' is the same for a context that is shorter by one; before the
    empty context all 257 symbols are equally likely. Each type of the vocabulary except the three
    special ones counts once. No probability is taken from the types of the vocabulary, which are
    never spelled, so the bits are slightly too high.

    Source: Witten and Bell 1991, method C.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        types = [token for token in vocabulary.types if token not in SPECIALS]
        self._counts = [_NgramCounts.of(ngrams) for ngrams in _ngrams(types)]

    def bits_per_token(self, tokens: Sequence[str]) -> Float64Array:
        """Return the bits of each token, including its end, (token,)."""
        lengths = byte_counts(tokens)
        p = np.full(lengths.sum(), 1 / _N_SYMBOLS)  # of each symbol of all tokens, (symbol,)
        for counts, ngrams in zip(self._counts, _ngrams(tokens), strict=True):
            contexts = ngrams // _N_SYMBOLS
            n = counts.ngrams.lookup(ngrams)
            n_context = counts.contexts.lookup(contexts)
            n_different = counts.continuations.lookup(contexts)
            mixed = n + n_different * p
            is_seen = n_context > 0
            p[is_seen] = (mixed / np.maximum(n_context + n_different, 1))[is_seen]
        token_of_symbol = np.repeat(np.arange(len(tokens)), lengths)
        bits = np.zeros(len(tokens))
        np.add.at(bits, token_of_symbol, -np.log2(p))
        return bits


def byte_counts(tokens: Sequence[str]) -> Int64Array:
    """Return the bytes of each token in UTF-8 plus one for its end, (token,)."""
    return np.asarray([len(_utf8(token)) + 1 for token in tokens], np.int64)


def _utf8(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


def _ngrams(tokens: Sequence[str]) -> list[Int64Array]:
    """Encode each symbol with its context as one number, for each order 0 … 3.

    Returns:
        For each order, the n-grams of all symbols of all tokens, (symbol,): the symbol is the last
        digit in base 257, and the rest is its context.
    """
    joined = b"".join(b"\0" * _ORDER + _utf8(token) + b"\0" for token in tokens)
    symbols = np.frombuffer(joined, np.uint8).astype(np.int64)
    lengths = byte_counts(tokens)
    n_borders_before = _ORDER * np.repeat(np.arange(1, len(tokens) + 1), lengths)
    positions = np.arange(lengths.sum()) + n_borders_before  # in `symbols`, of those to predict
    is_border = np.ones(len(symbols), bool)
    is_border[positions] = False
    is_border[np.cumsum(lengths + _ORDER) - 1] = True  # the end of each token
    symbols[is_border] = _BORDER
    ngrams = [symbols[positions]]
    for order in range(1, _ORDER + 1):
        further_byte = symbols[positions - order]
        ngrams.append(further_byte * _N_SYMBOLS**order + ngrams[-1])
    return ngrams


class _NumberCounts:
    """How often each number occurs in an array."""

    def __init__(self, numbers: Int64Array) -> None:
        self.distinct, self._counts = np.unique(numbers, return_counts=True)

    def lookup(self, numbers: Int64Array) -> Int64Array:
        """Return the count of each number, 0 if it does not occur; the shape stays."""
        first = np.searchsorted(self.distinct, numbers, "left")
        end = np.searchsorted(self.distinct, numbers, "right")
        is_counted = first < end
        counts = np.append(self._counts, 0)  # so that an index at the end is valid
        return np.where(is_counted, counts[first], 0)


@dataclass(frozen=True)
class _NgramCounts:
    """The counts of one order: of n-grams, of contexts, and of different n-grams of a context."""

    ngrams: _NumberCounts
    contexts: _NumberCounts
    continuations: _NumberCounts  # of each context, the number of different symbols after it

    @classmethod
    def of(cls, ngrams: Int64Array) -> _NgramCounts:
        """Count n-grams as `_ngrams` returns them for one order."""
        ngram_counts = _NumberCounts(ngrams)
        return cls(
            ngrams=ngram_counts,
            contexts=_NumberCounts(ngrams // _N_SYMBOLS),
            continuations=_NumberCounts(ngram_counts.distinct // _N_SYMBOLS),
        )
