"""SourceLines: where the sentences of a corpus stand in the files that they were read from."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

from elmo_cli.text.sentence import Sentence


class SourceLines:
    """The file and the line of each sentence that has tokens, by its number in the corpus."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._sources, self._lines = array("i"), array("q")

    def noted(self, sentences: Iterable[Sentence]) -> Iterator[tuple[str, ...]]:
        """The tokens of sentences, for `Corpus.read`, which leaves out those without tokens."""
        for sentence in sentences:
            if sentence.tokens:
                number = self._numbers.setdefault(sentence.source, len(self._names))
                if number == len(self._names):
                    self._names.append(sentence.source)
                self._sources.append(number)
                self._lines.append(sentence.line)
            yield sentence.tokens

    def __getitem__(self, number: int) -> tuple[str, int]:
        """The name of the file and the line in it, from 1, of a sentence of the corpus."""
        return self._names[self._sources[number]], self._lines[number]
