"""TokenIds: from tokens to the ids that a model reads; CharacterIds, whose characters are bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

import numpy as np

from elmo_cli.arrays import Int64Array
from elmo_cli.text.utf8 import encode_strings

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
        most_bytes = self.max_characters - 2
        # Lone surrogates have no bytes in UTF-8; they are left out, as in bilm-tf.
        content, ends = encode_strings(rows, "ignore")
        n_bytes = np.diff(ends, prepend=0)  # (token,)
        n_kept = np.minimum(n_bytes, most_bytes)  # (token,)
        characters = np.frombuffer(content, np.uint8)
        if n_bytes.max(initial=0) > most_bytes:
            in_token = np.arange(len(characters)) - np.repeat(ends - n_bytes, n_bytes)
            characters = characters[in_token < most_bytes]

        ids = np.full((len(rows), self.max_characters), PADDING, np.int64)
        ids[:, 0] = BEGIN_WORD
        ids[:, 1:-1][np.arange(most_bytes) < n_kept[:, None]] = characters
        ids[np.arange(len(rows)), 1 + n_kept] = END_WORD
        for boundary, boundary_id in ((BEGIN, BEGIN_SENTENCE), (END, END_SENTENCE)):
            if boundary in rows:
                is_boundary = np.array([token == boundary for token in rows])
                ids[is_boundary, 1] = boundary_id
                ids[is_boundary, 2] = END_WORD
                ids[is_boundary, 3:] = PADDING
        return ids
