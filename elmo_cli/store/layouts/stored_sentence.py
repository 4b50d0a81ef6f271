"""StoredSentence: a sentence as a file holds it."""

from __future__ import annotations

from dataclasses import dataclass

from elmo_cli.arrays import AnyArray
from elmo_cli.text.sentence import Sentence


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """One sentence as a file holds it."""

    sentence: Sentence
    values: AnyArray  # C-contiguous, with the dtype and the axes of the file
    scales: AnyArray | None  # float32, of int8 values, one per vector
    crc32: int  # `checksum` of its identity, values and scales
