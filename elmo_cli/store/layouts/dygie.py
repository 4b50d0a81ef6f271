"""dygie: what DyGIE's `generate_elmo.py` writes; the key is not escaped."""

from __future__ import annotations

import numpy as np

from elmo_cli.store.layouts import keys
from elmo_cli.store.layouts.datasets import DatasetLayout
from elmo_cli.store.layouts.e2e_coref import layers_last
from elmo_cli.text.sentence import Sentence


class Dygie(DatasetLayout):
    """Named by document, `_` and place; layers are the last axis."""

    hint = "give each document a `doc_key` of its own"

    def path(self, sentence: Sentence) -> str:
        return keys.underscore(sentence, "dygie")

    def arrange(self, array: np.ndarray) -> np.ndarray:
        return layers_last(array, self.target)
