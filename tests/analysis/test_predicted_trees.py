"""The trees that a structural probe predicts, as objects for JSON lines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from analysis.treebanks import Tree, write_treebank

from elmo_cli.analysis.predicted_trees import predicted_trees
from elmo_cli.analysis.structural_data import StructuralData, read_structural_data
from elmo_cli.analysis.structural_layers import StructuralResult
from elmo_cli.analysis.structural_scores import DepthScores

TREES = [
    Tree(["x", "y"], [0, 1]),  # is broken in the treebank
    Tree(["a", "b", "c", "."], [2, 0, 2, 3], upos=["X", "X", "X", "PUNCT"]),
]


def read(folder: Path) -> StructuralData:
    text = Tree(["x", "y"], [1, 1]).rows() + TREES[1].rows()
    pair = write_treebank(folder, "a", TREES, text)
    return read_structural_data(pair, pair, pair)


def result(predicted: list[list[float]] | list[float]) -> StructuralResult:
    scores = DepthScores(root_accuracy=0.0, spearman=None)
    return StructuralResult(scores, dev_loss=0.0, epochs=1, predicted=[np.array(predicted)])


def test_edges_are_pairs_of_numbers_from_1(tmp_path: Path) -> None:
    distances = [[0, 1, 2, 0], [1, 0, 3, 0], [2, 3, 0, 0], [0, 0, 0, 0]]
    [tree] = predicted_trees(read(tmp_path), "distance", 1, result(distances))
    assert json.loads(json.dumps(tree)) == {
        "key": 1,
        "layer": "1",
        "words": ["a", "b", "c", "."],
        "heads": [2, 0, 2, 3],
        "punctuation": [4],
        "gold_edges": [[1, 2], [2, 3]],
        "edges": [[1, 2], [1, 3]],
    }


def test_depths(tmp_path: Path) -> None:
    depths = [1.23456, 0, 2, 3]
    [tree] = predicted_trees(read(tmp_path), "depth", "top", result(depths))
    assert tree["layer"] == "top"
    assert tree["gold_depths"] == [1, 0, 1, 2]
    assert tree["depths"] == [1.2346, 0, 2, 3]
    assert "edges" not in tree
