"""An n-gram language model, interpolated modified Kneser-Ney, in numpy.

Nothing is pruned. Discounts are Chen and Goodman's for counts 1, 2, and 3 or more, from each
order's counts of counts, at every order; the unigrams are interpolated with the uniform
distribution. The counts of lower orders are numbers of distinct words to the left; n-grams that
begin with `<S>` have nothing to their left and keep their counts. All this is as
in KenLM's `lmplz`.

Source: Chen and Goodman 1999; Heafield et al. 2013, "Scalable modified Kneser-Ney language model
estimation".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.train.corpus import Corpus

_WORD_BITS = 24  # of a key; the rest holds the number of the n-gram without its last word
# Where counts of counts are 0 or give no discount, as `lmplz --discount_fallback` has it: a type of
# a small vocabulary is never so rare that it has only one word to its left.
_FALLBACK = (0.5, 1.0, 1.5)

Ids = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Text:
    """Sentences one after the other, each with its borders.

    Attributes:
        words: ids, (place,).
        history: how many words of its sentence stand before each place, (place,).
    """

    words: Ids
    history: Ids

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: Vocabulary) -> Text:
        """A corpus in the ids of a vocabulary."""
        words = corpus.ids(vocabulary).astype(np.int32)[corpus.tokens]
        begins = np.repeat(corpus.starts[:-1], np.diff(corpus.starts))
        return cls(words, (np.arange(len(words)) - begins).astype(np.int32))


@dataclass(frozen=True)
class Order:
    """The n-grams of one length, by the numbers 0, 1, ….

    Attributes:
        keys: sorted, (n-gram,): number of the n-gram without its last word, then that word.
            Unigrams are numbered as their words.
        places: a place of the text where each one begins.
        probabilities: of the last word after the others, interpolated.
        left_over: what remains of 1 for the shorter history, once the n-gram is a history itself;
            1 where it never is.
        discounts: for counts of 1, 2, and 3 or more.
    """

    keys: Keys
    places: Ids
    probabilities: Floats
    left_over: Floats
    discounts: tuple[float, float, float]


@dataclass(frozen=True)
class KneserNey:
    """A model: its orders, unigrams first, and what it was counted in."""

    orders: list[Order]
    text: Text
    vocabulary: Vocabulary

    @classmethod
    def count(cls, text: Text, vocabulary: Vocabulary, n: int = 5) -> KneserNey:
        """The model of a text."""
        counted = _counted(text, len(vocabulary), n)
        orders: list[Order] = []
        while counted:
            grams = counted.pop(0)  # not kept, for the sake of memory
            counts = grams.counts
            if counted:
                lefts = np.bincount(counted[0].suffixes, minlength=len(counts))
                begins = text.words[grams.places] == vocabulary.begin
                counts = np.where(begins, counts, lefts)
            if orders:
                orders[-1], order = _interpolated(grams, counts, orders[-1])
            else:
                counts[vocabulary.begin] = 0  # nobody predicts it
                order = _unigrams(grams, counts, vocabulary)
            orders.append(order)
        return cls(orders, text, vocabulary)

    def probabilities(self, text: Text) -> npt.NDArray[np.float64]:
        """The probability of each place after at most n - 1 words of its sentence, (place,); NaN at
        the begin of a sentence."""
        values = self.orders[0].probabilities[text.words].astype(np.float64)
        histories = text.words  # the number of the n-gram that begins at each place, -1 for none
        for n, order in enumerate(self.orders[1:], start=2):
            places = np.flatnonzero(text.history >= n - 1)
            grams = np.full(len(text.words), -1, np.int32)
            begins = places - n + 1
            grams[begins] = _find(order.keys, histories[begins], text.words[places])
            found = grams[begins]
            lesser = values[places]
            # A history that the text lacks leaves the word to the shorter one.
            held = histories[begins]
            left = np.where(held >= 0, self.orders[n - 2].left_over[held], 1.0)
            values[places] = np.where(found >= 0, order.probabilities[found], left * lesser)
            histories = grams
        values[text.history == 0] = np.nan
        return values

    def distribution(self, history: Sequence[int]) -> npt.NDArray[np.float64]:
        """The probability of every type after some words, (type,); that of `<S>` is 0."""
        types = np.arange(len(self.vocabulary), dtype=np.int32)
        length = len(history) + 1
        words = np.empty((len(types), length), np.int32)
        words[:, :-1], words[:, -1] = history, types
        # A border in front, so that no place is taken for the begin of a sentence.
        places = np.tile(np.arange(length, dtype=np.int32), len(types))
        if length == 1:
            return self.orders[0].probabilities.astype(np.float64)
        values = self.probabilities(Text(words.ravel(), places))
        return values.reshape(words.shape)[:, -1]

    def write_arpa(self, path: Path) -> None:
        """Write the model as an ARPA file, `<s>`, `</s>`, `<unk>` in KenLM's spelling."""
        names = list(self.vocabulary.types)
        names[self.vocabulary.begin], names[self.vocabulary.end] = "<s>", "</s>"
        names[self.vocabulary.unknown] = "<unk>"
        with path.open("w", encoding="utf-8") as file:
            file.write("\\data\\\n")
            file.writelines(f"ngram {n}={len(o.keys)}\n" for n, o in enumerate(self.orders, 1))
            for n, order in enumerate(self.orders, start=1):
                file.write(f"\n\\{n}-grams:\n")
                file.writelines(self._lines(n, order, names))
            file.write("\n\\end\\\n")

    def _lines(self, n: int, order: Order, names: list[str]) -> Iterator[str]:
        for begin in range(0, len(order.keys), 1 << 18):
            part = slice(begin, begin + (1 << 18))
            if n == 1:
                words = np.arange(len(names))[part, None]
            else:
                words = self.text.words[order.places[part, None] + np.arange(n)]
            columns = [[names[word] for word in column] for column in words.T.tolist()]
            with np.errstate(divide="ignore"):
                logs = np.clip(np.log10(order.probabilities[part]), -99, 0).tolist()
            if n == len(self.orders):
                for log, *gram in zip(logs, *columns, strict=True):
                    yield f"{log:.7g}\t{' '.join(gram)}\n"
            else:
                lefts = np.log10(order.left_over[part]).tolist()
                for log, left, *gram in zip(logs, lefts, *columns, strict=True):
                    yield f"{log:.7g}\t{' '.join(gram)}\t{left:.7g}\n"


@dataclass(frozen=True)
class _Counted:
    """The n-grams of one length as they stand in a text.

    Attributes:
        keys, places: as of `Order`.
        counts: how often each one stands there.
        suffixes: the number of each one without its first word; empty for unigrams.
    """

    keys: Keys
    places: Ids
    counts: Ids | Keys
    suffixes: Ids


def _counted(text: Text, n_types: int, n: int) -> list[_Counted]:
    """The n-grams of all lengths up to n."""
    places = np.zeros(n_types, np.int32)
    places[text.words] = np.arange(len(text.words))
    counts = np.bincount(text.words, minlength=n_types)
    counted = [_Counted(np.arange(n_types), places, counts, np.empty(0, np.int32))]
    shorter = text.words  # the number of the shorter n-gram that begins at each place
    for k in range(2, n + 1):
        begins = (np.flatnonzero(text.history >= k - 1) - (k - 1)).astype(np.int32)
        keys, numbers = np.unique(
            _key(shorter[begins], text.words[begins + (k - 1)]), return_inverse=True
        )
        places = np.empty(len(keys), np.int32)
        places[numbers] = begins
        counts = np.bincount(numbers, minlength=len(keys)).astype(np.int32)
        counted.append(_Counted(keys, places, counts, shorter[places + 1]))
        shorter = np.full(len(text.words), -1, np.int32)
        shorter[begins] = numbers
    return counted


def _key(shorter: Ids, words: Ids) -> Keys:
    return (shorter.astype(np.int64) << _WORD_BITS) | words


def _find(keys: Keys, shorter: Ids, words: Ids) -> Ids:
    """The numbers of n-grams, -1 where there is none."""
    wanted = np.where(shorter >= 0, _key(shorter, words), -1)
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1).astype(np.int32)


def _discounts(counts: Ids | Keys) -> tuple[float, float, float]:
    """What is taken from counts of 1, 2, and 3 or more."""
    t1, t2, t3, t4 = (int((counts == k).sum()) for k in (1, 2, 3, 4))
    if min(t1, t2, t3, t4) == 0:
        return _FALLBACK
    y = t1 / (t1 + 2 * t2)
    found = 1 - 2 * y * t2 / t1, 2 - 3 * y * t3 / t2, 3 - 4 * y * t4 / t3
    return found if all(0 <= d <= k for k, d in enumerate(found, 1)) else _FALLBACK


def _unigrams(grams: _Counted, counts: Ids | Keys, vocabulary: Vocabulary) -> Order:
    """The order that nothing stands below but the uniform distribution."""
    discounts = _discounts(counts)
    taken = np.array([0.0, *discounts])[np.minimum(counts, 3)]
    total = counts.sum()
    values = (counts - taken) / total + taken.sum() / total / (len(vocabulary) - 1)
    values[vocabulary.begin] = 0
    return _order(grams, values, discounts)


def _interpolated(grams: _Counted, counts: Ids | Keys, lower: Order) -> tuple[Order, Order]:
    """The lower order, with what it leaves over as a history, and this order."""
    discounts = _discounts(counts)
    taken = np.array([0.0, *discounts])[np.minimum(counts, 3)]
    histories = grams.keys >> _WORD_BITS
    n_lower = len(lower.keys)
    totals = np.bincount(histories, counts, n_lower)
    left = np.ones(n_lower)
    np.divide(np.bincount(histories, taken, n_lower), totals, out=left, where=totals > 0)
    values = (counts - taken) / totals[histories]
    values += left[histories] * lower.probabilities[grams.suffixes]
    lower = Order(
        lower.keys, lower.places, lower.probabilities, left.astype(np.float32), lower.discounts
    )
    return lower, _order(grams, values, discounts)


def _order(
    grams: _Counted, values: npt.NDArray[np.float64], discounts: tuple[float, float, float]
) -> Order:
    ones = np.ones(len(grams.keys), np.float32)
    return Order(grams.keys, grams.places, values.astype(np.float32), ones, discounts)
