"""IntactSentence: a sentence of an open embeddings file that matches its checksum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.store.digests import checksum
from elmo_cli.store.layouts import SentenceRun, StoredSentence
from elmo_cli.text.sentence import Sentence


@dataclass(frozen=True, slots=True)
class IntactSentence:
    """A sentence of a file that matches its checksum.

    Attributes:
        array: the array that the writer of the file got; it may be a read-only view of the file.
        stored: the sentence as another file of the same layout and dtype can hold it; None if this
            is not known.
    """

    sentence: Sentence
    array: AnyArray
    stored: StoredSentence | None = None


def own_array(array: AnyArray) -> AnyArray:
    """The array, or a copy if it is read-only, such as a view of the file, or not C-contiguous."""
    return np.require(array, requirements=("C_CONTIGUOUS", "WRITEABLE"))


def is_intact(
    run: SentenceRun,
    number: int,
    values: AnyArray,
    scales: AnyArray | None,
    checksums: Sequence[Any] | None,
) -> bool:
    """Whether a sentence of a run matches its checksum.

    Args:
        values, scales: what `run.stored` gave for it.
        checksums: of the run, which may be too few; None if the file has none.
    """
    if checksums is None:
        return True
    is_listed = number < len(checksums)
    return is_listed and checksums[number] == checksum(run.identity(number), values, scales)
