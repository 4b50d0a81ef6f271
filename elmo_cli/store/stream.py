"""All sentences of an embeddings file in order, with what it tells of them; and into a writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from elmo_cli.errors import ElmoError, EmbeddingsFileError
from elmo_cli.store.damage import DAMAGED, damage_as_error
from elmo_cli.store.datasets import Array, NamedSentences, NumberedSentences
from elmo_cli.store.naming import Facts
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.settings import FORM, OWN_FACTS
from elmo_cli.store.told import KNOWS_TOKENS
from elmo_cli.store.writer import EmbeddingsWriter
from elmo_cli.text.sentence import Sentence

# A run commits after as many: mostly a joined file has the bytes of an undivided run as well.
BLOCK_SENTENCES = 1000
BLOCK_TOKENS = 32_768
_WRITERS_OWN = OWN_FACTS | {*FORM, "first_sentence"}


def stream(embeddings: Embeddings) -> Iterator[tuple[Facts, Array]]:
    """The facts and the array of each sentence, in the order of the file."""
    sentences = embeddings.sentences
    first = embeddings.first_sentence
    for position, key in enumerate(embeddings):
        with damage_as_error(embeddings.path, keys_of_file=True):
            facts, array = sentences.facts(key), sentences.array(key)
        if isinstance(sentences, NamedSentences):
            facts = replace(facts, number=first + position)
        if embeddings.layout not in KNOWS_TOKENS:
            # Of pooled files nothing counts the tokens, and nothing tells the lines that repeat.
            known = _has_token_axis(embeddings, array)
            facts = replace(facts, tokens=embeddings.told(facts, array.shape) if known else None)
        yield facts, array


def as_sentence(
    embeddings: Embeddings, position: int, facts: Facts, array: Array, texts: MapTexts | None
) -> Sentence:
    """A sentence that `stream` gave, as a writer wants it; `texts` where it makes a map anew."""
    tokens = facts.tokens
    if tokens is None:
        tokens = _blank_tokens(embeddings, position, array)
    text = texts.text(facts.number) if texts else facts.text
    return facts.sentence(tokens=tokens, text=text or "")


def _blank_tokens(embeddings: Embeddings, position: int, array: Array) -> tuple[str, ...]:
    """Empty tokens for a writer that only counts them.

    As many as the array has vectors for; where it has no such axis, an even share of the tokens
    that the file says it has. A type is one token.
    """
    if embeddings.layout == "bilm-types":
        return ("",)
    if _has_token_axis(embeddings, array):
        return ("",) * int(array.shape[-2])
    total, n = embeddings.count("tokens"), len(embeddings)
    return ("",) * (total * (position + 1) // n - total * position // n)


def _has_token_axis(embeddings: Embeddings, array: Array) -> bool:
    return array.ndim >= 2 and not embeddings.is_pooled


class MapTexts:
    """A text for each sentence of a file with a sentence map, such that a new map comes out equal.

    The map tells of equal lines only the last. The sentences it is silent about are given texts of
    lines that come later: first those that were not named yet, in the order of the map, so that the
    order of first occurrence stays; each then gets its own number when its line comes.
    """

    def __init__(self, sentence_map: Mapping[str, str]) -> None:
        self._texts = {int(name): text for text, name in sentence_map.items()}
        self._waiting = iter([(text, int(name)) for text, name in sentence_map.items()])
        self._next = next(self._waiting, None)
        self._last = self._texts[max(self._texts)] if self._texts else ""
        self._named: set[int] = set()

    def text(self, number: int) -> str:
        """The text to write sentence `number` with; ask for each once, in order."""
        own = self._texts.get(number)
        if own is not None:
            self._named.add(number)
            return own
        while self._next is not None and self._next[1] in self._named:
            self._next = next(self._waiting, None)
        if self._next is None:
            return self._last
        text, name = self._next
        self._named.add(name)
        return text


def map_texts(embeddings: Embeddings) -> MapTexts | None:
    """The texts of a file with a sentence map, None for a file without one."""
    sentences = embeddings.sentences
    found = sentences.sentence_map if isinstance(sentences, NumberedSentences) else None
    return None if found is None else MapTexts(found)


def run_facts(attributes: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of a run and its other facts, apart from what a writer says itself.

    A file of another program has neither.
    """
    names = list(attributes)
    if "elmo_schema" not in names or "sentences" not in names:
        return {}, {}
    middle = names.index("sentences")
    # In a file that was changed by another program these two may have come behind the facts.
    settings = {*names[:middle], "pool", "rounded_to"} - _WRITERS_OWN
    header = {name: attributes[name] for name in names if name in settings}
    others = {name: attributes[name] for name in names if name not in settings | _WRITERS_OWN}
    return header, others


class Copy:
    """Sentences on their way into a writer, committed as often as a run does.

    Args:
        writer: of the new file.
    """

    def __init__(self, writer: EmbeddingsWriter) -> None:
        self._writer = writer
        self._sentences = self._tokens = 0

    def append_all(self, where: str, sentences: Iterable[tuple[Sentence, Array]]) -> None:
        """Append sentences.

        Args:
            where: the file that they come from.
            sentences: in order.
        Raises:
            InputError, UsageError, OutputError: as of `append`, naming the file and the sentence.
            EmbeddingsFileError: the array of a sentence does not go with those before.
        """
        for sentence, array in sentences:
            if self._sentences >= BLOCK_SENTENCES or self._tokens >= BLOCK_TOKENS:
                self.commit()
            sentence = replace(sentence, source=where)
            try:
                self._writer.append(sentence, array)
            except ElmoError:
                raise
            except ValueError as error:  # what the writer takes for a fault of its caller
                raise EmbeddingsFileError(f"{sentence.where}: {error}", DAMAGED) from None
            self._sentences += 1
            self._tokens += len(sentence.tokens)

    def commit(self) -> None:
        """End a block."""
        self._writer.commit("")
        self._sentences = self._tokens = 0
