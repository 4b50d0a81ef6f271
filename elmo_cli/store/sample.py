"""A sample of the sentences of an embeddings file, to compute them again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.layouts import Array, Key
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.store.shards import sentences_of_shard
from elmo_cli.text.sentence import Sentence

_LOOK_AHEAD = 10_000  # sentences without recorded tokens in a row, after which none is expected


@dataclass(frozen=True)
class Sample:
    """Some sentences of a file.

    Attributes:
        path, attributes: of the file.
        dtype: of its values.
        sentences: key, tokens and array of each.
        passed_over: sentences that were not taken since the file does not record their tokens; the
            next ones were taken in their place.
    """

    path: str
    attributes: dict[str, Any]
    dtype: str | None
    sentences: list[tuple[Key, tuple[str, ...], Array]]
    passed_over: int = 0


def take_sample(
    path: str | os.PathLike[str], n: int, text: Sequence[Sentence] | None = None
) -> Sample:
    """Read `n` sentences of a file, evenly spread.

    Args:
        path: an embeddings file whose sentences start from the zero or the warm state.
        text: all sentences of the text, for files that do not record tokens; of a shard the whole
            text's.
    Raises:
        EmbeddingsFileError: the file is of another text, or corrupt.
        UsageError: the tokens are not known, or each vector depends on the text before it.
    """
    with open_embeddings(path) as embeddings:
        _check_computable(embeddings)
        found: dict[Key, tuple[tuple[str, ...], Array]] = {}
        passed_over = 0
        if text is not None:
            text = _checked_text(embeddings, text)
            for place in _spread(n, len(text)):
                key, tokens = embeddings.key_of(text[place]), text[place].tokens
                if key not in embeddings:
                    raise _other_text(embeddings, f"has no sentence {key!r}, the text has it")
                found.setdefault(key, (tokens, embeddings[key]))
        else:
            keys = list(embeddings)
            for place in _spread(n, len(keys)):
                key, tokens, n_before = _next_recorded(embeddings, keys, place)
                found.setdefault(key, (tokens, embeddings[key]))
                passed_over += n_before
        stored = embeddings.stored_dtype
        return Sample(
            os.fspath(path),
            dict(embeddings.attributes),
            None if stored is None else stored.name,
            [(key, *one) for key, one in found.items()],
            passed_over,
        )


def _spread(n: int, total: int) -> list[int]:
    places = np.linspace(0, total - 1, min(n, total)).round().astype(int)
    return np.unique(places).tolist() if total else []


def _next_recorded(
    embeddings: Embeddings, keys: Sequence[Key], place: int
) -> tuple[Key, tuple[str, ...], int]:
    """The first sentence from a place on whose tokens are recorded, and how many come before it."""
    for n_before in range(min(len(keys), _LOOK_AHEAD)):
        key = keys[(place + n_before) % len(keys)]
        tokens = embeddings.tokens(key)
        if tokens is not None:
            return key, tokens, n_before
    raise UsageError(
        f"{embeddings.path}: does not record the tokens of its sentences",
        "`text` names the text that it was made from",
    )


def _checked_text(embeddings: Embeddings, text: Sequence[Sentence]) -> list[Sentence]:
    own = list(sentences_of_shard(embeddings, text))
    n_read = len(embeddings) + embeddings.count("duplicate_sentences")
    if len(own) != n_read:
        raise _other_text(embeddings, f"has {n_read} sentences, the text {len(own)}")
    return own


def _other_text(embeddings: Embeddings, what: str) -> EmbeddingsFileError:
    return EmbeddingsFileError(
        f"{embeddings.path}: {what}",
        "`text` names the text that it was made from, read with the same settings",
    )


def _check_computable(embeddings: Embeddings) -> None:
    state = embeddings.attributes.get("state", "zero")
    if state not in ("zero", "warm"):
        raise UsageError(
            f"{embeddings.path}: made with `state={state}`, where a vector depends on the text "
            "before it",
            "embed the text again with the same settings and compare the two files",
        )
    if embeddings.unit == "types":
        raise UsageError(
            f"{embeddings.path}: holds types, not sentences",
            "embed the vocabulary again and compare the two files",
        )
