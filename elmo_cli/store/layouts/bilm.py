"""bilm: what bilm-tf's `dump_bilm_embeddings` writes, a dataset a line and nothing else."""

from __future__ import annotations

from elmo_cli.store.layouts import keys
from elmo_cli.store.layouts.datasets import DatasetLayout
from elmo_cli.text.sentence import Sentence


class Bilm(DatasetLayout):
    """Named by line number."""

    hint = "number each sentence once"

    def path(self, sentence: Sentence) -> str:
        return keys.number(sentence)
