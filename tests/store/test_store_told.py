"""Tokens that a line tells: these, or none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_cli.store.naming import Facts
from elmo_cli.store.told import split_at_white_space, told_tokens

TOKENS = st.lists(st.text("ab \t", min_size=1, max_size=3), max_size=4)


@given(TOKENS, st.booleans())
def test_tokens_with_white_space_are_never_told_wrongly(tokens: list[str], counted: bool) -> None:
    """jsonl and CoNLL-U may hold `10 000`; its parts would be embedded, or kept as tokens."""
    line = " ".join(tokens)
    facts = Facts(0, text=line, tokens=tuple(line.split()))
    found = told_tokens(facts, len(tokens) if counted else None, is_split=False)
    assert found in (None, tuple(tokens))
    if counted and all(token.strip() == token and len(token.split()) == 1 for token in tokens):
        assert found == tuple(tokens)


@given(st.text("ab \t", max_size=8))
def test_lines_that_were_split_at_white_space_tell_all(line: str) -> None:
    """Also where white space is doubled, and of pooled files."""
    tokens = tuple(line.split())
    facts = Facts(0, text=line, tokens=tokens)
    assert told_tokens(facts, None, is_split=True) == tokens
    assert told_tokens(facts, len(tokens), is_split=True) == tokens
    assert told_tokens(facts, len(tokens) + 1, is_split=True) is None


@pytest.mark.parametrize(
    ("attributes", "is_split"),
    [
        ({}, True),
        ({"format": "plain", "tokenizer": "whitespace"}, True),
        ({"format": "plain", "tokenizer": "english"}, False),
        ({"format": "jsonl", "tokenizer": "whitespace"}, False),
        ({"format": "auto", "sources": [["a.txt", 0], ["-", 5]]}, True),
        ({"format": "auto", "sources": [["a.txt.xz", 0], ["b.conllu.gz", 5]]}, False),
        ({"format": "auto", "sources": 7}, False),
    ],
)
def test_how_lines_were_split(attributes: dict[str, Any], is_split: bool) -> None:
    assert split_at_white_space(attributes) is is_split
