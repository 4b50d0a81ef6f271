"""OpenFile: an open embeddings file of some format, with its attributes, layout and sentences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.hdf5 import hint_of, open_hdf5, reading, reason_of
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.layouts import Layout, SentenceReader, layout_of_file
from elmo_cli.store.spec import read_attributes


class OpenFile(ABC):
    """An embeddings file that is open for reading.

    Attributes:
        attributes: what elmo recorded about the run; empty for files of other programs.
        layout: of its sentences.
    """

    attributes: dict[str, Any]
    layout: Layout

    @abstractmethod
    def reader(self) -> SentenceReader:
        """Return the sentences of the file."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class OpenHdf5(OpenFile):
    """An open HDF5 file."""

    def __init__(self, path: Path) -> None:
        """Open a file; an EmbeddingsFileError if it is not one of embeddings."""
        self._path = path
        try:
            self._file = open_hdf5(path)
        except OSError as error:
            reason = reason_of(error)
            not_embeddings = "give an embeddings file, as `elmo embed` writes it"
            hint = hint_of(error, CORRUPT_HINT if reason == "truncated" else not_embeddings)
            raise EmbeddingsFileError(reason, hint, where=path) from None
        try:
            with reading(path, EmbeddingsFileError):
                self.attributes = read_attributes(self._file)
            self.layout = layout_of_file(self._file, self.attributes)
        except BaseException:
            with suppress(RuntimeError):  # HDF5 may not even close a corrupt file
                self._file.close()
            raise

    def reader(self) -> SentenceReader:
        with reading(self._path, EmbeddingsFileError):
            return self.layout.reader(self.layout, self._file, self.attributes)

    def close(self) -> None:
        with reading(self._path, EmbeddingsFileError):
            self._file.close()
