"""A sample of the sentences of an embeddings file, to compute them again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
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
        passed_over: number of sentences that were not taken since the file does not record their
            tokens; the next ones were taken in their place.
    """

    path: str
    attributes: dict[str, Any]
    dtype: str | None
    sentences: list[tuple[Key, tuple[str, ...], Array]]
    passed_over: int = 0


def take_sample(
    path: str | os.PathLike[str], n: int, text: Iterable[Sentence] | None = None
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
        choices = _from_file(embeddings, n) if text is None else _from_text(embeddings, n, text)
        found: dict[Key, tuple[str, ...]] = {}
        passed_over: set[int] = set()
        for key, tokens, passed in choices:
            found[key] = tokens
            passed_over.update(passed)
        stored = embeddings.stored_dtype
        return Sample(
            os.fspath(path),
            dict(embeddings.attributes),
            None if stored is None else stored.name,
            [(key, tokens, embeddings[key]) for key, tokens in found.items()],
            len(passed_over),
        )


_Choice = tuple[Key, tuple[str, ...], Iterable[int]]  # and the positions that were passed over


def _spread(n: int, total: int) -> list[int]:
    places = np.linspace(0, total - 1, min(n, total)).round().astype(int)
    return np.unique(places).tolist() if total else []


def _from_file(embeddings: Embeddings, n: int) -> Iterator[_Choice]:
    """Sentences whose tokens the file records: the first ones from evenly spread places on."""
    keys = list(embeddings)
    for place in _spread(n, len(keys)):
        following = islice(chain(keys[place:], keys[:place]), _LOOK_AHEAD)
        recorded = ((i, key, embeddings.tokens(key)) for i, key in enumerate(following))
        i, key, tokens = next((one for one in recorded if one[2] is not None), (0, 0, None))
        if tokens is None:
            raise UsageError(
                f"{embeddings.path}: does not record the tokens of its sentences",
                "`text` names the text that it was made from",
            )
        yield key, tokens, range(place, place + i)


def _from_text(embeddings: Embeddings, n: int, text: Iterable[Sentence]) -> Iterator[_Choice]:
    own = list(sentences_of_shard(embeddings, text))
    n_read = len(embeddings) + embeddings.count("duplicate_sentences")
    if len(own) != n_read:
        raise _other_text(embeddings, f"has {n_read} sentences, the text {len(own)}")
    for sentence in (own[place] for place in _spread(n, len(own))):
        key = embeddings.key_of(sentence)
        if key not in embeddings:
            raise _other_text(embeddings, f"has no sentence {key!r}, the text has it")
        yield key, sentence.tokens, ()


def _other_text(embeddings: Embeddings, what: str) -> EmbeddingsFileError:
    hint = "`text` names the text that it was made from, read with the same settings"
    return EmbeddingsFileError(f"{embeddings.path}: {what}", hint)


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
