"""An n-gram language model with interpolated modified Kneser-Ney smoothing, in numpy.

Nothing is pruned. Each order has Chen and Goodman's discounts for counts of 1, 2, and 3 or more;
unigrams are interpolated with the uniform distribution. The count of an n-gram below the highest
order is the number of distinct words that precede it; n-grams that begin with `<S>` keep their
counts. All this is as in KenLM's `lmplz`.

Source: Chen and Goodman 1999; Heafield et al. 2013, "Scalable modified Kneser-Ney language model
estimation".
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np

from elmo_cli.arrays import AnyArray, Float64Array
from elmo_cli.text.vocabulary import Vocabulary

_WORD_BITS = 24  # of a key; the rest holds the number of the n-gram without its last word
# Where the counts of counts give no discount, as `lmplz --discount_fallback`.
_FALLBACK = (0.5, 1.0, 1.5)


def _not_yet() -> AnyArray:
    return np.empty(0)


@dataclass(frozen=True)
class Text:
    """Sentences with their boundaries, one after the other."""

    words: AnyArray  # (position,)
    history: AnyArray  # number of words of the same sentence before each position, (position,)


@dataclass(kw_only=True)
class Order:
    """The n-grams of one length, numbered by their sorted keys; unigrams are numbered as words.

    Attributes, each (n-gram,):
        keys: the number of the n-gram without its last word, then that word.
        suffixes: the number of the n-gram without its first word; none for unigrams.
        probabilities: of the last word after the others, interpolated.
        left_over: the probability that the n-gram, as a history, leaves to the shorter history.
    """

    keys: AnyArray
    counts: AnyArray
    starts_sentence: AnyArray
    suffixes: AnyArray = field(default_factory=_not_yet)
    probabilities: AnyArray = field(default_factory=_not_yet)
    left_over: AnyArray = field(default_factory=_not_yet)


def estimate(text: Text, vocabulary: Vocabulary, n: int = 5) -> list[Order]:
    """The model of a text: its orders, unigrams first."""
    orders = _count(text, vocabulary, n)
    for lower, higher in itertools.pairwise(orders):
        preceding = np.bincount(higher.suffixes, minlength=len(lower.keys))
        lower.counts = np.where(lower.starts_sentence, lower.counts, preceding)
    orders[0].counts[vocabulary.begin] = 0  # never predicted
    _set_unigrams(orders[0], vocabulary)
    for lower, higher in itertools.pairwise(orders):
        _interpolate(lower, higher)
    return orders


def probabilities(orders: list[Order], text: Text) -> Float64Array:
    """The probability of each word after at most n - 1 words of its sentence, (position,); NaN for
    the first of a sentence."""
    values = orders[0].probabilities[text.words].astype(np.float64)
    numbers = text.words  # of the n-gram that begins at each position, -1 where the model has none
    for n, (lower, order) in enumerate(itertools.pairwise(orders), start=2):
        ends = np.flatnonzero(text.history >= n - 1)
        starts = ends - n + 1
        histories = numbers[starts]
        ngrams = _find(order.keys, histories, text.words[ends])
        left_over = np.where(histories >= 0, lower.left_over[histories], 1.0)
        values[ends] = np.where(ngrams >= 0, order.probabilities[ngrams], left_over * values[ends])
        numbers = np.full(len(text.words), -1, np.int64)
        numbers[starts] = ngrams
    values[text.history == 0] = np.nan
    return values


def _count(text: Text, vocabulary: Vocabulary, n: int) -> list[Order]:
    """The n-grams of all lengths up to n, with their counts; probabilities are still missing."""
    words = text.words
    types = np.arange(len(vocabulary))
    unigrams = Order(
        keys=types,
        counts=np.bincount(words, minlength=len(types)),
        starts_sentence=types == vocabulary.begin,
    )
    orders = [unigrams]
    numbers = words.astype(np.int32)  # of the shorter n-gram that begins at each position
    for k in range(2, n + 1):
        starts = (np.flatnonzero(text.history >= k - 1) - (k - 1)).astype(np.int32)
        keys, first, inverse, counts = np.unique(
            _key(numbers[starts], words[starts + (k - 1)]),
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        first_starts = starts[first]
        order = Order(
            keys=keys,
            counts=counts.astype(np.int32),
            suffixes=numbers[first_starts + 1],
            starts_sentence=words[first_starts] == vocabulary.begin,
        )
        orders.append(order)
        numbers = np.full(len(words), -1, np.int32)
        numbers[starts] = inverse
    return orders


def _key(histories: AnyArray, words: AnyArray) -> AnyArray:
    return (histories.astype(np.int64) << _WORD_BITS) | words


def _find(keys: AnyArray, histories: AnyArray, words: AnyArray) -> AnyArray:
    """The numbers of n-grams, -1 for those that the model does not have."""
    wanted = np.where(histories >= 0, _key(histories, words), -1)
    numbers = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[numbers] == wanted, numbers, -1)


def _discounts(counts: AnyArray) -> AnyArray:
    """What is subtracted from each count."""
    discounts = np.array([0.0, *_discounts_of_1_to_3(counts)])
    return discounts[np.minimum(counts, 3)]


def _discounts_of_1_to_3(counts: AnyArray) -> tuple[float, float, float]:
    """The discounts of counts of 1, 2, and 3 or more, from the numbers of n-grams with a count."""
    n_1, n_2, n_3, n_4 = (int((counts == count).sum()) for count in (1, 2, 3, 4))
    if min(n_1, n_2, n_3, n_4) == 0:
        return _FALLBACK
    y = n_1 / (n_1 + 2 * n_2)
    d_1 = 1 - 2 * y * n_2 / n_1
    d_2 = 2 - 3 * y * n_3 / n_2
    d_3 = 3 - 4 * y * n_4 / n_3
    if 0 <= d_1 <= 1 and 0 <= d_2 <= 2 and 0 <= d_3 <= 3:
        return d_1, d_2, d_3
    return _FALLBACK


def _set_unigrams(order: Order, vocabulary: Vocabulary) -> None:
    discounts = _discounts(order.counts)
    total = order.counts.sum()
    for_each_type = discounts.sum() / (len(vocabulary) - 1)  # the uniform distribution
    values = (order.counts - discounts + for_each_type) / total
    values[vocabulary.begin] = 0
    order.probabilities = values.astype(np.float32)


def _interpolate(lower: Order, order: Order) -> None:
    """Set what the lower order leaves over as histories, and the probabilities of this order."""
    discounts = _discounts(order.counts)
    histories = order.keys >> _WORD_BITS
    n_histories = len(lower.keys)
    totals = np.bincount(histories, order.counts, n_histories)
    subtracted = np.bincount(histories, discounts, n_histories)
    left_over = np.ones(n_histories)
    np.divide(subtracted, totals, left_over, where=totals > 0)
    values = (order.counts - discounts) / totals[histories]
    values += left_over[histories] * lower.probabilities[order.suffixes]
    lower.left_over = left_over.astype(np.float32)
    order.probabilities = values.astype(np.float32)
