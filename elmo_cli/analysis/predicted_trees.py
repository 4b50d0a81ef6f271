"""Predicted trees: the sentences of test with their trees and what a structural probe predicts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from typing import Any

from elmo_cli.analysis.structural_data import StructuralData
from elmo_cli.analysis.structural_layers import Layer, StructuralResult
from elmo_cli.analysis.trees import spanning_tree, tree_depths, tree_distances
from elmo_cli.arrays import BoolArray, Float64Array, Int64Array
from elmo_cli.label_rules import is_no_label
from elmo_cli.store.layouts import Key


def predicted_trees(
    data: StructuralData, task: str, layer: Layer, result: StructuralResult
) -> Iterator[dict[str, Any]]:
    """Yield one object per sentence of test; numbers of words are those of CoNLL-U, from 1.

    Each has `key` (of the embeddings file), `layer`, `words`, `heads` and `punctuation` (numbers of
    words). For the task "distance" it also has `gold_edges` and `edges` without punctuation, as
    UUAS counts them, and for "depth" `gold_depths` and `depths`.
    """
    test = data.splits["test"]
    sentences = zip(
        test.labelled.sentences, test.heads, data.is_kept, result.predicted, strict=True
    )
    for sentence, heads, is_kept, predicted in sentences:
        is_word = [not is_no_label(head) for head in sentence.labels]
        tree: dict[str, Any] = {
            "key": _name_of_key(sentence.key),
            "layer": str(layer),
            "words": list(compress(sentence.words or (), is_word)),
            "heads": heads.tolist(),
            "punctuation": [word for word, kept in enumerate(is_kept.tolist(), 1) if not kept],
        }
        if task == "distance":
            tree["gold_edges"] = _edges(tree_distances(heads), is_kept)
            tree["edges"] = _edges(predicted, is_kept)
        else:
            tree["gold_depths"] = tree_depths(heads).tolist()
            tree["depths"] = predicted.round(4).tolist()
        yield tree


def _edges(distances: Int64Array | Float64Array, is_kept: BoolArray) -> list[list[int]]:
    """Return the edges of the spanning tree as numbers of words, in the order of the text."""
    edges: list[list[int]] = (spanning_tree(distances, is_kept) + 1).tolist()
    return sorted(edges)


def _name_of_key(key: Key) -> int | str:
    """Return the key of a sentence as a user writes it."""
    return "/".join(map(str, key)) if isinstance(key, tuple) else key
