"""MUC, B-cubed and CEAF: figures worked out by hand, and those of scorch."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from scorch import scores as scorch

from elmo_cli.tasks.coref import score_clusters


def clusters(text: str) -> list[frozenset]:
    """Clusters of mentions of one token, such as "1 2, 3"."""
    return [frozenset((int(i), int(i)) for i in one.split()) for one in text.split(",") if one]


SPLIT = "1 2 3, 4 5", "1 2, 3 4 5"
WRONG = "1 2, 3", "1 4, 3"


@pytest.mark.parametrize(
    ("documents", "metric", "precision", "recall"),
    [
        ([WRONG], "mentions", 2 / 3, 2 / 3),
        ([("1, 2", "1, 2")], "muc", 0, 0),
        ([("1 2", "")], "ceaf_phi4", 0, 0),
        # Counts of documents are added up, not their scores.
        ([SPLIT, WRONG], "muc", 2 / 4, 2 / 4),
        ([SPLIT, WRONG], "ceaf_phi4", 3.1 / 4, 3.1 / 4),
    ],
)
def test_scores_worked_out_by_hand(
    documents: list[tuple[str, str]], metric: str, precision: float, recall: float
) -> None:
    pairs = [(clusters(true), clusters(predicted)) for true, predicted in documents]
    found = score_clusters(pairs).by_type[metric]
    assert found["precision"] == pytest.approx(100 * precision)
    assert found["recall"] == pytest.approx(100 * recall)
    total = precision + recall
    f1 = 200 * precision * recall / total if total else 0
    assert found["f1"] == pytest.approx(f1)


def test_the_mean_leaves_mentions_out_and_counts_singletons() -> None:
    values = score_clusters([tuple(map(clusters, SPLIT))]).values
    assert values["f1"] == pytest.approx(100 * (2 / 3 + 11 / 15 + 0.8) / 3)
    scores = score_clusters([(clusters("1 2, 3 4, 5"), clusters("1 2, 3 4"))])
    assert scores.values["f1"] < scores.values["f1_without_singletons"] == 100
    assert scores.by_type["mentions"]["recall"] == pytest.approx(100 * 4 / 5)


def random_clusters(random: np.random.Generator) -> list[frozenset]:
    found = defaultdict(set)
    for i in np.flatnonzero(random.random(30) < 0.8).tolist():
        found[int(random.integers(1, 12))].add((i, i + i % 3))
    return list(map(frozenset, found.values()))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(
    ("metric", "oracle"),
    [("muc", scorch.muc), ("b_cubed", scorch.b_cubed), ("ceaf_phi4", scorch.ceaf_e)],
)
def test_scores_are_those_of_scorch(seed: int, metric: str, oracle: object) -> None:
    random = np.random.default_rng(seed)
    true, predicted = random_clusters(random), random_clusters(random)
    found = score_clusters([(true, predicted)]).by_type[metric]
    recall, precision, f1 = (100 * float(one) for one in oracle(true, predicted))
    expected = {"precision": precision, "recall": recall, "f1": f1}
    assert found == pytest.approx(expected)
