"""A softmax fitted to a frozen biLM is nearly optimal, and the biLM stays unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_run import SENTENCES

from elmo_cli.lm import softmax as module
from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.domain import Domain
from elmo_cli.lm.language_model import LanguageModel, new_softmax
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.lm.softmax import FittedSoftmax, fit_softmax
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax

CORPUS = Corpus.read(SENTENCES * 4)
DOMAIN = Domain(CORPUS, CORPUS, CORPUS, "sentences", {}, 1.0)
VOCABULARY = CORPUS.vocabulary()
SETTINGS = TrainSettings(batch_size=2, bptt=10, max_epochs=1, dropout=0.0)


def fit(bilm: BiLM, max_tokens: int = 10_000, **settings: Any) -> FittedSoftmax:
    return fit_softmax(bilm, VOCABULARY, DOMAIN, replace(SETTINGS, **settings), max_tokens)


def average(bilm: BiLM, softmax: NextTokenSoftmax) -> float:
    return perplexity(LanguageModel(bilm, softmax, VOCABULARY), CORPUS).average


@pytest.fixture(scope="module")
def unigram(tiny_bilm: BiLM) -> float:
    """The perplexity of the frequencies of the types alone."""
    softmax = new_softmax(CORPUS.predicted_counts(VOCABULARY), 8, seed=0).requires_grad_(False)
    softmax.weight.zero_()
    return average(tiny_bilm, softmax)


def test_fit_is_nearly_optimal(tiny_bilm: BiLM, unigram: float) -> None:
    """A poor fit would make fine-tuning look better than it is."""
    before = [p.clone() for p in tiny_bilm.parameters()]
    fitted = fit(tiny_bilm)
    assert fitted.tokens == CORPUS.n_tokens + CORPUS.n_sentences
    assert all(map(torch.equal, before, tiny_bilm.parameters()))
    # The outputs of made-up weights are small, so the weights of the softmax must grow large.
    assert average(tiny_bilm, fitted.softmax) < 0.45 * unigram
    sampled = fit(tiny_bilm, negative_samples=8)
    assert average(tiny_bilm, sampled.softmax) < 0.65 * unigram


def test_limits_of_a_fit(tiny_bilm: BiLM, unigram: float) -> None:
    """A frozen biLM of the published size reads some hundred tokens a second on a CPU."""
    lines: list[dict[str, Any]] = []
    settings = replace(SETTINGS, max_seconds=1e-9)
    late = fit_softmax(tiny_bilm, VOCABULARY, DOMAIN, settings, 10_000, lines.append)
    assert late.passes == 0
    assert late.tokens in (64 * 7, 32 * 7)  # one batch
    assert average(tiny_bilm, late.softmax) == pytest.approx(unigram, rel=0.05)
    assert [line["fit_pass"] for line in lines] == [0]
    assert fit(tiny_bilm, 150, max_seconds=1e-9).tokens == 147  # whole sentences


def test_best_pass_is_kept_and_the_learning_rate_falls(
    tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_pass, rates, lines = module._Fit.run_pass, list[float](), list[dict[str, Any]]()

    def spied(self: Any, *args: Any) -> None:
        rates.append(self.optimizer.param_groups[0]["lr"])
        run_pass(self, *args)

    monkeypatch.setattr(module._Fit, "run_pass", spied)
    monkeypatch.setattr(module, "_LEARNING_RATE", 1.0)  # so that perplexity rises and falls
    monkeypatch.setattr(module, "_MAX_PASSES", 4)
    found = fit_softmax(tiny_bilm, VOCABULARY, DOMAIN, SETTINGS, 10_000, lines.append)
    averages = [line["heldout"]["average"] for line in lines]
    assert min(averages) < averages[-1]
    assert average(tiny_bilm, found.softmax) == min(averages)
    assert rates[-1] < rates[0] == 1.0
    assert rates == sorted(rates, reverse=True)
