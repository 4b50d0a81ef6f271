"""The probe compared with its training loop in float64; weight decay; baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from probe_files import zeros
from softmax_regression import train_weights

from elmo_cli.analysis import linear
from elmo_cli.analysis.linear import (
    WEIGHT_DECAYS,
    Accuracy,
    ProbeResult,
    majority_labels,
    probe,
    standardise,
)
from elmo_cli.analysis.probe_data import UNKNOWN_LABEL, ProbeData


@pytest.mark.parametrize("decay", [WEIGHT_DECAYS[0], WEIGHT_DECAYS[-1]])
def test_weights_equal_reference_in_float64(data: ProbeData, decay: float) -> None:
    """Another optimizer or other batches would change published figures."""
    vectors = data.vectors(1)
    targets = data.targets["train"]
    train = vectors["train"].astype(np.float64)
    expected = train_weights((train - train.mean(0)) / train.std(0), targets, 3, decay)
    standardise(vectors)
    scaled = torch.from_numpy(vectors["train"])
    weights = linear.fit(scaled, torch.from_numpy(targets), 3, decay)
    np.testing.assert_allclose(weights.numpy(), expected, atol=2e-4)


@pytest.mark.parametrize(
    ("on_dev", "chosen", "n_tried"),
    [
        ((50, 70, 70, 60, 65, 90), 1e-3, 5),  # the largest of equally good ones; two are worse
        ((50, 70, 60, 80, 70, 70), 1e-5, 6),  # one that is worse does not end the search
        ((70, 60, 70, 60, 70, 90), 1e-7, 6),  # nor two that are not in a row
        ((90, 80, 70, 95, 95, 95), 1e-2, 3),
    ],
)
def test_weight_decay_is_selected_on_dev(
    on_dev: tuple[float, ...],
    chosen: float,
    n_tried: int,
    data: ProbeData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not on test; smaller ones are tried until two in a row are worse on dev."""
    decays = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
    tried: list[float] = []

    def fit(*arguments: Any, advance: Any, **options: Any) -> torch.Tensor:
        tried.append(arguments[3])
        advance(linear.EPOCHS)
        return torch.zeros(9, 3)

    def accuracy(*predicted: object) -> Accuracy:
        return Accuracy(on_dev[len(tried) - 1], 100 - len(tried), None)

    monkeypatch.setattr(linear, "WEIGHT_DECAYS", decays)
    monkeypatch.setattr(linear, "fit", fit)
    monkeypatch.setattr(linear, "accuracy", accuracy)
    epochs: list[float] = []
    result = probe(data.vectors(0), data, advance=epochs.append)
    assert tried == list(decays[:n_tried])
    n_chosen = decays.index(chosen) + 1
    edges = {1e-2: "largest", 1e-7: "smallest"}
    assert result == ProbeResult(
        dev=on_dev[n_chosen - 1],
        test=100 - n_chosen,
        unseen_words=None,
        weight_decay=chosen,
        weight_decay_edge=edges.get(chosen),
    )
    assert sum(epochs) == linear.EPOCHS * len(decays)  # with those that are left out


def test_weight_decays_are_tried_from_the_largest_down() -> None:
    assert list(WEIGHT_DECAYS) == sorted(WEIGHT_DECAYS, reverse=True)


def test_vectors_are_standardised_by_train_in_place() -> None:
    rng = np.random.default_rng(1)
    train = (rng.standard_normal((500, 100)) * 4 + 2).astype(np.float32)
    train[:, 3] = 2
    test = (rng.standard_normal((9, 100)) + 1).astype(np.float32)
    mean = train.mean(0)
    deviation = train.std(0)
    expected = (test - mean) * (1 / np.where(deviation > 0, deviation, 1))
    vectors = {"train": train, "test": test}
    standardise(vectors)
    np.testing.assert_array_equal(vectors["test"], expected)
    assert vectors["test"] is test
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(np.delete(train.std(0), 3), 1, atol=1e-5)
    assert not train[:, 3].any()


def test_constant_dimension_is_not_scaled() -> None:
    """The float32 mean of 1,494 times 0.1 is not 0.1: test was off by a factor of a million."""
    train = np.full((1494, 1), 0.1, np.float32)
    assert (train.mean(0) != train[0]).all()
    test = np.full((2, 1), 0.2, np.float32)
    standardise({"train": train, "test": test})
    np.testing.assert_allclose(train, 0, atol=1e-6)
    np.testing.assert_allclose(test, 0.1, atol=1e-6)


def test_predictions_do_not_depend_on_batches(
    data: ProbeData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the length of a code, without unknown labels."""
    vectors = torch.from_numpy(data.vectors(1)["test"])
    weights = torch.randn(9, 3, generator=torch.Generator().manual_seed(1))
    targets = torch.arange(len(vectors)) % 4 - 1
    is_known = targets != UNKNOWN_LABEL
    at_once = linear.predict(vectors, weights)
    bits = linear.code_bits(vectors[is_known], targets[is_known], weights)
    monkeypatch.setattr(linear, "_MAX_SCORES", 30)
    assert torch.equal(linear.predict(vectors, weights), at_once)
    assert linear.code_bits(vectors, targets, weights) == pytest.approx(bits)


# "run" is V twice and N once; "walk" V and N once each, of which N comes first.
BY_HAND = {
    "train": ("run run run walk walk dog cat", "VNVVNNN"),
    "dev": ("run dog", "VV"),
    "test": ("run walk bird dog Run", "VNNXN"),
}


def test_majority_labels_and_unknown_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unknown label is an error: from zeros, N is predicted for all of V N N X N."""
    monkeypatch.setattr(linear, "WEIGHT_DECAYS", (1e-4,))
    data = zeros(tmp_path, BY_HAND)
    assert data.labels == ("N", "V")
    assert data.unit == "tokens"
    assert majority_labels(data) == (Accuracy(0.0, 60.0, 100.0), Accuracy(50.0, 80.0, 100.0))
    assert data.is_unseen is not None
    assert data.is_unseen.tolist() == [False, False, True, False, True]
    assert probe(data.vectors(0), data).test == 60.0


def test_no_majority_label_per_word_without_tokens(tmp_path: Path) -> None:
    data = zeros(tmp_path, BY_HAND, layout="bilm")
    assert majority_labels(data) == (Accuracy(0.0, 60.0, None), None)
    assert data.is_unseen is None
