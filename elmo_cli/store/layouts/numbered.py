"""NumberedLayout: one dataset a sentence, named by its number in the whole input."""

from __future__ import annotations

import numpy as np
from h5py import h5

from elmo_cli.store.layouts import keys
from elmo_cli.store.layouts.contract import OpenFile, refused
from elmo_cli.store.layouts.datasets import DatasetLayout
from elmo_cli.text.sentence import Sentence


class NumberedLayout(DatasetLayout):
    """Numbers rise, so that no name is ever there already.

    To ask HDF5 for each of them would take a fifth of the time of writing.
    """

    hint = "number sentences in their order, each once"

    def __init__(self, target: OpenFile) -> None:
        super().__init__(target)
        # Links are kept in the order of their creation; `iterate` ends at what is no None.
        last, _ = target.file.id.links.iterate(
            lambda name: name if name.isdigit() else None,
            idx_type=h5.INDEX_CRT_ORDER,
            order=h5.ITER_DEC,
        )
        self._last_number = -1 if last is None else int(last)

    def path(self, sentence: Sentence) -> str:
        return keys.number(sentence)

    def append(self, sentence: Sentence, array: np.ndarray) -> bool:
        if sentence.key <= self._last_number:
            what = f"its number {sentence.key} does not come after {self._last_number}"
            raise refused(sentence, what, self.hint)
        group, leaf = self._datasets.place(self.path(sentence), sentence, self.hint)
        self._datasets.add(group, leaf, self.arrange(array))
        self._last_number = sentence.key
        return True
