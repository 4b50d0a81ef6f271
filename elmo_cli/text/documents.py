"""Document: where a sentence stands, for the layouts that key by document."""

from __future__ import annotations

from collections.abc import Sequence

from elmo_cli.text.sentence import Sentence


class Document:
    """The document that is being read: its key and how many sentences it has so far.

    Attributes:
        key: as the file gives it; None where documents have no keys.
        place: number of the next sentence in it, from 0; 0 without a key.
        offset: sentences in the parts of the same document before this one.
        starts: whether the next sentence is its first.

    Source of `offset`: LSGN `input_utils.py`, which counts on over documents that follow each other
    and have the same key up to the last underscore, being parts of one text.
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self.place = 0
        self.offset = 0
        self.starts = True

    def begin(self, key: str | None, offset: int | None = None) -> None:
        """Begin a document; `offset` where the file itself gives it."""
        if offset is None:
            offset = self.offset + self.place if self._continues(key) else 0
        self.key, self.offset, self.place, self.starts = key, offset, 0, True

    def advance(self, taken: bool) -> None:
        """Go on by one sentence; `taken` if it was given out and not refused."""
        if self.key is not None:
            self.place += 1
        if taken:
            self.starts = False

    def sentence(
        self, tokens: Sequence[str], key: int, text: str, source: str, line: int
    ) -> Sentence:
        """Its next sentence; the arguments are those of `Sentence`."""
        return Sentence(
            tuple(tokens), key, text, source, line, self.key, self.place, self.offset, self.starts
        )

    def _continues(self, key: str | None) -> bool:
        if self.key is None or key is None:
            return False
        return self.key[: self.key.rfind("_")] == key[: key.rfind("_")]
