"""Control labels, selectivity and code length, compared with NumPy written out in float64."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from probe_files import zeros
from softmax_regression import converged_weights, log_probabilities, train_weights, with_ones

from elmo_cli.analysis import linear
from elmo_cli.analysis.linear import ProbeResult
from elmo_cli.analysis.probe_data import ProbeData
from elmo_cli.analysis.probe_layers import (
    LayerResult,
    code_length,
    n_epochs,
    probe_layers,
    with_control_labels,
)
from elmo_cli.errors import UsageError

DECAYS = (1e-2, 1e-4)
PATH_DECAYS = (1.0, 1e-2, 1e-4)
SPLITS = ("train", "dev", "test")


@pytest.fixture(autouse=True)
def two_decays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "WEIGHT_DECAYS", DECAYS)
    monkeypatch.setattr(linear, "PATH_DECAYS", PATH_DECAYS)


def measure(data: ProbeData, layer: int = 0, **settings: Any) -> LayerResult:
    return dict(probe_layers(data, **settings))[layer]


def inputs_of(data: ProbeData, layer: int) -> dict[str, np.ndarray]:
    """The vectors of each split in float64, scaled by train, and ones."""
    vectors = {name: array.astype(np.float64) for name, array in data.vectors(layer).items()}
    mean = vectors["train"].mean(0)
    deviation = vectors["train"].std(0)
    return {name: with_ones((array - mean) / deviation) for name, array in vectors.items()}


def without_ones(inputs: dict[str, np.ndarray], dtype: type) -> dict[str, np.ndarray]:
    """The scaled vectors of each split."""
    return {name: array[:, :-1].astype(dtype) for name, array in inputs.items()}


def control_labels(data: ProbeData, seed: int) -> dict[str, list[str]]:
    """For each word form, in order of first occurrence, the label of a random token of train."""
    words = [word for name in SPLITS for word in data.words[name]]
    forms = sorted(set(words), key=words.index)
    rows = np.random.default_rng(seed).integers(len(data.words["train"]), size=len(forms))
    labels = {form: data.splits["train"].labels[k] for form, k in zip(forms, rows, strict=True)}
    return {name: [labels[word] for word in data.words[name]] for name in SPLITS}


def best_on_dev(inputs: dict[str, np.ndarray], labels: dict[str, list[str]]) -> ProbeResult:
    """The accuracy on dev and test with the weight decay that is best on dev."""
    names = np.array(sorted(set(labels["train"])))
    targets = np.searchsorted(names, labels["train"])
    results = []
    for decay in DECAYS:
        weights = train_weights(inputs["train"][:, :-1], targets, len(names), decay)
        percentages = {}
        for split in ("dev", "test"):
            predicted = names[(inputs[split] @ weights).argmax(1)]
            percentages[split] = 100 * (predicted == labels[split]).mean()
        result = ProbeResult(
            dev=percentages["dev"],
            test=percentages["test"],
            unseen_words=None,
            weight_decay=decay,
            weight_decay_edge="largest" if decay == DECAYS[0] else "smallest",
        )
        results.append(result)
    return max(results, key=lambda result: result.dev)


def check_accuracy(found: ProbeResult, expected: ProbeResult) -> None:
    assert found.dev == pytest.approx(expected.dev)
    assert found.test == pytest.approx(expected.test)
    assert found.weight_decay == expected.weight_decay
    assert found.weight_decay_edge == expected.weight_decay_edge


@pytest.mark.parametrize("layer", [0, 1])
def test_selectivity_equals_reference(data: ProbeData, layer: int) -> None:
    layer_result = measure(data, layer, control=True)
    inputs = inputs_of(data, layer)
    labels = {name: data.splits[name].labels for name in SPLITS}
    expected = best_on_dev(inputs, labels)
    expected_control = best_on_dev(inputs, control_labels(data, 0))
    check_accuracy(layer_result.probe, expected)
    assert layer_result.control is not None
    check_accuracy(layer_result.control, expected_control)
    assert layer_result.selectivity == pytest.approx(expected.test - expected_control.test)
    assert set(data.words["test"]) - set(data.words["train"])


def bits_of(inputs: np.ndarray, targets: np.ndarray, weights: np.ndarray) -> float:
    """The code length of labels; -1 is not encoded."""
    table = log_probabilities(inputs, weights)
    nats = 0.0
    for row, label in enumerate(targets):
        if label >= 0:
            nats -= table[row, label]
    return nats / math.log(2)


@pytest.fixture
def float64() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("layer", "tolerance", "error"),
    [
        pytest.param(0, 1e-10, 1e-6, marks=pytest.mark.slow),
        (1, 1e-10, 1e-6),
        (0, linear.TOLERANCE, 2e-3),
        (1, linear.TOLERANCE, 2e-3),
    ],
)
@pytest.mark.usefixtures("float64")
def test_code_length_equals_reference(
    data: ProbeData,
    layer: int,
    tolerance: float,
    error: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten epochs of Adam on small prefixes gave codes that were a quarter too long."""
    monkeypatch.setattr(linear, "TOLERANCE", tolerance)
    inputs = inputs_of(data, layer)
    bits = code_length(without_ones(inputs, np.float64), data)
    lengths = [len(sentence.labels) for sentence in data.splits["train"].sentences]
    rows = np.split(np.arange(sum(lengths)), np.cumsum(lengths)[:-1])
    order = np.concatenate([rows[k] for k in np.random.default_rng(0).permutation(len(rows))])
    train = inputs["train"][order]
    targets = data.targets["train"][order]
    n = len(order)
    percents = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.25, 12.5, 25, 50, 100)
    ends = [max(1, round(n * percent / 100)) for percent in percents]
    assert -1 in data.targets["dev"]
    expected = ends[0] * math.log2(3)
    for start, end in pairwise(ends):
        fewest_on_dev = math.inf
        for decay in PATH_DECAYS:
            weights = converged_weights(train[:start, :-1], targets[:start], 3, decay)
            on_dev = bits_of(inputs["dev"], data.targets["dev"], weights)
            if on_dev < fewest_on_dev:
                fewest_on_dev = on_dev
                of_block = bits_of(train[start:end], targets[start:end], weights)
        expected += of_block
    assert bits.code_length == pytest.approx(expected, rel=error)
    assert bits.uniform_code_length == pytest.approx(n * math.log2(3))
    assert bits.compression == pytest.approx(n * math.log2(3) / expected, rel=error)
    assert (bits.compression > 1.2) == (layer == 1)  # layer 0 has no information


def test_code_of_labels_that_vectors_do_not_predict(tmp_path: Path) -> None:
    """Neither noise in the vectors nor new labels make the code much longer than the entropy."""
    words = " ".join("w" * 4000)
    labels = "".join(np.random.default_rng(2).choice([*"ABCD"], 4000, p=[0.9, 0.06, 0.03, 0.01]))
    data = zeros(tmp_path, dict.fromkeys(SPLITS, (words, labels)))
    rng = np.random.default_rng(3)
    vectors = {name: rng.standard_normal((4000, 64)).astype(np.float32) for name in SPLITS}
    fractions = np.array([*Counter(labels).values()]) / 4000
    entropy = -4000 * (fractions * np.log2(fractions)).sum()
    assert entropy < code_length(vectors, data).code_length < 1.05 * entropy


def test_code_length_in_float32(data: ProbeData) -> None:
    """Of vectors as they are stored."""
    code = measure(data, 1, mdl=True).mdl
    vectors = without_ones(inputs_of(data, 1), np.float32)
    assert code is not None
    assert code.code_length == pytest.approx(code_length(vectors, data).code_length, rel=1e-3)


def test_other_measures_leave_the_probe_unchanged(data: ProbeData) -> None:
    alone = measure(data)
    assert alone.control is None
    assert alone.selectivity is None
    assert alone.mdl is None
    with_all = measure(data, control=True, mdl=True)
    assert with_all.probe == alone.probe
    assert with_all.control == measure(data, control=True).control
    assert with_all.mdl == measure(data, mdl=True).mdl
    assert with_all.mdl != measure(data, mdl=True, seed=1).mdl


def test_seed_determines_the_control_labels(data: ProbeData) -> None:
    for seed in (5, 6):
        splits = with_control_labels(data, seed=seed).splits
        assert {name: splits[name].labels for name in SPLITS} == control_labels(data, seed)
    assert control_labels(data, 5) != control_labels(data, 6)


def test_control_labels_are_distributed_as_the_tokens_of_train(tmp_path: Path) -> None:
    """Not as the labels of word forms: 2,000 forms of one token have N, one form of 6,000 has D."""
    rare_words = [f"w{k}" for k in range(2000)]
    words = " ".join([*rare_words, *["the"] * 6000])
    splits = {"train": (words, "N" * 2000 + "D" * 6000), "dev": ("b", "N"), "test": ("b", "N")}
    control = with_control_labels(zeros(tmp_path, splits))
    drawn = Counter(control.splits["train"].labels[:2000])
    assert abs(drawn["D"] / 2000 - 0.75) < 0.04  # four standard deviations


@pytest.mark.parametrize(("control", "mdl"), [(False, False), (True, False), (False, True)])
def test_epochs_are_counted(data: ProbeData, control: bool, mdl: bool) -> None:
    epochs: list[float] = []
    list(probe_layers(data, control=control, mdl=mdl, advance=epochs.append))
    assert sum(epochs) == pytest.approx(n_epochs(data, control=control, mdl=mdl))
    # The prefixes that a probe is trained on have the length of train in sum.
    assert sum(epochs) == pytest.approx(2 * 2 * 10 * (1 + control + mdl), rel=0.01)


def test_no_control_labels_without_tokens(tmp_path: Path) -> None:
    data = zeros(tmp_path, dict.fromkeys(SPLITS, ("a b", "NV")), layout="bilm")
    with pytest.raises(UsageError, match="control=True"):
        with_control_labels(data)
