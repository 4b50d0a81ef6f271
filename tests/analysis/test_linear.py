"""The probe: what it learns, which decay it takes, and what is right without it."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from labelled_files import write_conllu, write_lines, write_vectors

from elmo_cli.analysis import linear
from elmo_cli.analysis.baseline import most_frequent, most_frequent_of_form
from elmo_cli.analysis.examples import Examples, read_examples
from elmo_cli.analysis.linear import DECAYS, n_epochs, probe, probe_layers, standardise

DIM = 8
LABELS = ("A", "B", "C")
SIZES = {"train": 200, "dev": 40, "test": 40}


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Examples:
    """Labels that layer 1 lies near to, each to its own place, and layer 0 knows nothing of."""
    rng = np.random.default_rng(7)
    folder = tmp_path_factory.mktemp("examples")
    places = rng.standard_normal((len(LABELS), DIM)) * 3
    files = {}
    for part, n_sentences in SIZES.items():
        lengths = rng.integers(1, 60, n_sentences)
        ids = [rng.integers(len(LABELS), size=n) for n in lengths]
        labels = [[LABELS[k] for k in one] for one in ids]
        arrays = [rng.standard_normal((2, n, DIM)).astype(np.float32) for n in lengths]
        for array, one in zip(arrays, ids, strict=True):
            array[1] += places[one] + 5
        words = [[f"w{n}" for n in rng.integers(50, size=n)] for n in lengths]
        files[part] = (
            write_vectors(folder / f"{part}.hdf5", words, arrays),
            write_conllu(folder / f"{part}.conllu", words, labels),
        )
    return read_examples(**files)


def test_a_layer_that_knows_and_one_that_does_not(examples: Examples) -> None:
    found = dict(probe_layers(examples))
    assert list(found) == ["0", "1"]
    assert found["1"].test > 99
    assert found["1"].dev > 99
    usual = most_frequent(examples)
    assert abs(found["0"].test - usual.test) < 12  # no better than chance
    assert found["0"].unseen_words is None  # no form of test is new


def reference(vectors: np.ndarray, targets: np.ndarray, n_labels: int, decay: float) -> np.ndarray:
    """The same regression in float64, with Adam and the gradient written out."""
    random = torch.Generator().manual_seed(1)
    inputs = np.concatenate([vectors.astype(np.float64), np.ones((len(vectors), 1))], axis=1)
    weights = np.zeros((inputs.shape[1], n_labels))
    first, second, step = np.zeros_like(weights), np.zeros_like(weights), 0
    n_steps = 10 * math.ceil(len(targets) / 512)
    for _ in range(10):
        order = torch.randperm(len(targets), generator=random).numpy()
        for begin in range(0, len(order), 512):
            rows = order[begin : begin + 512]
            scores = inputs[rows] @ weights
            shares = np.exp(scores - scores.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            shares[np.arange(len(rows)), targets[rows]] -= 1
            gradient = inputs[rows].T @ shares / len(rows)
            gradient[:-1] += 2 * decay * weights[:-1]
            rate = 1e-2 * (1 - step / n_steps)
            step += 1
            first = 0.9 * first + 0.1 * gradient
            second = 0.999 * second + 0.001 * gradient**2
            root = np.sqrt(second / (1 - 0.999**step)) + 1e-8
            weights = weights - rate * first / (1 - 0.9**step) / root
    return weights


@pytest.mark.parametrize("decay", [DECAYS[0], DECAYS[-1]])
def test_weights_are_those_of_the_loop_written_out(examples: Examples, decay: float) -> None:
    """Else another optimizer, or other batches, would change all published figures unseen."""
    vectors = examples.vectors("1")
    targets = examples.targets["train"]
    train = vectors["train"].astype(np.float64)
    expected = reference((train - train.mean(0)) / train.std(0), targets, len(LABELS), decay)
    standardise(vectors)
    scaled = torch.from_numpy(vectors["train"])
    found = linear.fitted(scaled, torch.from_numpy(targets), len(LABELS), decay)
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-4)


def test_the_decay_is_the_best_on_dev_and_not_on_test(examples: Examples) -> None:
    """A decay chosen on test would flatter every layer; of equal ones the greatest is taken."""
    vectors = examples.vectors("0")
    standardise(vectors)
    scaled = {part: torch.from_numpy(array) for part, array in vectors.items()}
    targets = torch.from_numpy(examples.targets["train"])
    right = {}
    for decay in DECAYS:
        weights = linear.fitted(scaled["train"], targets, len(LABELS), decay)
        right[decay] = [
            100 * float((linear.predicted(scaled[part], weights).numpy() == of).mean())
            for part, of in list(examples.targets.items())[1:]
        ]
    best = max(right, key=lambda decay: right[decay][0])  # the first one, which is the greatest
    found = probe(examples.vectors("0"), examples)
    assert (found.weight_decay, [found.dev, found.test]) == (best, right[best])


def test_standardised_by_train_alone_and_in_place() -> None:
    rng = np.random.default_rng(1)
    train = (rng.standard_normal((500, 100)) * 4 + 2).astype(np.float32)
    train[:, 3] = 2
    test = (rng.standard_normal((9, 100)) + 1).astype(np.float32)
    mean, deviation = train.mean(0), train.std(0)
    expected = (test - mean) * (1 / np.where(deviation > 0, deviation, 1))
    vectors = {"train": train, "test": test}
    standardise(vectors)
    np.testing.assert_array_equal(vectors["test"], expected)
    assert vectors["test"] is test
    np.testing.assert_allclose(train.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(np.delete(train.std(0), 3), 1, atol=1e-5)
    assert not train[:, 3].any()


def test_a_dimension_of_one_value_is_not_divided_by_what_rounding_leaves() -> None:
    """The mean of 1,494 times 0.1 is no 0.1 in float32: test was off by a factor of a million."""
    train = np.full((1494, 1), 0.1, np.float32)
    assert (train.mean(0) != train[0]).all(), "or the test shows nothing"
    test = np.full((2, 1), 0.2, np.float32)
    standardise({"train": train, "test": test})
    np.testing.assert_allclose(train, 0, atol=1e-6)
    np.testing.assert_allclose(test, 0.1, atol=1e-6)


def test_the_same_figures_again_and_others_with_another_seed(examples: Examples) -> None:
    first, again = (probe(examples.vectors("0"), examples) for _ in range(2))
    assert first == again
    scaled = {"train": examples.vectors("0")["train"]}
    standardise(scaled)
    vectors, targets = (
        torch.from_numpy(scaled["train"]),
        torch.from_numpy(examples.targets["train"]),
    )
    one, other = (linear.fitted(vectors, targets, 3, 1e-3, seed=seed) for seed in (1, 2))
    assert not torch.equal(one, other)


def test_predictions_do_not_depend_on_how_many_are_made_at_a_time(
    examples: Examples, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = torch.from_numpy(examples.vectors("1")["test"])
    weights = torch.randn(DIM + 1, 3, generator=torch.Generator().manual_seed(1))
    at_once = linear.predicted(vectors, weights)
    monkeypatch.setattr(linear, "_SCORES", 30)
    assert torch.equal(linear.predicted(vectors, weights), at_once)


def small(tmp_path: Path, parts: dict[str, tuple[list[str], list[str]]], **options) -> Examples:
    """Examples of one sentence a part, given by its words and labels, and zeros for vectors."""
    files = {}
    for part, (words, labels) in parts.items():
        array = np.zeros((1, len(words), 2), np.float32)
        files[part] = (
            write_vectors(tmp_path / f"{part}.hdf5", [words], [array], **options),
            write_lines(tmp_path / f"{part}.tags", [labels]),
        )
    return read_examples(**files)


BY_HAND = {
    # "run" is V twice and N once; "walk" as often V as N, of which N comes first; N is usual.
    "train": (["run", "run", "run", "walk", "walk", "dog", "cat"], [*"VNVVNNN"]),
    "dev": (["run", "dog"], [*"VV"]),
    "test": (["run", "walk", "bird", "dog", "Run"], [*"VNNXN"]),
}


def test_baselines_by_hand(tmp_path: Path) -> None:
    examples = small(tmp_path, BY_HAND)
    assert examples.labels == ("N", "V")
    of_form = most_frequent_of_form(examples)
    assert of_form is not None
    assert (of_form.dev, of_form.test, of_form.unseen_words) == (50.0, 80.0, 100.0)
    usual = most_frequent(examples)
    assert (usual.dev, usual.test, usual.unseen_words) == (0.0, 60.0, 100.0)
    assert examples.is_unseen is not None
    assert examples.is_unseen.tolist() == [False, False, True, False, True]
    assert examples.unknown == {"dev": 0, "test": 1}


def test_a_label_that_train_lacks_is_wrong(tmp_path: Path) -> None:
    """Left out, it would make figures of two train sets look alike that are not."""
    examples = small(tmp_path, BY_HAND)
    found = probe(examples.vectors("0"), examples)
    assert found.test == 60.0  # all zeros: N is told of all five, which are V N N X N


def test_without_tokens_there_is_no_baseline_of_forms(tmp_path: Path) -> None:
    examples = small(tmp_path, BY_HAND, layout="bilm")
    assert most_frequent_of_form(examples) is None
    assert examples.is_unseen is None
    assert most_frequent(examples).test == 60.0
    assert [warning.split(": ")[1] for warning in examples.warnings] == [
        "does not tell its tokens, so forms are not known"
    ] * 3


def test_epochs_are_told(tmp_path: Path) -> None:
    """A bar that does not end where it should is worse than none."""
    examples, told = small(tmp_path, BY_HAND), []
    list(probe_layers(examples, advance=told.append))
    assert sum(told) == n_epochs(examples) == 7 * 10
