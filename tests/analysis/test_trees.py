"""Trees from HEAD columns, and minimum spanning trees, against other algorithms."""

from __future__ import annotations

import numpy as np
import pytest
from analysis.treebanks import floyd_warshall, prim, random_heads

from elmo_cli.analysis import trees
from elmo_cli.analysis.trees import (
    BrokenTreeError,
    parse_heads,
    spanning_tree,
    tree_depths,
    tree_distances,
)


@pytest.mark.parametrize("n_words", [1, 2, 5, 30])
def test_distances_and_depths_are_those_of_the_paths(n_words: int) -> None:
    rng = np.random.default_rng(n_words)
    for _ in range(5):
        cells = random_heads(rng, n_words)
        heads = parse_heads(list(map(str, cells)))
        assert heads.tolist() == cells
        paths = floyd_warshall(cells)
        np.testing.assert_array_equal(tree_distances(heads), paths)
        np.testing.assert_array_equal(tree_depths(heads), paths[cells.index(0)])


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (["2", "1"], "0 words have the head 0"),
        (["0", "0", "1"], "2 words have the head 0"),
        (["0", "3", "2"], "word 2 does not depend on the root"),
        (["0", "2"], "word 2 does not depend on the root"),
        (["0", "3"], "the head of word 2 of 2 is `3`"),
        (["0", "-1"], "the head of word 2 of 2 is `-1`"),
        (["0", "x"], "the head of word 2 of 2 is `x`"),
        (["0", "²"], "the head of word 2 of 2 is `²`"),
        (["0", "01"], "the head of word 2 of 2 is `01`"),
        (["0", *["1"] * trees.MOST_WORDS], "1,001 words, more than 1,000"),
    ],
)
def test_broken_trees(cells: list[str], problem: str) -> None:
    with pytest.raises(BrokenTreeError) as raised:
        parse_heads(cells)
    assert str(raised.value) == problem


@pytest.mark.parametrize("n_words", [1, 2, 9, 25])
def test_spanning_trees_are_those_of_prim(n_words: int) -> None:
    rng = np.random.default_rng(n_words)
    for _ in range(5):
        half = rng.random((n_words, n_words))
        distances = half + half.T
        is_kept = rng.random(n_words) < 0.7
        is_kept[0] = True
        edges = spanning_tree(distances, is_kept)
        assert set(map(tuple, edges.tolist())) == prim(distances, np.flatnonzero(is_kept).tolist())


def test_the_spanning_tree_of_a_tree_has_its_edges() -> None:
    heads = parse_heads(["2", "0", "4", "2", "4"])
    edges = spanning_tree(tree_distances(heads), np.ones(5, np.bool_))
    assert sorted(map(tuple, edges.tolist())) == [(0, 1), (1, 3), (2, 3), (3, 4)]


def test_of_equal_distances_the_first_pair_is_taken() -> None:
    """Without its head, the words that depended on it are equally far from each other."""
    heads = parse_heads(["2", "0", "2", "2"])
    is_kept = np.array([True, False, True, True])
    edges = spanning_tree(tree_distances(heads), is_kept)
    assert edges.tolist() == [[0, 2], [0, 3]]


def test_no_words_have_no_edges() -> None:
    assert spanning_tree(np.zeros((2, 2)), np.zeros(2, np.bool_)).shape == (0, 2)
