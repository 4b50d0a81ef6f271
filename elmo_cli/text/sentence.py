"""Sentence: what every reader of text makes and every layout of embeddings is keyed by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sentence:
    """One list of tokens with its own borders, and where it stands.

    Attributes:
        tokens: the tokens as given; empty for a blank line.
        key: number of the sentence in the whole input, from 0, running on over several files.
            With one sentence a line, line i (from 0) is key i.
        text: the line as it stands in the file, stripped; tokens joined by one space where a
            format has no line for it. Sentence keys and the sentence map are made of it.
        source: name of the file as the user gave it; "-" for standard input.
        line: line in that file where the sentence begins, from 1; 0 where no line is known.
        document: key of its document ("bc/cctv/00/cctv_0000_12"), None where the format has none.
        place: number of the sentence within its document, from 0 (0 without a document key).
        offset: what LSGN adds to `place` for its keys (`sent_offset` in its jsonl files).
        starts_document: whether a document begins here; true for the first sentence of a file.
    """

    tokens: tuple[str, ...]
    key: int
    text: str = ""
    source: str = "-"
    line: int = 0
    document: str | None = None
    place: int = 0
    offset: int = 0
    starts_document: bool = False

    @property
    def where(self) -> str:
        """What messages call it: its line in its file, or its number where no line is known."""
        at = f", line {self.line}" if self.line else f": sentence {self.key}"
        return f"{self.source}{at}"
