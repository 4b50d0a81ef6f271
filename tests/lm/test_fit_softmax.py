"""A softmax fitted to a frozen biLM is nearly optimal, and the biLM stays unchanged."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from tiny_run import SENTENCES

from elmo_cli.lm.corpus import Corpus
from elmo_cli.lm.finetune import fit_softmax as module
from elmo_cli.lm.finetune.domain import Domain
from elmo_cli.lm.finetune.fit_softmax import fit_softmax
from elmo_cli.lm.language_model import LanguageModel, new_softmax
from elmo_cli.lm.perplexity import perplexity
from elmo_cli.lm.settings import TrainSettings
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax

CORPUS = Corpus.read(SENTENCES * 4)
DOMAIN = Domain(
    train=CORPUS, validation=CORPUS, test=CORPUS, unit="sentences", sources={}, overlap=1.0
)
VOCABULARY = CORPUS.vocabulary()
SETTINGS = TrainSettings(batch_size=2, bptt=10, max_epochs=1, dropout=0.0)


def fit(
    bilm: BiLM, max_tokens: int = 10_000, **settings: Any
) -> tuple[NextTokenSoftmax, list[dict[str, Any]]]:
    """The softmax, and what is reported after each pass."""
    lines: list[dict[str, Any]] = []
    softmax = fit_softmax(
        bilm,
        VOCABULARY,
        DOMAIN,
        replace(SETTINGS, **settings),
        max_tokens,
        report=lines.append,
    )
    return softmax, lines


def average(bilm: BiLM, softmax: NextTokenSoftmax) -> float:
    return perplexity(LanguageModel(bilm, softmax, VOCABULARY), CORPUS).average


@pytest.fixture(scope="module")
def unigram(tiny_bilm: BiLM) -> float:
    """The perplexity of the frequencies of the types alone."""
    softmax = new_softmax(CORPUS.predicted_counts(VOCABULARY), 8, seed=0).requires_grad_(False)
    softmax.weight.zero_()
    return average(tiny_bilm, softmax)


def test_fit_is_nearly_optimal(
    tiny_bilm: BiLM, unigram: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A poor fit would make fine-tuning look better than it is."""
    before = [p.clone() for p in tiny_bilm.parameters()]
    fitted, lines = fit(tiny_bilm)
    assert lines[-1]["tokens"] == CORPUS.n_tokens + CORPUS.n_sentences
    assert [line["fit_pass"] for line in lines] == list(range(len(lines)))
    averages = [line["heldout"]["average"] for line in lines]
    gains = [1 - averages[k] / min(averages[:k]) for k in range(1, len(averages))]
    assert len(gains) < 20  # the two last passes in a row that gained little ended it
    gained_little = [gain < 0.005 for gain in gains]
    assert gained_little[-2:] == [True, True]
    assert not any(first and second for first, second in pairwise(gained_little[:-1]))
    assert all(map(torch.equal, before, tiny_bilm.parameters()))
    # The outputs of made-up weights are small, so the weights of the softmax must grow large.
    assert average(tiny_bilm, fitted) < 0.45 * unigram
    monkeypatch.setattr(module, "_MAX_PASSES", 12)  # a pass with samples takes longer
    sampled, _ = fit(tiny_bilm, negative_samples=8)
    assert average(tiny_bilm, sampled) < 0.65 * unigram


def test_tokens_limit_a_fit(tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen biLM of the published size reads some hundred tokens a second on a CPU."""
    monkeypatch.setattr(module, "_MAX_PASSES", 1)
    _, lines = fit(tiny_bilm, 150)
    assert {line["tokens"] for line in lines} == {147}  # whole sentences
    _, lines = fit(tiny_bilm, 1)
    assert {line["tokens"] for line in lines} == {7}  # at least one
    monkeypatch.setattr(module, "_MAX_BYTES", 150 * 2 * 8 * 2)  # of float16 in both directions
    _, lines = fit(tiny_bilm)
    assert {line["tokens"] for line in lines} == {147}


def test_best_pass_is_kept_and_the_learning_rate_falls(
    tiny_bilm: BiLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_pass = module._SoftmaxFit.run_pass
    rates = list[float]()

    def spied(self: Any, *args: Any) -> None:
        rates.append(self.optimizer.param_groups[0]["lr"])
        run_pass(self, *args)

    monkeypatch.setattr(module._SoftmaxFit, "run_pass", spied)
    monkeypatch.setattr(module, "_LEARNING_RATE", 4.0)  # so that perplexity rises and falls
    monkeypatch.setattr(module, "_MAX_PASSES", 4)
    fitted, lines = fit(tiny_bilm)
    averages = [line["heldout"]["average"] for line in lines]
    assert min(averages) < averages[-1]
    assert average(tiny_bilm, fitted) == min(averages)
    assert rates[-1] < rates[0] == 4.0
    assert rates == sorted(rates, reverse=True)
