"""Perplexity against bilm-tf's own figures, prediction by prediction, and bits per byte."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from elmo_cli.errors import UsageError, WeightFileError
from elmo_cli.lm import evaluation
from elmo_cli.lm.corpus import Corpus, read_corpus
from elmo_cli.lm.evaluation import exp_or_inf, score
from elmo_cli.lm.language_model import LanguageModel, load_language_model
from elmo_cli.lm.perplexity import ByteModel, perplexity, perplexity_of
from elmo_cli.lm.stream import BACKWARD, FORWARD
from elmo_cli.model.bilm import State
from elmo_cli.text.vocabulary import SPECIALS, Vocabulary


@pytest.fixture(scope="module")
def model(golden: Path, tiny: Path) -> LanguageModel:
    parts = {"softmax": golden / "lm/softmax.hdf5", "vocabulary": golden / "lm/vocab.txt"}
    return load_language_model(tiny, **parts)


@pytest.fixture(scope="module")
def corpus(golden: Path) -> Corpus:
    return read_corpus([str(golden / "lm/sentences.txt")])


@pytest.fixture(scope="module")
def expected(golden: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((golden / "lm/expected.json").read_text())
    return content


@pytest.mark.parametrize(
    ("carry", "key", "types_at_once"),
    [(False, "zero_state", 1024), (True, "carried", 1024), (False, "zero_state", 6)],
)
def test_predictions_and_perplexities_equal_those_of_bilm_tf(
    carry: bool,
    key: str,
    types_at_once: int,
    model: LanguageModel,
    corpus: Corpus,
    expected: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the softmax in one piece, and in pieces of which the last is shorter."""
    assert len(model.vocabulary) % 6
    monkeypatch.setattr(evaluation, "_TYPES_AT_ONCE", {"cpu": types_at_once})
    monkeypatch.setattr(evaluation, "_PREDICTIONS_AT_ONCE", types_at_once + 1)
    figures = expected[key]
    scores = score(model, corpus, carry=carry)
    forward = np.concatenate(figures["forward_ll"])
    backward = np.concatenate(figures["backward_ll_reading_order"])
    np.testing.assert_allclose(scores.values, [forward, backward], rtol=0, atol=1e-5)
    total = perplexity_of(scores)
    assert total.forward == pytest.approx(figures["perplexity_forward"], rel=1e-6)
    assert total.backward == pytest.approx(figures["perplexity_backward"], rel=1e-6)
    assert total.average == pytest.approx(figures["perplexity"], rel=1e-6)
    assert total.predictions == corpus.n_predictions == 294
    assert total.not_scored == 0


def test_four_streams_equal_a_batch_of_bilm_tf(
    model: LanguageModel, corpus: Corpus, expected: dict[str, Any]
) -> None:
    """Streams take sentences as they end, and what follows the first empty one is not scored."""
    batch = expected["bilm_tf_float64"]["stream_batch4"]
    scores = score(model, corpus, carry=True, batch_size=4)
    pairs = np.asarray(batch["rows"])[:, :, 0]  # sentence and prediction: (step, stream, 2)
    positions = corpus.prediction_starts[pairs[..., 0]] + pairs[..., 1]
    for direction, name in ((FORWARD, "forward"), (BACKWARD, "backward")):
        losses = -scores.values[direction][positions].mean(1)
        np.testing.assert_allclose(losses, batch[f"{name}_loss"], rtol=0, atol=1e-5)
        ids = corpus.ids(model.vocabulary)[scores.targets(direction)]
        assert np.array_equal(ids[positions], batch[f"{name}_targets"])
    total = perplexity_of(scores)
    average = expected["bilm_tf_float64"]["test_perplexity_batch4"]
    assert total.average == pytest.approx(average, rel=1e-6)
    assert (total.predictions, total.not_scored) == (272, 22)
    not_scored = np.setdiff1d(np.arange(294), positions)
    assert np.array_equal(np.flatnonzero(~scores.is_scored), not_scored)


def test_each_stream_needs_a_sentence(
    model: LanguageModel, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first step of the empty one would be the end of all others.

    It is refused before the streams are made: a billion of them would take all memory.
    """
    assert score(model, corpus, carry=True, batch_size=30).is_scored.any()
    monkeypatch.setattr(evaluation, "carried_schedule", lambda *_: pytest.fail("streams are made"))
    with pytest.raises(UsageError, match="the text has 30 sentences, and nothing is left") as it:
        score(model, corpus, carry=True, batch_size=31)
    assert it.value.where == "`batch_size=31`"


def test_a_perplexity_that_no_number_holds_is_infinite() -> None:
    """After divergence, where the log has it before the error."""
    assert exp_or_inf(1.0) == math.e
    assert exp_or_inf(1e4) == math.inf


def test_any_initial_state_is_that_of_the_model(
    model: LanguageModel, corpus: Corpus, seed: int
) -> None:
    """A state that reaches the wrong direction or layer would only look like a worse model."""
    bilm = model.bilm
    zeros = State.zeros(bilm.options, 1)
    initial = State(torch.randn_like(zeros.h), torch.randn_like(zeros.c))
    scores = score(model, corpus, initial_state=initial)
    size = bilm.options.projection_dim
    vocabulary = torch.from_numpy(corpus.ids(model.vocabulary))
    for k in (0, 7, 29):
        numbers = corpus.tokens[corpus.starts[k] : corpus.starts[k + 1]]
        ids = torch.from_numpy(corpus.characters[numbers].astype(np.int64)).unsqueeze(0)
        wanted = vocabulary[numbers]
        length = torch.tensor([len(numbers) - 1])  # the last symbol is only predicted
        ahead = bilm(ids[:, :-1], length, initial)[0][-1, 0, :, :size]
        back = bilm(ids[:, 1:], length, initial)[0][-1, 0, :, size:]
        first, end = corpus.prediction_starts[k : k + 2]
        forward = model.softmax(ahead, wanted[1:])
        backward = model.softmax(back, wanted[:-1]).flip(0)
        expected = torch.stack([forward, backward])
        np.testing.assert_allclose(scores.values[:, first:end], expected, atol=1e-5)


def test_sentence_scores_sum_to_the_text(
    model: LanguageModel, corpus: Corpus, expected: dict[str, Any]
) -> None:
    in_streams = list(score(model, corpus, carry=True, batch_size=4).sentences())
    assert sum(sentence.predictions for sentence in in_streams) == 272
    is_cut = [sentence.predictions != sentence.tokens + 1 for sentence in in_streams]
    assert any(is_cut)  # by the end of a stream
    whole = list(score(model, corpus).sentences())
    assert [sentence.number for sentence in whole] == list(range(corpus.n_sentences))
    for sentence, ll in zip(whole, expected["zero_state"]["forward_ll"], strict=True):
        assert sentence.predictions == sentence.tokens + 1 == len(ll)
        assert sentence.forward == pytest.approx(sum(ll), abs=1e-4)
        nll = -(sentence.forward + sentence.backward) / (2 * len(ll))
        assert sentence.perplexity == pytest.approx(math.exp(nll), rel=1e-12)
    is_unknown = np.asarray([token not in model.vocabulary.types for token in corpus.types])
    unknown = np.add.reduceat(is_unknown[corpus.tokens], corpus.starts[:-1], dtype=int).tolist()
    assert [sentence.unknown for sentence in whole] == unknown
    assert max(unknown) > 1
    fraction = sum(unknown) / corpus.n_tokens
    assert perplexity(model, corpus).unknown_fraction == pytest.approx(fraction)


def test_a_long_sentence_keeps_its_state(model: LanguageModel, corpus: Corpus) -> None:
    """It is read in several windows; a state lost between them would show nowhere else."""
    tokens = [corpus.types[n] for n in corpus.tokens if n > 1]
    text = Corpus.read([tokens, tokens[:1]])
    assert text.n_tokens > 200
    alone = score(model, text, carry=False)
    together = score(model, text, carry=True)
    # Without the second sentence, which starts from another state.
    expected = together.values[:, :-2]
    np.testing.assert_allclose(alone.values[:, :-2], expected, rtol=0, atol=1e-5)


def test_what_sentences_begin_with_in_common_is_multiplied_once(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward the beginnings "", "the" and "the old" of both sentences, backward the ends."""
    n_rows = []
    linear = evaluation.functional.linear

    def counted(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        if len(bias) == len(model.vocabulary):
            n_rows.append(len(rows))
        return linear(rows, weight, bias)

    monkeypatch.setattr(evaluation.functional, "linear", counted)
    scores = score(model, Corpus.read([["the", "old", "fox", "."], ["the", "old", "dog", "."]]))
    assert n_rows == [3 + 2 * 2, 2 + 2 * 3]
    monkeypatch.setattr(evaluation, "_distinct_rows", lambda h: (h, torch.arange(len(h))))
    all_rows = score(model, scores.corpus)
    assert n_rows[2:] == [10, 10]
    np.testing.assert_allclose(scores.values, all_rows.values, rtol=1e-6)


def test_a_prediction_without_likelihood_is_refused(model: LanguageModel, corpus: Corpus) -> None:
    """NaN marks what was not scored: a corrupt softmax must not hide there."""
    corrupt = copy.deepcopy(model.softmax)
    with torch.no_grad():
        corrupt.weight.mul_(3e38)
    with pytest.raises(WeightFileError, match="too large for float32"):
        score(LanguageModel(model.bilm, corrupt, model.vocabulary), corpus)


END = -1


class SlowByteModel:
    """Witten-Bell interpolation as in the docstring of `ByteModel`, symbol by symbol."""

    def __init__(self, types: list[str]) -> None:
        self.after: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for symbols in map(self.symbols, types):
            for i in range(3, len(symbols)):
                for order in range(4):
                    self.after[tuple(symbols[i - order : i])][symbols[i]] += 1

    @staticmethod
    def symbols(token: str) -> list[int]:
        return [END, END, END, *token.encode(), END]

    def p(self, context: tuple[int, ...], symbol: int) -> float:
        shorter = self.p(context[1:], symbol) if context else 1 / 257
        seen = self.after.get(context)
        if not seen:
            return shorter
        return (seen[symbol] + len(seen) * shorter) / (seen.total() + len(seen))

    def bits(self, token: str) -> float:
        symbols = self.symbols(token)
        bits = 0.0
        for i in range(3, len(symbols)):
            context = tuple(symbols[i - 3 : i])
            bits -= math.log2(self.p(context, symbols[i]))
        return bits


def test_spelling_equals_the_slow_byte_model() -> None:
    types = ["the", "that", "this", "a", "the's", "naïve", "日本", "x" * 70, "th"]
    slow = SlowByteModel(types)
    for context in ((), (116,), (END, END, END), (END, 116, 104), (1, 2, 3)):
        assert sum(slow.p(context, symbol) for symbol in (END, *range(256))) == pytest.approx(1)
    tokens = ["the", "thats", "日", "q", "Это", "x" * 71, "\0"]
    bits = ByteModel(Vocabulary([*SPECIALS, *types])).bits_per_token(tokens)
    np.testing.assert_allclose(bits, [slow.bits(token) for token in tokens], rtol=1e-12)
    uniform = ByteModel(Vocabulary(SPECIALS)).bits_per_token(["ab", "c"])
    np.testing.assert_allclose(uniform, [3 * math.log2(257), 2 * math.log2(257)])
    assert ByteModel(Vocabulary([*SPECIALS, "a"])).bits_per_token([]).shape == (0,)


def test_bits_are_those_of_likelihood_and_spelling() -> None:
    bundled = load_language_model()
    corpus = Corpus.read([["The", "cat", "qwxyzzy", "sat", "."], ["qwxyzzy", "!"]])
    result = perplexity(bundled, corpus)
    [spelled] = ByteModel(bundled.vocabulary).bits_per_token(["qwxyzzy"])
    n_bytes = len("The cat qwxyzzy sat .\nqwxyzzy !\n")
    assert result.unknown_fraction == pytest.approx(2 / 7)
    bits = result.bits_per_byte
    assert bits.spelling == pytest.approx(2 * spelled / n_bytes)
    for name in ("forward", "backward", "average"):
        predicted = 9 * math.log2(getattr(result, name)) / n_bytes
        assert getattr(bits, name) == pytest.approx(predicted + bits.spelling)


@pytest.mark.parametrize("carry", [False, True])
def test_progress_counts_what_is_scored(model: LanguageModel, corpus: Corpus, carry: bool) -> None:
    """Else a display would pass 100 %."""
    counts: list[int] = []
    batch_size = 4 if carry else 1
    scores = score(model, corpus, carry=carry, batch_size=batch_size, on_progress=counts.append)
    assert sum(counts) == scores.is_scored.sum()
