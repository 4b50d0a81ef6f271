"""SentenceSample: sentences drawn evenly from an embeddings file, to be computed again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import UsageError
from elmo_cli.files import StrPath
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import sentences_of_shard
from elmo_cli.text.sentence import Sentence, Tokens


@dataclass(frozen=True)
class RecomputableSentence:
    """A sentence of a file whose vectors can be computed again.

    Attributes:
        array: as the file holds it.
    """

    key: Key
    tokens: Tokens
    array: AnyArray


@dataclass(frozen=True)
class SentenceSample:
    """Some sentences of a file, with what is needed to recompute them.

    Sentences whose tokens the file does not record are passed over and counted.
    """

    path: str
    attributes: dict[str, Any]
    dtype: str
    sentences: list[RecomputableSentence]
    passed_over: int = 0


def take_sample(path: StrPath, n: int, text: Sequence[Sentence] = ()) -> SentenceSample:
    """Read `n` sentences of a file, evenly spread.

    Args:
        text: all sentences of the whole text, for files that do not record tokens;
            `compare_with_text` reports how the two differ.
    Raises:
        EmbeddingsFileError: the file is corrupt.
        UsageError: the tokens are not known, or each vector depends on the text before it.
    """
    with Embeddings(path) as embeddings:
        _check_recomputable(embeddings)
        if text:
            own = sentences_of_shard(embeddings, text)
            tokens_in_text = {embeddings.key_of(sentence): sentence.tokens for sentence in own}
            keys = [key for key in tokens_in_text if key in embeddings]
        else:
            tokens_in_text = {}
            keys = list(embeddings)
        sentences: list[RecomputableSentence] = []
        n_passed_over = 0
        for key in _evenly_spread(keys, n):
            tokens = tokens_in_text[key] if text else embeddings.tokens(key)
            if tokens is None:
                n_passed_over += 1
            else:
                sentences.append(RecomputableSentence(key, tokens, embeddings[key]))
        if n_passed_over and not sentences:
            problem = "does not record the tokens of its sentences"
            hint = "give the text of the file with `text`, and the same input settings"
            raise UsageError(problem, hint, where=path)
        return SentenceSample(
            path=os.fspath(path),
            attributes=embeddings.attributes,
            dtype=str(embeddings.stored_dtype),
            sentences=sentences,
            passed_over=n_passed_over,
        )


def _check_recomputable(embeddings: Embeddings) -> None:
    """Check that a vector depends on its sentence alone."""
    state = str(embeddings.attributes.get("state", "zero"))
    if embeddings.unit == "types":
        problem = "holds types, not sentences"
    elif state not in ("zero", "warm"):
        problem = f"made with `state={state}`, where a vector depends on the text before it"
    else:
        return
    hint = "embed again with the same settings and compare the two files"
    raise UsageError(problem, hint, where=embeddings.path)


def _evenly_spread(keys: Sequence[Key], n: int) -> list[Key]:
    """At most `n` of the keys, from the first to the last."""
    positions = np.linspace(0, len(keys) - 1, min(n, len(keys))).round().astype(int)
    return [keys[position] for position in positions]
