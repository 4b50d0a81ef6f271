"""Dictionaries of the characters and the words of a model, compared with its embedding matrices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from elmo_cli.model.options import CHARACTERS_FILE, WORDS_FILE, Options
from elmo_cli.text.characters import TokenIds
from elmo_cli.text.unicode_characters import (
    Dictionary,
    UnicodeCharacterIds,
    read_characters,
    read_words,
)


def read_dictionaries(options: Options, characters: Path, words: Path) -> dict[str, Dictionary]:
    """Read the dictionaries that a model with these options has; or ModelError."""
    dictionaries: dict[str, Dictionary] = {}
    if options.is_unicode:
        dictionaries[CHARACTERS_FILE] = read_characters(characters)
    if options.word_dim:
        dictionaries[WORDS_FILE] = read_words(words)
    return dictionaries


def token_ids_of(
    options: Options, dictionaries: Mapping[str, Dictionary], *, matrix: str
) -> TokenIds:
    """From tokens to the ids in dictionaries; a ModelError if they do not fit the matrices.

    Args:
        options: with the rows of the matrices.
        matrix: the name of the file with the matrices, for the message.
    """
    characters = dictionaries[CHARACTERS_FILE]
    characters.check_rows(options.n_characters, matrix=matrix)
    words = dictionaries.get(WORDS_FILE)
    if words is not None:
        words.check_rows(options.n_words, matrix=matrix)
    return UnicodeCharacterIds(
        characters=characters.ids,
        words=None if words is None else words.ids,
        max_characters=options.max_characters,
    )
