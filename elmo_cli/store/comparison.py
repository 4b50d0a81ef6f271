"""Compare a file with its text, and read a sample of its sentences to recompute them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.store.inspection import Problems
from elmo_cli.store.layouts import Array, Handle, Key, tokens_digest
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import sentences_of_shard
from elmo_cli.text.sentence import Sentence


def compare_with_text(path: str | os.PathLike[str], sentences: Iterable[Sentence]) -> Problems:
    """Compare the sentences of a file, or of a shard, with the whole text that it was made from.

    Tokens are compared if the file records them or their digests, otherwise only their number.

    Raises:
        UsageError: the file records neither tokens nor how many there are.
    """
    found = Problems()
    with Embeddings(path) as embeddings:
        has_tokens = embeddings.unit == "tokens" or "tokens" in embeddings.records
        if not has_tokens and "token_digests" not in embeddings.attributes:
            what = f"{embeddings.path}: records neither tokens nor how many a sentence has"
            raise UsageError(what, "a text can be compared with a file of vectors of tokens")
        found.add_all(_differences(embeddings, sentences))
    return found


def _differences(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[str]:
    reader, n, n_missing = embeddings.reader, 0, 0
    positions = {handle: i for i, handle in enumerate(reader.handles())}
    seen: set[Handle] = set()
    for sentence in sentences_of_shard(embeddings, sentences):
        n += 1
        try:
            handle = reader.find(embeddings.key_of(sentence))
        except KeyError:
            what = f"not in the file, {len(sentence.tokens)} tokens in the text"
            n_missing += 1
        else:
            what = _difference(
                embeddings, handle, positions.get(handle, len(positions)), sentence.tokens
            )
            seen.add(handle)
        if what:
            yield f"sentence {sentence.key}: {what}"
    n_read = len(embeddings) + embeddings.count("duplicate_sentences")
    if n != n_read:
        shard = embeddings.attributes.get("shard")
        of_shard = f" for shard {shard}" if shard is not None else ""
        yield f"the file was made from {n_read} sentences, the text has {n}{of_shard}"
    elif (n_left := len(embeddings) - len(seen)) > n_missing:
        yield f"the text does not have {n_left} sentences of the file"


def _difference(
    embeddings: Embeddings, handle: Handle, position: int, expected: tuple[str, ...]
) -> str:
    reader, digests = embeddings.reader, embeddings.attributes.get("token_digests")
    tokens, shape = reader.info(handle).tokens, reader.shape(handle)
    if embeddings.unit == "tokens" and len(shape) > 1 and shape[-2] != len(expected):
        return f"{shape[-2]} tokens in the file, {len(expected)} in the text"
    if tokens is None:  # a digest after the last one is empty
        is_equal = digests is None or digests[position:][:1].tobytes() == tokens_digest(expected)
        return "" if is_equal else "its tokens are not those of the text"
    pairs = enumerate(zip(tokens, expected, strict=False))
    at = next((f": token {k} is `{a}`, not `{b}`" for k, (a, b) in pairs if a != b), "")
    return "" if tokens == expected else f"its tokens are not those of the text{at}"


@dataclass(frozen=True)
class Sample:
    """Key, tokens and array of some sentences of a file, with what is needed to recompute them.

    Sentences whose tokens the file does not record are passed over and counted.
    """

    path: str
    attributes: dict[str, Any]
    dtype: str
    sentences: list[tuple[Key, tuple[str, ...], Array]]
    passed_over: int = 0


def take_sample(path: str | os.PathLike[str], n: int, text: Sequence[Sentence] = ()) -> Sample:
    """Read `n` sentences of a file, evenly spread.

    Args:
        text: all sentences of the whole text, for files that do not record tokens;
            `compare_with_text` reports how the two differ.
    Raises:
        EmbeddingsFileError: the file is corrupt.
        UsageError: the tokens are not known, or each vector depends on the text before it.
    """
    with Embeddings(path) as embeddings:
        state = embeddings.attributes.get("state", "zero")
        if embeddings.unit == "types" or state not in ("zero", "warm"):
            why = f"made with `state={state}`, where a vector depends on the text before it"
            why = "holds types, not sentences" if embeddings.unit == "types" else why
            hint = "embed again with the same settings and compare the two files"
            raise UsageError(f"{path}: {why}", hint)
        own = sentences_of_shard(embeddings, text or ())
        of_text = {embeddings.key_of(sentence): sentence.tokens for sentence in own}
        keys: list[Key] = list(filter(embeddings.__contains__, of_text) if text else embeddings)
        chosen = np.linspace(0, len(keys) - 1, min(n, len(keys))).round().astype(int).tolist()
        sentences = list[tuple[Key, tuple[str, ...], Array]]()
        for key in (keys[i] for i in chosen):
            tokens = of_text[key] if text else embeddings.tokens(key)
            if tokens is not None:
                sentences.append((key, tokens, embeddings[key]))
        if chosen and not sentences:
            hint = "give the text of the file with `text`, and the same input settings"
            raise UsageError(f"{path}: does not record the tokens of its sentences", hint)
        return Sample(
            os.fspath(path),
            embeddings.attributes,
            str(embeddings.stored_dtype),
            sentences,
            len(chosen) - len(sentences),
        )
