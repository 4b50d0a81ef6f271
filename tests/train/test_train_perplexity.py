"""Perplexity against bilm-tf's own figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.softmax import NextToken
from elmo_cli.text.vocabulary import Vocabulary
from elmo_cli.train.corpus import Corpus
from elmo_cli.train.perplexity import perplexity
from elmo_cli.weightfile.softmax_file import read_softmax


@pytest.fixture(scope="module")
def lm(golden: Path) -> Path:
    return golden / "lm"


@pytest.fixture(scope="module")
def vocabulary(lm: Path) -> Vocabulary:
    return Vocabulary.read(lm / "vocab.txt")


@pytest.fixture(scope="module")
def head(lm: Path, vocabulary: Vocabulary, tiny_bilm: BiLM) -> NextToken:
    projection = tiny_bilm.options.projection
    return read_softmax(lm / "softmax.hdf5", n_types=len(vocabulary), projection=projection)


@pytest.fixture(scope="module")
def corpus(lm: Path) -> Corpus:
    lines = (lm / "sentences.txt").read_text(encoding="utf-8").splitlines()
    return Corpus.read([line.split() for line in lines])


@pytest.fixture(scope="module")
def expected(lm: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((lm / "expected.json").read_text())
    return content


@pytest.mark.parametrize(("carry", "key"), [(False, "zero_state"), (True, "carried")])
def test_figures_are_those_of_bilm_tf(
    carry: bool,
    key: str,
    tiny_bilm: BiLM,
    head: NextToken,
    vocabulary: Vocabulary,
    corpus: Corpus,
    expected: dict[str, Any],
) -> None:
    """Without it perplexities could not be compared with published ones."""
    found = perplexity(tiny_bilm, head, vocabulary, corpus, carry=carry)
    assert found.forward == pytest.approx(expected[key]["perplexity_forward"], rel=1e-6)
    assert found.backward == pytest.approx(expected[key]["perplexity_backward"], rel=1e-6)
    assert found.average == pytest.approx(expected[key]["perplexity"], rel=1e-6)
    assert found.predictions == corpus.n_tokens + corpus.n_sentences == 294


def test_unknown_tokens_are_counted(
    tiny_bilm: BiLM, head: NextToken, vocabulary: Vocabulary, corpus: Corpus, lm: Path
) -> None:
    """A perplexity means little without the share of <UNK> in it."""
    tokens = (lm / "sentences.txt").read_text(encoding="utf-8").split()
    share = np.mean([token not in vocabulary.types for token in tokens])
    found = perplexity(tiny_bilm, head, vocabulary, corpus)
    assert found.unknown == pytest.approx(share)


def test_rows_cut_a_carried_text_at_sentences(
    tiny_bilm: BiLM, head: NextToken, vocabulary: Vocabulary, corpus: Corpus
) -> None:
    """Each prediction counts once, in any number of rows; a row a sentence is the zero state."""
    some = perplexity(tiny_bilm, head, vocabulary, corpus, carry=True, n_rows=4)
    assert some.predictions == 294
    each = perplexity(tiny_bilm, head, vocabulary, corpus, carry=True, n_rows=10_000)
    zero = perplexity(tiny_bilm, head, vocabulary, corpus)
    assert each.average == pytest.approx(zero.average, rel=1e-6)
    assert some.average != pytest.approx(zero.average, rel=1e-3)
