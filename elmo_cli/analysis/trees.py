"""Dependency trees: heads, depths, distances between words, and minimum spanning trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elmo_cli.arrays import BoolArray, Float64Array, Int64Array

MOST_WORDS = 1_000  # of a tree; its distances take memory by the square of this number


class BrokenTreeError(ValueError):
    """The heads of a sentence are not those of a tree; the message says why."""


def parse_heads(cells: Sequence[str]) -> Int64Array:
    """Return the heads of the words of a sentence, (word,) int64: from 1, 0 for the root.

    Args:
        cells: the column HEAD of all words.
    Raises:
        BrokenTreeError: a head is not a word, there is not exactly one root, words are in a cycle,
            or there are more than `MOST_WORDS` words.
    """
    n_words = len(cells)
    if n_words > MOST_WORDS:
        raise BrokenTreeError(f"{n_words:,} words, more than {MOST_WORDS:,}")
    numbers = {str(number): number for number in range(n_words + 1)}
    for word, cell in enumerate(cells, 1):
        if cell not in numbers:
            raise BrokenTreeError(f"the head of word {word} of {n_words} is `{cell[:20]}`")
    heads = np.array([numbers[cell] for cell in cells], np.int64)
    n_roots = int((heads == 0).sum())
    if n_roots != 1:
        raise BrokenTreeError(f"{n_roots} words have the head 0")
    in_cycle = set(range(n_words)) - set(_from_root(heads))
    if in_cycle:
        raise BrokenTreeError(f"word {min(in_cycle) + 1} does not depend on the root")
    return heads


def _from_root(heads: Int64Array) -> list[int]:
    """Return the indices of the words, each after its head; without those in or below a cycle."""
    dependents: list[list[int]] = [[] for _ in range(len(heads) + 1)]
    for word, head in enumerate(heads.tolist()):
        dependents[head].append(word)
    order = list(dependents[0])
    for word in order:  # grows while it is read
        order += dependents[word + 1]
    return order


def tree_depths(heads: Int64Array) -> Int64Array:
    """Return the number of edges between each word and the root, (word,) int64."""
    depths = np.zeros(len(heads), np.int64)
    for word in _from_root(heads)[1:]:
        depths[word] = depths[heads[word] - 1] + 1
    return depths


def tree_distances(heads: Int64Array) -> Int64Array:
    """Return the number of edges between each two words, (word, word) int64."""
    n_words = len(heads)
    order = np.array(_from_root(heads), np.int64)
    rank = np.empty(n_words, np.int64)  # of each word in this order
    rank[order] = np.arange(n_words)
    by_rank = np.zeros((n_words, n_words), np.int64)
    for word in range(1, n_words):  # all words before it have their distances
        head = rank[heads[order[word]] - 1]
        by_rank[word, :word] = by_rank[head, :word] + 1
        by_rank[:word, word] = by_rank[word, :word]
    distances: Int64Array = by_rank[rank[:, None], rank]
    return distances


def spanning_tree(distances: Int64Array | Float64Array, is_kept: BoolArray) -> Int64Array:
    """Return the minimum spanning tree of some words as (edge, 2) int64 of indices, each (i < j).

    Kruskal's algorithm; of pairs with equal distances, the first in the order of the text is taken.

    Args:
        distances: (word, word), symmetric.
        is_kept: (word,) bool; the other words are left out.
    """
    kept = np.flatnonzero(is_kept)
    first, second = np.triu_indices(len(kept), 1)
    pairs = np.stack([kept[first], kept[second]], axis=1)
    order = np.argsort(distances[pairs[:, 0], pairs[:, 1]], kind="stable")
    component = np.arange(len(distances))  # of each word: the number of one of its words
    edges = []
    for i, j in pairs[order].tolist():
        if component[i] == component[j]:
            continue
        component[component == component[j]] = component[i]
        edges.append((i, j))
        if len(edges) == len(kept) - 1:
            break
    return np.array(edges, np.int64).reshape(-1, 2)
