"""A softmax fitted to a frozen biLM: about as good as can be, and the biLM stays as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_run import SENTENCES

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.evaluation import length_sorted, top_layer_outputs
from elmo_cli.lm.fit_head import Fit, fit_head
from elmo_cli.lm.forward import type_vectors
from elmo_cli.lm.initialize import new_softmax
from elmo_cli.lm.language_model import LanguageModel
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.state import State

CORPUS = Corpus.read(SENTENCES * 4)
VOCABULARY = CORPUS.vocabulary()
SETTINGS = TrainSettings(batch_size=2, bptt=10, max_epochs=1, dropout=0.0)


def fitted(bilm: BiLM, settings: TrainSettings = SETTINGS, **limits: Any) -> Fit:
    limits = {"max_tokens": 10_000, **limits}
    return fit_head(bilm, VOCABULARY, CORPUS, CORPUS, settings, **limits)


def average(bilm: BiLM, fit: Fit) -> float:
    return perplexity(LanguageModel(bilm, fit.head, VOCABULARY), CORPUS).average


@pytest.fixture(scope="module")
def unigram(tiny_bilm: BiLM) -> float:
    """What the shares of the types alone give."""
    head = new_softmax(CORPUS.predicted_counts(VOCABULARY), 8, seed=0).requires_grad_(False)
    head.weight.zero_()
    return perplexity(LanguageModel(tiny_bilm, head, VOCABULARY), CORPUS).average


def test_a_fit_is_nearly_the_best_there_is(tiny_bilm: BiLM, unigram: float) -> None:
    """An ill-fitted softmax would make fine-tuning look better than it is."""
    before = [p.clone() for p in tiny_bilm.parameters()]
    fit = fitted(tiny_bilm)
    assert fit.tokens == CORPUS.n_tokens + CORPUS.n_sentences
    for one, other in zip(before, tiny_bilm.parameters(), strict=True):
        assert torch.equal(one, other)
    best = perplexity(LanguageModel(tiny_bilm, long_fitted(tiny_bilm), VOCABULARY), CORPUS).average
    assert best < 0.4 * unigram
    # The outputs of made-up weights are small, and those of a softmax must become very large.
    assert average(tiny_bilm, fit) < 1.5 * best


def long_fitted(bilm: BiLM) -> NextTokenSoftmax:
    """A softmax that has learned from each sentence by itself, as it is measured, for long."""
    head = new_softmax(CORPUS.predicted_counts(VOCABULARY), 8, seed=0)
    table = type_vectors(bilm.char_cnn, CORPUS.characters)
    [schedule] = length_sorted(CORPUS, CORPUS.n_sentences)
    zeros = State.zeros(bilm.options, 1)
    with torch.no_grad():
        [(_, predicted, top)] = top_layer_outputs(bilm, table, CORPUS, schedule, zeros)
    h, targets = top.flatten(0, 2), torch.from_numpy(CORPUS.ids(VOCABULARY))[predicted.flatten()]
    adam = torch.optim.Adam(head.parameters(), lr=0.1)
    for _ in range(120):
        adam.zero_grad()
        (-head(h, targets).mean()).backward()
        adam.step()
    return head


def test_a_sampled_fit_goes_the_same_way(tiny_bilm: BiLM, unigram: float) -> None:
    """Large vocabularies are fitted with negatives, and measured with all types."""
    sampled = fitted(tiny_bilm, replace(SETTINGS, negative_samples=8))
    assert average(tiny_bilm, sampled) < 0.65 * unigram


def test_limits_of_a_fit(tiny_bilm: BiLM, unigram: float) -> None:
    """Frozen biLMs of the published size read some hundred tokens a second on a CPU."""
    lines: list[dict[str, Any]] = []
    late = fitted(tiny_bilm, max_seconds=1e-9, report=lines.append)
    assert late.passes == 0
    assert late.tokens in (64 * 7, 32 * 7)  # one batch
    assert average(tiny_bilm, late) == pytest.approx(unigram, rel=0.05)
    assert [line["fit_pass"] for line in lines] == [0]
    assert fitted(tiny_bilm, max_tokens=100).tokens == 98  # whole sentences
