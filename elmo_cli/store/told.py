"""Tokens that are told by a line: those of a file that holds lines and not their tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from elmo_cli.store.naming import Facts
from elmo_cli.text.input import InputSettings, format_of

KNOWS_TOKENS = ("flat", "manylangs")  # others at best know lines


def split_at_white_space(attributes: Mapping[str, Any]) -> bool:
    """Whether the tokens of a file are what lies between white space, by what it says of its run.

    Files of other programs, which say nothing, were made of such lines. Tokens of jsonl and CoNLL
    may hold white space themselves, and those of raw text are parts of its words.
    """
    if attributes.get("tokenizer", "whitespace") != "whitespace":
        return False
    read_as = attributes.get("format", "plain")
    if read_as != "auto":
        return bool(read_as == "plain")
    try:
        names = [str(name) for name, _ in attributes.get("sources", [])]
    except (TypeError, ValueError):  # a damaged attribute
        return False
    return all(format_of(name, InputSettings()) == "plain" for name in names)


def told_tokens(facts: Facts, n_tokens: int | None, *, is_split: bool) -> tuple[str, ...] | None:
    """The tokens of a sentence, None where its line may stand for others.

    Args:
        facts: with the line, and with tokens as if it was split at white space.
        n_tokens: how many the sentence has, None where its array does not say.
        is_split: whether it surely was, see `split_at_white_space`.
    """
    tokens = facts.tokens
    if tokens is None or n_tokens not in (None, len(tokens)):
        return None
    # Tokens that were joined by spaces, as many as lie between single spaces, are these.
    return tokens if is_split or (n_tokens is not None and facts.text == " ".join(tokens)) else None
