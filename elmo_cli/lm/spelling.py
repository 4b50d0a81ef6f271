"""Spelling: what it costs to write down the token that `<UNK>` stands for.

A perplexity counts the prediction of `<UNK>` and not which token it was, so a model that knows few
types looks good. Bits per byte charge the rest: the bits of the token's spelling under a byte model
that is counted in the vocabulary alone. It has seen nothing of the text, it knows the language of
the model, and together with the biLM it gives every text a probability. A small vocabulary wins
nothing: it has more to spell and knows fewer spellings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from elmo_cli.text.vocabulary import SPECIALS, Vocabulary

_ORDER = 3  # bytes that the next one is predicted from
_BORDER = 256  # what stands before a token (_ORDER times) and after it
_N_SYMBOLS = 257

Keys = npt.NDArray[np.int64]


class Speller:
    """The probability of a token's bytes, one after the other, and of its end.

    A byte is predicted from the three before it, by Witten and Bell's interpolation: with n the
    count of a byte after a context, N that of the context and T the number of different bytes seen
    after it, p = (n + T p') / (N + T), where p' is the same for a context shorter by one; before
    the empty context all 257 symbols are alike. Each type of the vocabulary is counted once,
    without `<S>`, `</S>` and `<UNK>`. Nothing is taken back for the types that the vocabulary has
    and that are never spelled, so the figure is a little too high.

    Source: Witten and Bell 1991, method C.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        spelled = _Spelled([token for token in vocabulary.types if token not in SPECIALS])
        self._counts = [_Counts(spelled.keys(k)) for k in range(_ORDER + 1)]

    def bits(self, tokens: Sequence[str]) -> npt.NDArray[np.float64]:
        """The bits of each token with its end, (token,)."""
        spelled = _Spelled(tokens)
        p = np.full(len(spelled.owners), 1 / _N_SYMBOLS)
        for k, counts in enumerate(self._counts):
            n, n_context, n_kinds = counts.of(spelled.keys(k))
            known = n_context > 0
            p[known] = ((n + n_kinds * p) / np.maximum(n_context + n_kinds, 1))[known]
        bits = np.zeros(len(tokens))
        np.add.at(bits, spelled.owners, -np.log2(p))
        return bits


def byte_counts(tokens: Sequence[str]) -> npt.NDArray[np.int64]:
    """Bytes of each token in UTF-8, with the one that parts it from the next, (token,)."""
    return np.asarray([len(_bytes(token)) + 1 for token in tokens], np.int64)


def _bytes(token: str) -> bytes:
    return token.encode("utf-8", "surrogatepass")


class _Spelled:
    """Tokens as one run of symbols, borders around each.

    Attributes:
        owners: the token that each prediction belongs to, (prediction,).
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        before = b"\0" * _ORDER
        joined = b"".join(before + _bytes(token) + b"\0" for token in tokens)
        self._symbols = np.frombuffer(joined, np.uint8).astype(np.int64)
        lengths = byte_counts(tokens)
        self.owners = np.repeat(np.arange(len(tokens)), lengths)
        self._places = np.arange(len(self.owners)) + _ORDER * (self.owners + 1)
        is_border = np.ones(len(self._symbols), bool)
        is_border[self._places] = False
        is_border[np.cumsum(lengths + _ORDER) - 1] = True
        self._symbols[is_border] = _BORDER

    def keys(self, order: int) -> Keys:
        """A number for each prediction: the `order` symbols before it, then itself."""
        keys = np.zeros(len(self._places), np.int64)
        for k in range(order, -1, -1):
            keys = keys * _N_SYMBOLS + self._symbols[self._places - k]
        return keys


class _Counts:
    """How often each symbol stands after each context of one length."""

    def __init__(self, keys: Keys) -> None:
        self._keys, self._n = np.unique(keys, return_counts=True)
        self._contexts, first = np.unique(self._keys // _N_SYMBOLS, return_index=True)
        self._n_context = np.add.reduceat(self._n, first) if len(first) else self._n
        self._n_kinds = np.diff([*first, len(self._keys)])

    def of(self, keys: Keys) -> tuple[Keys, Keys, Keys]:
        """For each key: its count, that of its context, the different symbols after that."""
        contexts = keys // _N_SYMBOLS
        return (
            _looked_up(self._keys, self._n, keys),
            _looked_up(self._contexts, self._n_context, contexts),
            _looked_up(self._contexts, self._n_kinds, contexts),
        )


def _looked_up(names: Keys, values: Keys, wanted: Keys) -> Keys:
    """The value of each name, 0 for one that is not there."""
    if not len(names):
        return np.zeros(len(wanted), np.int64)
    place = np.minimum(np.searchsorted(names, wanted), len(names) - 1)
    return np.where(names[place] == wanted, values[place], 0)
