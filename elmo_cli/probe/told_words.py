"""ToldWords: the tokens that an embeddings file tells of its sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from elmo_cli.errors import UsageError
from elmo_cli.store.damage import damage_as_error
from elmo_cli.store.naming import Key
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.repeats import texts_of_repeats


class ToldWords:
    """The tokens of sentences, those of lines too that occur again later in the text."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings

    def of(
        self, key: Key, shape: Sequence[int], *, by_repeats: bool = True
    ) -> tuple[str, ...] | None:
        """The tokens of a sentence that is there; None where the file doesn't tell.

        Args:
            shape: of its array.
            by_repeats: read the file once more for lines of which its sentence map names the last
                alone.
        """
        embeddings = self._embeddings
        with damage_as_error(embeddings.path, keys_of_file=True):
            facts = embeddings.sentences.facts(key)
            told = embeddings.told(facts, tuple(shape))
            if told is None and by_repeats and facts.text is None:
                line = self._repeats.get(facts.number)
                if line is not None:
                    facts = replace(facts, text=line, tokens=tuple(line.split()))
                    told = embeddings.told(facts, tuple(shape))
        return told

    @cached_property
    def _repeats(self) -> dict[int, str]:
        try:
            return texts_of_repeats(self._embeddings)
        except UsageError:  # they can't be told apart
            return {}
