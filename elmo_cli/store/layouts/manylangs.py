"""manylangs: what ELMoForManyLangs' `test` writes, one layer a file, named by the tokens."""

from __future__ import annotations

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.store.layouts import keys
from elmo_cli.store.layouts.contract import refused
from elmo_cli.store.layouts.datasets import DatasetLayout
from elmo_cli.text.sentence import Sentence

_OTHER = "`--layout allennlp` takes any token"


class ManyLangs(DatasetLayout):
    """Named by the tokens; the first of equal sentences is kept."""

    hint = (
        "`elmo embed --blank-lines skip` leaves out sentences without tokens; "
        "`--layout allennlp` takes any"
    )

    def path(self, sentence: Sentence) -> str:
        path = keys.joined_tokens(sentence.tokens)
        if sentence.tokens and keys.tokens_of_joined(path) != sentence.tokens:
            spelled = "`$period$`, `$backslash$` or a TAB"
            raise refused(sentence, f"{spelled} in a token would be read as something else", _OTHER)
        return path

    def arrange(self, array: np.ndarray) -> np.ndarray:
        rank = 1 if self.target.pooled else 2
        if array.ndim == rank + 1 and array.shape[0] == 1:
            array = array.reshape(array.shape[1:])
        if array.ndim != rank:
            raise UsageError(
                f"`--layout manylangs` holds one layer a file, not {array.shape[0]}",
                "`--layers top`, `--layers average` or one number",
            )
        return array

    def taken(self, path: str, sentence: Sentence) -> bool:
        return False
