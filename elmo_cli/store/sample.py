"""A sample of the sentences of an embeddings file, to compute them again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.layouts import Array, Key
from elmo_cli.store.reader import Embeddings, open_embeddings
from elmo_cli.store.shards import sentences_of_shard
from elmo_cli.text.sentence import Sentence

_TEXT = "give the text of the file with `text`, and the same input settings"


@dataclass(frozen=True)
class Sample:
    """Key, tokens and array of some sentences of a file, with what recomputing them needs.

    Those whose tokens the file does not record are passed over, and counted.
    """

    path: str
    attributes: dict[str, Any]
    dtype: str
    sentences: list[tuple[Key, tuple[str, ...], Array]]
    passed_over: int = 0


def take_sample(
    path: str | os.PathLike[str], n: int, text: Iterable[Sentence] | None = None
) -> Sample:
    """Read `n` sentences of a file, evenly spread.

    Args:
        text: all sentences of the whole text, for files that do not record tokens.
    Raises:
        EmbeddingsFileError: the file is of another text, or corrupt.
        UsageError: the tokens are not known, or each vector depends on the text before it.
    """
    with open_embeddings(path) as embeddings:
        state = embeddings.attributes.get("state", "zero")
        if embeddings.unit == "types" or state not in ("zero", "warm"):
            why = f"made with `state={state}`, where a vector depends on the text before it"
            why = "holds types, not sentences" if embeddings.unit == "types" else why
            hint = "embed again with the same settings and compare the two files"
            raise UsageError(f"{path}: {why}", hint)
        recorded = None if text is None else _tokens_by_key(embeddings, text)
        keys: list[Key] = list(embeddings if recorded is None else recorded)
        chosen = np.linspace(0, len(keys) - 1, min(n, len(keys))).round().astype(int).tolist()
        sentences = list[tuple[Key, tuple[str, ...], Array]]()
        for key in (keys[i] for i in chosen):
            tokens = embeddings.tokens(key) if recorded is None else recorded[key]
            if tokens is not None:
                sentences.append((key, tokens, embeddings[key]))
        if chosen and not sentences:
            raise UsageError(f"{path}: does not record the tokens of its sentences", _TEXT)
        return Sample(
            os.fspath(path),
            embeddings.attributes,
            str(embeddings.stored_dtype),
            sentences,
            len(chosen) - len(sentences),
        )


def _tokens_by_key(embeddings: Embeddings, text: Iterable[Sentence]) -> dict[Key, tuple[str, ...]]:
    own = list(sentences_of_shard(embeddings, text))
    found = {embeddings.key_of(sentence): sentence.tokens for sentence in own}
    n = len(embeddings) + embeddings.count("duplicate_sentences")
    if len(own) != n or not all(key in embeddings for key in found):
        what = f"has {n} sentences, the text {len(own)}{' others' * (len(own) == n)}"
        raise EmbeddingsFileError(f"{embeddings.path}: {what}", _TEXT)
    return found
