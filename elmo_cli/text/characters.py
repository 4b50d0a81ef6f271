"""CharacterIds: from tokens to the ids of their characters, which are bytes of UTF-8."""

from __future__ import annotations

from collections.abc import Iterable

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


class CharacterIds:
    """Ids of the characters of tokens: begin of word, bytes of UTF-8, end of word, padding.

    Args:
        max_characters: ids per token (50); two mark the ends of the word, so a token is truncated
            after 48 bytes, within a character if necessary.

    Source: bilm-tf `bilm/data.py` `UnicodeCharsVocabulary`, without the 1 that inference adds:
    bytes are 0..255. "<S>" and "</S>" in a text are sentence boundaries, as in AllenNLP.
    """

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
