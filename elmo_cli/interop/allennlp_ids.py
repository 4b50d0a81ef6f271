"""batch_to_ids: the character ids that AllenNLP's classes read; and IdStrings, types made of them.

A token has 50 ids: begin of word, bytes of UTF-8, end of word, filler, each increased by one. Zeros
are padding behind the tokens of a sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmo_cli.arrays import Int64Array
from elmo_cli.errors import UsageError
from elmo_cli.text.characters import BEGIN, END, CharacterIds

N_IDS = 262  # of AllenNLP: ours, and 0 for padding
_FILLER = 261
MAX_CHARACTERS = 50  # of every model of AllenNLP


class ConfigurationError(UsageError):
    """What AllenNLP refuses with an error of this name."""


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """The ids of a batch of sentences, (batch, token, 50) int64, padded with zeros.

    A string is read as a list of characters. A batch without tokens has the shape (batch, 0).

    Raises:
        IndexError: there are no sentences.
        ConfigurationError: a token is None.
        AttributeError: a token is of another type.
    """
    if not len(batch):
        raise IndexError("a batch of no sentences has no ids")
    lengths = np.array([len(sentence) for sentence in batch], np.int64)
    if not lengths.any():
        return torch.zeros(len(batch), 0, dtype=torch.int64)
    tokens = [token for sentence in batch for token in sentence]
    ids = np.zeros((len(batch), lengths.max(), MAX_CHARACTERS), np.int64)
    ids[np.arange(lengths.max()) < lengths[:, np.newaxis]] = ids_of_tokens(tokens)
    return torch.from_numpy(ids)


def ids_of_tokens(tokens: Sequence[str], max_characters: int = MAX_CHARACTERS) -> Int64Array:
    """The ids of tokens, (token, max_characters); errors as of `batch_to_ids`."""
    if any(token is None for token in tokens):
        raise ConfigurationError("a token is None", "a token is a string")
    for token in tokens:
        if not isinstance(token, str):  # the error of AllenNLP
            raise AttributeError(f"{type(token).__name__!r} object has no attribute 'encode'")
    return CharacterIds(max_characters).tokens(tokens) + 1


class ElmoTokenIndexer:
    """From tokens to ids, in place of AllenNLP's `ELMoTokenCharactersIndexer`."""

    def tokens_to_indices(
        self, tokens: Sequence[Any], vocabulary: object = None, index_name: str = "character_ids"
    ) -> dict[str, list[list[int]]]:
        """The ids of each token, which is a string or has one as `text`."""
        texts = [getattr(token, "text", token) for token in tokens]
        return {index_name: ids_of_tokens(texts).tolist()}


class IdStrings:
    """Strings whose characters are the ids of a token, so that the fast engine keeps its vector.

    An engine computes each type once and knows it by a string. Ids need not be those of a string:
    a token may be truncated within a character. So the character at a position is 261 minus the
    id, and the filler at the end of a token, which becomes 0, is left out.

    It is a `TokenIds` of models with AllenNLP's ids.

    Args:
        max_characters: ids per token.
    """

    padding = _FILLER
    known_characters: Collection[str] | None = None
    known_words: Collection[str] | None = None

    def __init__(self, max_characters: int) -> None:
        self.max_characters = max_characters
        boundaries = CharacterIds(max_characters).tokens([BEGIN, END]) + 1
        self.begin, self.end = self.of_ids(boundaries)

    def of_ids(self, ids: Int64Array) -> list[str]:
        """The strings of tokens, from their ids (token, max_characters)."""
        codes = np.ascontiguousarray(_FILLER - ids, np.uint32)
        strings: list[str] = codes.view(f"<U{self.max_characters}")[:, 0].tolist()
        return strings

    def tokens(self, tokens: Iterable[str]) -> Int64Array:
        """The ids of strings, (token, max_characters)."""
        strings = np.array(list(tokens), f"<U{self.max_characters}")
        codes = strings.view(np.uint32).reshape(len(strings), self.max_characters)
        ids: Int64Array = _FILLER - codes.astype(np.int64)
        return ids
