"""encode_strings and CharacterIds, which encode all tokens at once, compared with one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.text.characters import (
    BEGIN_SENTENCE,
    BEGIN_WORD,
    END_SENTENCE,
    END_WORD,
    PADDING,
    CharacterIds,
)
from elmo_cli.text.utf8 import encode_strings

CHARACTERS = "ab\0é漢😀\ud800\udc00"
TOKENS = st.one_of(st.sampled_from(["<S>", "</S>", "<S>a"]), st.text(CHARACTERS, max_size=20))


@pytest.mark.parametrize("errors", ["surrogatepass", "ignore"])
@given(strings=st.lists(st.text(CHARACTERS, max_size=5), max_size=6))
def test_strings_have_the_bytes_that_each_has_by_itself(errors: str, strings: list[str]) -> None:
    """Also with a NUL, and with halves of a surrogate pair in two strings."""
    content, ends = encode_strings(strings, errors)
    assert len(ends) == len(strings)
    begins = [0, *ends.tolist()]
    for string, begin, end in zip(strings, begins, ends, strict=False):
        assert content[begin:end] == string.encode("utf-8", errors)
    assert len(content) == begins[-1]


def test_half_a_surrogate_pair_is_an_error_unless_the_caller_accepts_it() -> None:
    with pytest.raises(UnicodeEncodeError):
        encode_strings(["a", "\ud800"])


def ids_of(token: str, max_characters: int) -> list[int]:
    """The ids of one token, as bilm-tf computes them."""
    if token in ("<S>", "</S>"):
        characters = [BEGIN_SENTENCE if token == "<S>" else END_SENTENCE]
    else:
        characters = list(token.encode("utf-8", "ignore")[: max_characters - 2])
    ids = [BEGIN_WORD, *characters, END_WORD]
    return ids + [PADDING] * (max_characters - len(ids))


@given(tokens=st.lists(TOKENS, max_size=8), max_characters=st.sampled_from([3, 4, 7, 50]))
def test_ids_of_many_tokens_are_those_of_each(tokens: list[str], max_characters: int) -> None:
    """Tokens may be boundaries, end within a character, or have no bytes at all."""
    ids = CharacterIds(max_characters).tokens(tokens)
    assert ids.dtype == np.int64
    assert ids.shape == (len(tokens), max_characters)
    assert ids.tolist() == [ids_of(token, max_characters) for token in tokens]
