"""Scores of single tokens: against an oracle in float64, in text order, and as rows of a table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdf5_arrays import read_arrays
from oracle import Oracle, OracleArray

from elmo_cli import LanguageModel, load_language_model
from elmo_cli.errors import InputError, SettingError
from elmo_cli.lm.corpus import Corpus, read_corpus
from elmo_cli.lm.evaluation import score
from elmo_cli.lm.perplexity import ByteModel
from elmo_cli.lm.surprisal import SurprisalTable


@pytest.fixture(scope="module")
def model(golden: Path, tiny: Path) -> LanguageModel:
    parts = {"softmax": golden / "lm/softmax.hdf5", "vocabulary": golden / "lm/vocab.txt"}
    return load_language_model(tiny, **parts)


@pytest.fixture(scope="module")
def sentences(golden: Path, lines: list[list[str]]) -> list[list[str]]:
    """Fifty sentences, with unknown words, other scripts and a single token among them."""
    known = [line.split() for line in (golden / "lm/sentences.txt").read_text().splitlines()]
    return [line for line in [*known, *lines] if line][:50]


class ScoreOracle:
    """Log-likelihoods in float64: section 3.1 of the paper, token by token."""

    def __init__(self, oracle: Oracle, softmax: dict[str, Any], types: list[str]) -> None:
        self.oracle = oracle
        self.weight = softmax["softmax/W"].astype(np.float64)  # (type, projection)
        self.bias = softmax["softmax/b"].astype(np.float64)
        self.ids = {token: number for number, token in enumerate(types)}

    def score(self, tokens: list[str]) -> tuple[list[float], list[float]]:
        """Return log-likelihoods: forward of w1 … wn </S>, backward of <S> w1 … wn."""
        symbols = ["<S>", *tokens, "</S>"]
        forward = self.top_layer(0, symbols)
        backward = self.top_layer(1, symbols[::-1])[::-1]
        n_symbols = len(symbols)
        return (
            [self.log_p(forward[k - 1], symbols[k]) for k in range(1, n_symbols)],
            [self.log_p(backward[k + 1], symbols[k]) for k in range(n_symbols - 1)],
        )

    def top_layer(self, direction: int, symbols: list[str]) -> OracleArray:
        """Outputs of the top layer in reading order, (symbol, projection)."""
        x = np.stack([self.oracle.vector(symbol) for symbol in symbols])
        h, c = self.oracle.zeros()
        for layer in range(self.oracle.lstm["n_layers"]):
            y = self.oracle.direction(direction, layer, x, h[layer, direction], c[layer, direction])
            x = x + y if self.oracle.lstm["use_skip_connections"] and layer > 0 else y
        return x

    def log_p(self, h: OracleArray, symbol: str) -> float:
        logits = self.weight @ h + self.bias
        highest = logits.max()
        normalizer = highest + math.log(np.exp(logits - highest).sum())
        return float(logits[self.ids.get(symbol, self.ids["<UNK>"])] - normalizer)


def test_scores_equal_those_of_an_oracle_in_float64(
    model: LanguageModel,
    sentences: list[list[str]],
    oracle: Callable[[dict[str, Any], Path], Oracle],
    golden: Path,
    tiny: Path,
) -> None:
    assert len(sentences) == 50
    options = json.loads((tiny / "options.json").read_text())
    softmax = read_arrays(golden / "lm/softmax.hdf5")
    types = (golden / "lm/vocab.txt").read_text().split("\n")[:-1]
    expected = ScoreOracle(oracle(options, tiny / "weights.hdf5"), softmax, types)
    for tokens in sentences:
        found = model.score(tokens)
        for values, expected_values in zip(found, expected.score(tokens), strict=True):
            assert values.shape == (len(tokens) + 1,)
            np.testing.assert_allclose(values, expected_values, rtol=2e-6)


def test_scores_of_single_sentences_are_those_of_a_text(
    model: LanguageModel, sentences: list[list[str]]
) -> None:
    """In a text, sentences are scored together with others of other lengths."""
    scores = score(model, Corpus.read(sentences))
    for tokens, in_text in zip(sentences, scores.in_text_order(), strict=True):
        np.testing.assert_allclose(model.score(tuple(tokens)), in_text, rtol=1e-5)


@pytest.mark.parametrize("tokens", [[], ["a", ""], ["\ud800"]])
def test_a_sentence_without_tokens_or_with_bad_ones_is_refused(
    tokens: list[str], model: LanguageModel
) -> None:
    with pytest.raises(InputError):
        model.score(tokens)


def test_a_text_is_no_list_of_tokens(model: LanguageModel) -> None:
    with pytest.raises(TypeError, match="split"):
        model.score("The cat sat .")


def test_a_language_model_describes_itself_in_one_line(model: LanguageModel) -> None:
    assert repr(model) == f"LanguageModel({model.bilm!r}, types={len(model.vocabulary)})"


@pytest.mark.parametrize(("unit", "nats"), [("bits", math.log(2)), ("nats", 1.0)])
def test_rows_by_hand(unit: str, nats: float, model: LanguageModel, tmp_path: Path) -> None:
    """Ids are keys plus one; boundaries have rows; spelling is that of unknown tokens alone."""
    known = model.vocabulary.types[5]
    text = tmp_path / "text"
    text.write_text(f"\n{known} qwxyz\n\n{known}\n")
    corpus = read_corpus([str(text)], keep_lines=True)
    scores = score(model, corpus)
    table = SurprisalTable(scores, unit=unit, has_spelling=True)
    [bits] = ByteModel(model.vocabulary).bits_per_token(["qwxyz"])
    spelled = pytest.approx(bits * math.log(2) / nats)
    forward, backward = model.score([known, "qwxyz"])
    alone_forward, alone_backward = model.score([known])
    shown = [[*row[:3], *row[5:]] for row in table.rows()]
    assert shown == [
        [2, 0, "<S>", 0, 0],
        [2, 1, known, 0, 0],
        [2, 2, "qwxyz", 1, spelled],
        [2, 3, "</S>", 0, 0],
        [4, 0, "<S>", 0, 0],
        [4, 1, known, 0, 0],
        [4, 2, "</S>", 0, 0],
    ]

    def total(log_likelihoods: np.ndarray) -> object:
        return pytest.approx(-log_likelihoods.sum() / nats, rel=1e-5)

    expected = [None, *forward, None, *alone_forward]
    expected_backward = [*backward, None, *alone_backward, None]
    for row, value, backward_value in zip(table.rows(), expected, expected_backward, strict=True):
        for cell, log_likelihood in ((row[3], value), (row[4], backward_value)):
            if log_likelihood is None:
                assert cell is None
            else:
                assert cell == pytest.approx(-log_likelihood / nats, rel=1e-5)
    sums = SurprisalTable(scores, per="sentence", unit=unit, has_spelling=True)
    source = str(text)
    assert list(sums.rows()) == [
        (2, source, 2, 2, 1, total(forward), total(backward), spelled),
        (4, source, 4, 1, 0, total(alone_forward), total(alone_backward), 0),
    ]


@pytest.mark.parametrize("setting", [{"per": "type"}, {"unit": "bytes"}])
def test_unknown_settings_of_a_table_are_refused(
    setting: dict[str, str], model: LanguageModel
) -> None:
    scores = score(model, Corpus.read([["the"]]))
    with pytest.raises(SettingError):
        SurprisalTable(scores, **setting)  # type: ignore[arg-type]
