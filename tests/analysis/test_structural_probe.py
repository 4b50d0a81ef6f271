"""Structural probes: the loss by its formula, and probes of vectors that encode trees or not."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from analysis.treebanks import Tree, encode, random_trees, write_treebank

from elmo_cli.analysis import structural_probe
from elmo_cli.analysis.labelled_vectors import LabelledVectors
from elmo_cli.analysis.structural_data import StructuralData, read_structural_data
from elmo_cli.analysis.structural_layers import (
    StructuralResult,
    chain_scores,
    rank_of_probe,
    structural_layers,
)
from elmo_cli.analysis.structural_probe import (
    TASKS,
    StructuralProbe,
    TreeVectors,
    fit_structural_probe,
    mean_loss,
    structural_loss,
)
from elmo_cli.analysis.structural_scores import DepthScores, DistanceScores
from elmo_cli.errors import TrainingError, UsageError

SIZES = {"train": 120, "dev": 20, "test": 30}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> StructuralData:
    folder = tmp_path_factory.mktemp("structural")
    files = {}
    for seed, (split, n_trees) in enumerate(SIZES.items()):
        files[split] = write_treebank(folder, split, random_trees(seed, n_trees))
    return read_structural_data(**files)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training in fewer and larger steps."""
    monkeypatch.setattr(structural_probe, "MAX_EPOCHS", 12)
    monkeypatch.setattr(structural_probe, "LEARNING_RATE", 1e-2)


def sentence_vectors(trees: list[Tree], task: str) -> TreeVectors:
    heads = [np.array(tree.heads) for tree in trees]
    arrays = [array[0] for array in encode(trees)]
    return TreeVectors(np.concatenate(arrays), tuple(map(TASKS[task].gold, heads)))


def loss_by_formula(task: str, vectors: TreeVectors, projection: np.ndarray) -> float:
    """The loss, pair by pair and word by word."""
    losses = []
    start = 0
    for gold in vectors.gold:
        n = len(gold)
        h = vectors.vectors[start : start + n].astype(np.float64) @ projection
        start += n
        total = 0.0
        for i in range(n):
            if task == "depth":
                total += abs(gold[i] - h[i] @ h[i])
                continue
            for j in range(n):
                total += abs(gold[i, j] - (h[i] - h[j]) @ (h[i] - h[j]))
        losses.append(total / (n if task == "depth" else n * n))
    return math.fsum(losses) / len(losses)


@pytest.mark.parametrize("task", ["distance", "depth"])
def test_loss_is_that_of_the_formula(task: str) -> None:
    """Of sentences of several lengths, also in several batches, and its predictions."""
    vectors = sentence_vectors(random_trees(5, 27), task)
    projection = torch.rand(vectors.vectors.shape[1], 3, generator=torch.Generator().manual_seed(0))
    expected = loss_by_formula(task, vectors, projection.double().numpy())
    assert mean_loss(TASKS[task], projection, vectors) == pytest.approx(expected, rel=1e-6)
    batch = vectors.batch([3, 0, 8])
    predicted = TASKS[task].predict(batch.project(projection))
    picked = [vectors.vectors[vectors.starts[k] : vectors.starts[k + 1]] for k in (3, 0, 8)]
    some = TreeVectors(np.concatenate(picked), tuple(vectors.gold[k] for k in (3, 0, 8)))
    expected = loss_by_formula(task, some, projection.double().numpy())
    loss = structural_loss(predicted, batch.gold, batch.lengths)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("task", ["distance", "depth"])
def test_predictions_are_squared_lengths(task: str) -> None:
    vectors = sentence_vectors(random_trees(6, 23), task)
    random = torch.Generator().manual_seed(0)
    projection = torch.rand(vectors.vectors.shape[1], 4, generator=random)
    probe = StructuralProbe(TASKS[task], projection, dev_loss=0.0, epochs=1)
    for number, predicted in enumerate(probe.predict(vectors)):
        h = (
            vectors.vectors[vectors.starts[number] : vectors.starts[number + 1]]
            @ projection.numpy()
        )
        differences = h if task == "depth" else h[:, None] - h[None]
        expected = (differences**2).sum(-1)
        np.testing.assert_allclose(predicted, expected, rtol=1e-5, atol=1e-5)


def results(data: StructuralData, task: str, **options: int) -> dict[int | str, StructuralResult]:
    return dict(structural_layers(data, TASKS[task], **{"rank": 16, **options}))


@pytest.mark.usefixtures("short")
def test_distances_that_are_encoded_are_found(data: StructuralData) -> None:
    """Those of layer 0, which is random, are not."""
    random, encoded = results(data, "distance").values()
    assert isinstance(random.scores, DistanceScores)
    assert isinstance(encoded.scores, DistanceScores)
    assert encoded.scores.uuas is not None
    assert encoded.scores.uuas > 97
    assert encoded.scores.spearman is not None
    assert encoded.scores.spearman > 0.9
    assert encoded.dev_loss < 0.2 < random.dev_loss
    assert random.scores.uuas is not None
    assert random.scores.uuas < 50


@pytest.mark.usefixtures("short")
def test_depths_that_are_encoded_are_found(data: StructuralData) -> None:
    random, encoded = results(data, "depth").values()
    assert isinstance(random.scores, DepthScores)
    assert isinstance(encoded.scores, DepthScores)
    assert encoded.scores.root_accuracy > 97
    assert encoded.scores.spearman is not None
    assert encoded.scores.spearman > 0.85
    assert random.scores.root_accuracy < 50


@pytest.mark.usefixtures("short")
def test_a_rank_below_that_of_the_trees_finds_less(data: StructuralData) -> None:
    _, low = results(data, "distance", rank=1).values()
    assert low.dev_loss > 0.5
    assert rank_of_probe(data, None) == 16
    assert rank_of_probe(data, 16) == 16
    with pytest.raises(UsageError, match="`rank=17`: exceeds the dimension of the vectors, 16"):
        rank_of_probe(data, 17)


def test_the_seed_decides(data: StructuralData, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structural_probe, "MAX_EPOCHS", 2)
    losses = [results(data, "depth", seed=seed)[1].dev_loss for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("task", TASKS)
def test_vectors_of_which_the_squares_are_not_finite_are_refused(
    task: str, data: StructuralData, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = LabelledVectors.vectors
    monkeypatch.setattr(
        LabelledVectors, "vectors", lambda split, layer: vectors(split, layer) * np.float32(1e25)
    )
    with pytest.raises(TrainingError, match="layer 0: its vectors are too large"):
        results(data, task)


def test_chains_of_words(data: StructuralData) -> None:
    """Each edge of a chain is between neighbors, and its root is the first word."""
    heads = data.splits["test"].heads
    n_words = [len(sentence) for sentence in heads]
    n_right = 0
    for sentence in heads:
        for word, head in enumerate(sentence.tolist(), 1):
            n_right += head > 0 and abs(word - head) == 1
    distance = chain_scores(data, TASKS["distance"])
    assert isinstance(distance, DistanceScores)
    assert distance.uuas == pytest.approx(100 * n_right / (sum(n_words) - len(heads)))
    depth = chain_scores(data, TASKS["depth"])
    assert isinstance(depth, DepthScores)
    n_roots = sum(int(sentence[0] == 0) for sentence in heads)
    assert depth.root_accuracy == pytest.approx(100 * n_roots / len(heads))


def test_training_stops_and_keeps_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five epochs after the lowest loss on dev; the rest of the epochs is reported as done."""
    vectors = sentence_vectors(random_trees(5, 20), "depth")
    losses = iter([3.0, 2.0, 2.5, 1.99995, 2.0, 4.0, 3.0, 0.0])
    projections = []

    def next_loss(task: object, projection: torch.Tensor, vectors: object) -> float:
        projections.append(projection.clone())
        return next(losses)

    monkeypatch.setattr(structural_probe, "mean_loss", next_loss)
    advanced: list[float] = []
    probe = fit_structural_probe(TASKS["depth"], vectors, vectors, rank=2, advance=advanced.append)
    assert probe.epochs == 7
    assert probe.dev_loss == 2.0
    assert torch.equal(probe.projection, projections[1])
    assert sum(advanced) == structural_probe.MAX_EPOCHS


def test_dev_and_test_of_files(tmp_path: Path) -> None:
    """Without dev, every tenth sentence of train is in dev."""
    train = write_treebank(tmp_path, "train", random_trees(0, 20))
    test = write_treebank(tmp_path, "test", random_trees(1, 3))
    data = read_structural_data(train, test)
    assert [len(split.heads) for split in data.splits.values()] == [18, 2, 3]
