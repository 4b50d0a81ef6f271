"""A sample of an embeddings file: some of its sentences, to compute them again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.against import own_part
from elmo_cli.store.datasets import Array
from elmo_cli.store.lookup import key_of
from elmo_cli.store.naming import Key
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.text.sentence import Sentence

_LOOK_AHEAD = 10_000  # sentences; so many in a row whose tokens are not told, and none will be


@dataclass(frozen=True)
class Sample:
    """What a file holds of some of its sentences.

    Attributes:
        path, attributes: of the file.
        stored: type of its values.
        sentences: key, tokens and array of each.
    """

    path: str
    attributes: dict[str, Any]
    stored: str | None
    sentences: list[tuple[Key, tuple[str, ...], Array]]


def take_sample(
    path: str | os.PathLike[str], n: int, text: Sequence[Sentence] | None = None
) -> Sample:
    """Read `n` sentences of a file, evenly spread; the model is not needed for it.

    Args:
        path: an embeddings file whose sentences start from the zero or the warm state.
        text: every sentence in order, for layouts that do not hold the tokens; of a shard the
            whole text's.
    Raises:
        EmbeddingsFileError: another text's file, or a damaged one.
        UsageError: the tokens are not known, or each vector depends on the text before it.
    """
    with open_embeddings(path) as embeddings:
        _check_computable(embeddings)
        keys = list(embeddings)
        # Of equal sentences manylangs has only the first.
        n_read = len(keys) + embeddings.count("duplicates")
        if text is not None:
            text = list(own_part(embeddings, text))
        if text is not None and len(text) != n_read:
            raise EmbeddingsFileError(
                f"{path}: has {n_read} sentences, the text {len(text)}",
                "`--text` names the text that it was made from, read with the same options",
            )
        n_places = len(keys) if text is None else len(text)
        picked = np.unique(np.linspace(0, n_places - 1, min(n, n_places)).round().astype(int))
        found: dict[Key, tuple[tuple[str, ...], Array]] = {}
        for place in picked.tolist() if keys else []:
            if text is None:
                key, tokens = _told(embeddings, keys, place)
            else:
                key, tokens = key_of(embeddings, text[place]), text[place].tokens
            if key not in found:
                found[key] = tuple(tokens), _held(embeddings, key)
        stored = embeddings.stored_dtype
        return Sample(
            os.fspath(path),
            dict(embeddings.attributes),
            None if stored is None else stored.name,
            [(key, *one) for key, one in found.items()],
        )


def _told(embeddings: Embeddings, keys: Sequence[Key], place: int) -> tuple[Key, Sequence[str]]:
    """The first sentence from a place on whose tokens the file tells: of equal lines only one."""
    for key in islice(chain(keys[place:], keys[:place]), _LOOK_AHEAD):
        try:
            tokens = embeddings.tokens(key)
        except KeyError:
            raise EmbeddingsFileError(
                f"{embeddings.path}: names sentence {key!r}, and has no array of it",
                "the file is damaged: copy it again, or make it anew with `elmo embed`",
            ) from None
        if tokens is not None:
            return key, tokens
    raise UsageError(
        f"{embeddings.path}: the layout {embeddings.layout} does not hold the sentences",
        "`--text FILE` gives the text that it was made from",
    )


def _held(embeddings: Embeddings, key: Key) -> Array:
    try:
        return embeddings.sentences.array(key)
    except KeyError:
        raise EmbeddingsFileError(
            f"{embeddings.path}: has no sentence {key!r}, the text has it",
            "`--text` names the text that it was made from, read with the same options",
        ) from None


def _check_computable(embeddings: Embeddings) -> None:
    state = embeddings.attributes.get("state", "zero")
    if state not in ("zero", "warm"):
        raise UsageError(
            f"{embeddings.path}: made with --state {state}, where a vector depends on the text "
            "before it",
            "embed the text anew with the same settings and compare the two files",
        )
    if embeddings.layout == "bilm-types":
        raise UsageError(
            f"{embeddings.path}: holds types, not sentences",
            "embed the vocabulary anew and compare",
        )
