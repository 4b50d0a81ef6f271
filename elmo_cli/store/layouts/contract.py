"""Layout: how sentences become datasets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import h5py
import numpy as np

from elmo_cli.errors import InputError
from elmo_cli.store.journaled_file import JournaledFile
from elmo_cli.text.sentence import Sentence


@dataclass(frozen=True, slots=True)
class OpenFile:
    """The HDF5 file during one block.

    Attributes:
        file: for groups, links and attributes.
        raw: the bytes under it, for values.
        dtype: of the values, `<f4`, `<f2` or, in `flat`, `i1`.
        pooled: whether arrays have no token axis.
    """

    file: h5py.File
    raw: JournaledFile
    dtype: np.dtype[Any]
    pooled: bool


class Layout(ABC):
    """One layout of embeddings files, over one block.

    It is made anew for each block from what the file holds, so that a run that was resumed and one
    that was not have no other memory.
    """

    alignment: ClassVar[int] = 1
    """Large objects begin at multiples of so many bytes."""

    @abstractmethod
    def __init__(self, target: OpenFile) -> None:
        """Go on with the file as it stands."""

    @abstractmethod
    def append(self, sentence: Sentence, array: np.ndarray) -> bool:
        """Store one sentence.

        Args:
            sentence: its key, document or tokens name it.
            array: of the file's dtype, or float32 where that is int8; see SCHEMA.md for shapes.
        Returns:
            False where an equal sentence is there already and this one is left out.
        Raises:
            InputError: the file can't hold this sentence beside those before.
            UsageError: the layout is not for such input or arrays.
        """

    def close(self) -> None:  # noqa: B027 - most layouts hold nothing back
        """Write what is still held back."""


def refused(sentence: Sentence, what: str, hint: str) -> InputError:
    """The error for a sentence that a layout can't hold."""
    return InputError(f"{sentence.where}: {what}", hint)
