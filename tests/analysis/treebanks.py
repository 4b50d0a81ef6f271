"""Small treebanks: random trees, their paths, CoNLL-U files, and vectors that encode them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from analysis.embeddings_files import make_sentences, write

DIM = 16
MOST_WORDS = 12


@dataclass
class Tree:
    """The words of a sentence with their heads, and tags if they matter."""

    words: list[str]
    heads: list[int]
    upos: list[str] = field(default_factory=list)
    xpos: list[str] = field(default_factory=list)

    def rows(self) -> str:
        """The sentence in CoNLL-U, with the blank line after it."""
        lines = []
        for number, word in enumerate(self.words):
            upos = self.upos[number] if self.upos else "X"
            xpos = self.xpos[number] if self.xpos else "_"
            cells = [number + 1, word, "_", upos, xpos, "_", self.heads[number], "dep", "_", "_"]
            lines.append("\t".join(map(str, cells)) + "\n")
        return "".join(lines) + "\n"


def random_heads(rng: np.random.Generator, n_words: int) -> list[int]:
    """The heads of a random tree: a word is the root, each other depends on one placed before."""
    order = rng.permutation(n_words)
    heads = [0] * n_words
    for place in range(1, n_words):
        heads[order[place]] = int(order[rng.integers(place)]) + 1
    return heads


def random_trees(seed: int, n_trees: int) -> list[Tree]:
    rng = np.random.default_rng(seed)
    trees = []
    for number in range(n_trees):
        n_words = int(rng.integers(2, MOST_WORDS + 1))
        words = [f"w{seed}.{number}.{place}" for place in range(n_words)]
        trees.append(Tree(words, random_heads(rng, n_words)))
    return trees


def floyd_warshall(heads: list[int]) -> np.ndarray:
    """The number of edges between each two words."""
    n = len(heads)
    paths = np.full((n, n), np.inf)
    np.fill_diagonal(paths, 0)
    for word, head in enumerate(heads):
        if head:
            paths[word, head - 1] = paths[head - 1, word] = 1
    for middle in range(n):
        paths = np.minimum(paths, paths[:, middle, None] + paths[None, middle])
    return paths


def prim(distances: np.ndarray, kept: list[int]) -> set[tuple[int, int]]:
    """The edges of the minimum spanning tree of some words, if no two distances are equal."""
    tree = {kept[0]}
    edges = set()
    while len(tree) < len(kept):
        outside = [word for word in kept if word not in tree]
        pairs = [(distances[i, j], i, j) for i in tree for j in outside]
        _, i, j = min(pairs)
        tree.add(j)
        edges.add((min(i, j), max(i, j)))
    return edges


def encode(trees: Sequence[Tree]) -> list[np.ndarray]:
    """Vectors (layer, word, dim): layer 1 encodes the tree under a linear map, layer 0 is random.

    Each edge has a dimension of its own, and a word has those on its path from the root. So a
    squared distance is the number of edges between two words.
    """
    mixing = 10 * np.random.default_rng(1).standard_normal((MOST_WORDS, DIM)) / np.sqrt(DIM)
    rng = np.random.default_rng(len(trees))
    arrays = []
    for tree in trees:
        n_words = len(tree.words)
        paths = np.zeros((n_words, MOST_WORDS))
        for word in range(n_words):
            ancestor = word + 1
            while tree.heads[ancestor - 1]:
                paths[word, ancestor - 1] = 1
                ancestor = tree.heads[ancestor - 1]
        random = rng.standard_normal((n_words, DIM))
        arrays.append(np.stack([random, paths @ mixing]).astype(np.float32))
    return arrays


def write_treebank(
    folder: Path, name: str, trees: Sequence[Tree], text: str | None = None
) -> tuple[str, str]:
    """NAME.hdf5 with the vectors of `encode`, and NAME.conllu with `text` or the rows of trees."""
    sentences = make_sentences([" ".join(tree.words) for tree in trees])
    vectors = write(folder / f"{name}.hdf5", sentences, encode(trees))
    treebank = folder / f"{name}.conllu"
    treebank.write_text(text or "".join(tree.rows() for tree in trees), encoding="utf-8")
    return str(vectors), str(treebank)
