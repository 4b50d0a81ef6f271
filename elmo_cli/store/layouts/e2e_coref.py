"""e2e-coref: what its `cache_elmo.py` writes, a group a document, layers as the last axis."""

from __future__ import annotations

import numpy as np

from elmo_cli.store.layouts import keys
from elmo_cli.store.layouts.contract import OpenFile
from elmo_cli.store.layouts.datasets import DatasetLayout
from elmo_cli.text.sentence import Sentence


class E2eCoref(DatasetLayout):
    """Group of the document with `:` for `/`, in it a dataset a sentence."""

    hint = "give each document a `doc_key` of its own"

    def path(self, sentence: Sentence) -> str:
        return keys.colon_group(sentence, "e2e-coref")

    def arrange(self, array: np.ndarray) -> np.ndarray:
        return layers_last(array, self.target)


def layers_last(array: np.ndarray, target: OpenFile) -> np.ndarray:
    """The array with its layer axis at the end, of size 1 where there was none."""
    rank_with_layers = 2 if target.pooled else 3
    if array.ndim == rank_with_layers:
        return np.moveaxis(array, 0, -1)
    return array[..., np.newaxis]
