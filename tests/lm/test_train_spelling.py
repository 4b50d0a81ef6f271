"""Bits per byte: what `<UNK>` leaves unsaid is charged."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.language_model import load_language_model
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.spelling import Speller, byte_counts
from elmo_cli.model.bilm import NextTokenSoftmax
from elmo_cli.text.vocabulary import SPECIALS, Vocabulary

TYPES = ["the", "that", "this", "a", "the's", "naïve", "日本", "x" * 70, "th"]
END = -1


class Slow:
    """Witten and Bell's interpolation, as the docstring of `Speller` has it, symbol by symbol."""

    def __init__(self, types: list[str]) -> None:
        self.after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for token in types:
            symbols = [END, END, END, *token.encode(), END]
            for i in range(3, len(symbols)):
                for order in range(4):
                    self.after[tuple(symbols[i - order : i])][symbols[i]] += 1

    def p(self, context: tuple[int, ...], symbol: int) -> float:
        shorter = self.p(context[1:], symbol) if context else 1 / 257
        seen = self.after.get(context)
        if not seen:
            return shorter
        return (seen[symbol] + len(seen) * shorter) / (seen.total() + len(seen))

    def bits(self, token: str) -> float:
        symbols = [END, END, END, *token.encode(), END]
        return -sum(
            math.log2(self.p(tuple(symbols[i - 3 : i]), symbols[i])) for i in range(3, len(symbols))
        )


def test_a_spelling_costs_what_the_byte_model_says() -> None:
    """Without it the figure would rest on counts that nobody has looked at."""
    slow = Slow(TYPES)
    for context in ((), (116,), (END, END, END), (END, 116, 104), (1, 2, 3)):
        assert sum(slow.p(context, symbol) for symbol in (END, *range(256))) == pytest.approx(1)
    tokens = ["the", "thats", "日", "q", "Это", "x" * 71, "\0"]
    found = Speller(Vocabulary([*SPECIALS, *TYPES])).bits(tokens)
    np.testing.assert_allclose(found, [slow.bits(token) for token in tokens], rtol=1e-12)


def test_nothing_known_costs_a_byte_a_byte() -> None:
    """Without types to learn from all 257 symbols are alike."""
    found = Speller(Vocabulary(SPECIALS)).bits(["ab", "c"])
    np.testing.assert_allclose(found, [3 * math.log2(257), 2 * math.log2(257)])
    assert Speller(Vocabulary([*SPECIALS, "a"])).bits([]).shape == (0,)


def test_bytes_are_those_of_the_file(golden: Path) -> None:
    """Without it the figure would not be one of bits per byte of the text."""
    path = golden / "lm" / "sentences.txt"
    tokens = path.read_text(encoding="utf-8").split()
    assert byte_counts(tokens).sum() == path.stat().st_size


def test_a_small_vocabulary_wins_nothing() -> None:
    """The perplexity of the same model falls when rare types become <UNK>; bits per byte rise."""
    model = load_language_model()
    sample = Path(__file__).parents[2] / "docs" / "sample.txt"
    lines = sample.read_text(encoding="utf-8").splitlines()[:12]
    corpus = Corpus.read([line.split() for line in lines])
    found = []
    for n_types in (len(model.vocabulary), 2000, 100):
        head = NextTokenSoftmax(n_types, model.bilm.options.projection_dim)
        with torch.no_grad():
            head.weight.copy_(model.softmax.weight[:n_types])
            head.bias.copy_(model.softmax.bias[:n_types])
        vocabulary = Vocabulary(model.vocabulary.types[:n_types])
        found.append(perplexity(model.bilm, head, vocabulary, corpus))
    whole, middle, small = found
    assert whole.unknown_fraction < middle.unknown_fraction < small.unknown_fraction
    assert whole.average > middle.average > small.average
    assert whole.bits_per_byte.average < middle.bits_per_byte.average
    assert middle.bits_per_byte.average < small.bits_per_byte.average


def test_the_bits_are_those_of_likelihood_and_spelling() -> None:
    """The figure from its parts: -log2 of the mean likelihood, and the spellings."""
    model = load_language_model()
    corpus = Corpus.read([["The", "cat", "qwxyzzy", "sat", "."], ["qwxyzzy", "!"]])
    found = perplexity(model.bilm, model.softmax, model.vocabulary, corpus)
    (spelled,) = Speller(model.vocabulary).bits(["qwxyzzy"])
    n_bytes = len("The cat qwxyzzy sat .\nqwxyzzy !\n")
    assert found.unknown_fraction == pytest.approx(2 / 7)
    bits = found.bits_per_byte
    assert bits.spelling == pytest.approx(2 * spelled / n_bytes)
    for name in ("forward", "backward", "average"):
        predicted = 9 * math.log2(getattr(found, name)) / n_bytes
        assert getattr(bits, name) == pytest.approx(predicted + bits.spelling)
