"""bilm-types: what bilm-tf's `dump_token_embeddings` writes, a row a line of the vocabulary."""

from __future__ import annotations

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.store.layouts.column import Column
from elmo_cli.store.layouts.contract import Layout, OpenFile
from elmo_cli.text.sentence import Sentence

NAME = "embedding"
CHUNK_BYTES = 1 << 20


class BilmTypes(Layout):
    """One dataset `embedding`, (type, projection)."""

    def __init__(self, target: OpenFile) -> None:
        self._target = target
        self._rows: Column | None = None
        if NAME in target.file:
            self._rows = self._column(target.file[NAME].shape[1])

    def append(self, sentence: Sentence, array: np.ndarray) -> bool:
        if array.ndim > 2 or array.size != array.shape[-1]:
            raise UsageError(
                f"{sentence.where}: `--layout bilm-types` holds one vector a line, got an array of "
                f"shape {array.shape}",
                "give a vocabulary, one type a line; `--layout bilm` holds sentences",
            )
        if self._rows is None:
            self._rows = self._column(array.shape[-1])
        self._rows.append(array.reshape(1, -1))
        return True

    def close(self) -> None:
        if self._rows is not None:
            self._rows.close()

    def _column(self, projection: int) -> Column:
        return Column(
            self._target, NAME, self._target.dtype, row=(projection,), chunk_bytes=CHUNK_BYTES
        )
