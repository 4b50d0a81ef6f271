"""CollectedSentences: what a file records of its sentences, collected block after block."""

from __future__ import annotations

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.files import StrPath
from elmo_cli.store.layouts import Layout, StoredSentence
from elmo_cli.store.layouts.sentence_columns import SentenceColumns
from elmo_cli.store.recorded_facts import RecordedFacts
from elmo_cli.store.spec import DTYPES, FileSpec


class CollectedSentences:
    """Collects all that follows the values in a file, so that nothing is read from the log for it.

    The log says the same, and a run that was resumed reads it.

    Attributes:
        columns, facts: of all sentences so far; whoever writes the file takes and closes them.
    """

    def __init__(self, spec: FileSpec, layout: Layout, columns: SentenceColumns, folder: StrPath):
        self.columns = columns
        self.facts = RecordedFacts(spec, layout, folder)
        self._dtype = DTYPES[spec.dtype]
        self._n_rows = 0
        self._row_shapes: set[tuple[int, ...]] = set()

    @classmethod
    def new(cls, spec: FileSpec, layout: Layout, folder: StrPath) -> CollectedSentences | None:
        """Nothing so far; None for a layout that does not keep its sentences in columns."""
        columns = layout.new_columns(folder)
        return None if columns is None else cls(spec, layout, columns, folder)

    def add(self, stored: StoredSentence) -> None:
        """Add the next sentence; an OSError if the disk has no space left."""
        self.columns.add(stored)
        self.facts.add(stored)
        self._n_rows += len(stored.values)
        self._row_shapes.add(stored.values.shape[1:])

    def values(self) -> AnyArray | None:
        """An array of the shape and dtype of all values, which takes no memory.

        It is None if there are no sentences, or if their vectors have several shapes.
        """
        if len(self._row_shapes) != 1:
            return None
        (row_shape,) = self._row_shapes
        return np.broadcast_to(np.zeros((), self._dtype), (self._n_rows, *row_shape))

    def close(self) -> None:
        """Remove temporary files."""
        self.columns.close()
        self.facts.close()
