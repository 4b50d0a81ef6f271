"""TokenIds: from tokens to the ids that a model reads; CharacterIds, whose characters are bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

import numpy as np

from elmo_cli.arrays import Int64Array

# Ids after those of the bytes, 0..255.
BEGIN_SENTENCE = 256
END_SENTENCE = 257
BEGIN_WORD = 258
END_WORD = 259
PADDING = 260
# The tokens at the ends of a sentence.
BEGIN = "<S>"
END = "</S>"


class TokenIds(Protocol):
    """From tokens to the ids that the token encoder of a model reads.

    Attributes:
        begin, end: the sentence boundaries; equal tokens of a text are boundaries too.
        padding: the id of each position after the last character of a token.
        known_characters: the characters with ids of their own; None if every character has one.
        known_words: the words with ids of their own; None for a model without words.
    """

    begin: str
    end: str
    padding: int
    known_characters: Collection[str] | None
    known_words: Collection[str] | None

    def tokens(self, tokens: Iterable[str]) -> Int64Array:
        """The ids of tokens, (token, id).

        A row has the ids of `max_characters` positions and, if the model has words, of the word.
        """


class CharacterIds:
    """Ids of the characters of tokens: begin of word, bytes of UTF-8, end of word, padding.

    Args:
        max_characters: ids per token (50); two mark the ends of the word, so a token is truncated
            after 48 bytes, within a character if necessary.

    Source: bilm-tf `bilm/data.py` `UnicodeCharsVocabulary`, without the 1 that inference adds:
    bytes are 0..255. "<S>" and "</S>" in a text are sentence boundaries, as in AllenNLP.
    """

    begin = BEGIN
    end = END
    padding = PADDING
    known_characters: Collection[str] | None = None
    known_words: Collection[str] | None = None

    def __init__(self, max_characters: int = 50) -> None:
        self.max_characters = max_characters

    def tokens(self, tokens: Iterable[str]) -> Int64Array:
        """The ids of tokens, (token, char)."""
        rows = list(tokens)
        ids = np.full((len(rows), self.max_characters), PADDING, np.int64)
        ids[:, 0] = BEGIN_WORD
        for row, token in zip(ids, rows, strict=True):
            if token in (BEGIN, END):
                row[1] = BEGIN_SENTENCE if token == BEGIN else END_SENTENCE
                row[2] = END_WORD
                continue
            # Lone surrogates have no bytes in UTF-8; they are left out, as in bilm-tf.
            characters = token.encode("utf-8", "ignore")[: self.max_characters - 2]
            row[1 : 1 + len(characters)] = np.frombuffer(characters, np.uint8)
            row[1 + len(characters)] = END_WORD
        return ids
