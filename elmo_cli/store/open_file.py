"""OpenFile: an open embeddings file of some format, with its attributes, layout and sentences."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from elmo_cli.store.layouts import Layout, SentenceReader


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
