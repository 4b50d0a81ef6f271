"""against: an embeddings file beside the text that it was made from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice

from elmo_cli.errors import UsageError
from elmo_cli.store.damage import damage_as_error
from elmo_cli.store.findings import Findings
from elmo_cli.store.lookup import key_of
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.shards import shard_of
from elmo_cli.text.sentence import Sentence


def against(path: str | os.PathLike[str], sentences: Iterable[Sentence]) -> Findings:
    """Compare a file with the numbers of tokens of a text; a shard with its own part of it.

    Args:
        path: an embeddings file that was not pooled.
        sentences: of the whole text, read as they were for the file.
    Returns:
        the differences.
    Raises:
        UsageError: the file doesn't keep numbers of tokens.
        EmbeddingsFileError: it can't be read, or says no i/n as its `shard`.
    """
    found = Findings()
    with damage_as_error(path), Embeddings(path) as embeddings:
        _check_comparable(embeddings)
        n_sentences = 0
        once = _Once(embeddings)
        for sentence in own_part(embeddings, sentences):
            n_sentences += once.counts(sentence)
            found.add_all(_difference(embeddings, sentence))
        if n_sentences != len(embeddings):
            shard = embeddings.attributes.get("shard")
            of_shard = "" if shard is None else f" for shard {shard}"
            held = len(embeddings)
            found.add(f"the file has {held} sentences, the text {n_sentences}{of_shard}")
    return found


def own_part(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """The sentences of the text that the file is to have: of a shard, as many as it read.

    Nothing tells where a shard was to end but the shard itself, and the end of the text.
    """
    if "shard" not in embeddings.attributes:
        yield from sentences
        return
    i, n = shard_of(embeddings.path, embeddings.attributes)
    first = embeddings.first_sentence
    n_read = embeddings.count("sentences") + embeddings.count("duplicates")
    rest = (sentence for sentence in sentences if sentence.key >= first)
    yield from rest if i == n else islice(rest, n_read)


class _Once:
    """Counts sentences as a file does: ELMoForManyLangs holds equal ones once."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._seen: set[int] | None = set() if embeddings.layout == "manylangs" else None

    def counts(self, sentence: Sentence) -> bool:
        """Whether the sentence is another one than those before."""
        if self._seen is None:
            return True
        n_before = len(self._seen)
        self._seen.add(hash(sentence.tokens))  # the tokens of a big corpus would not fit
        return len(self._seen) > n_before


def _check_comparable(embeddings: Embeddings) -> None:
    if embeddings.is_pooled or embeddings.layout == "bilm-types":
        what = "one vector a type" if embeddings.layout == "bilm-types" else "pooled"
        raise UsageError(
            f"{embeddings.path}: {what}, so it has no number of tokens",
            "`--text` compares files with a vector a token",
        )


def _difference(embeddings: Embeddings, sentence: Sentence) -> Iterator[str]:
    n_tokens = len(sentence.tokens)
    try:
        shape = embeddings.shape(key_of(embeddings, sentence))
    except KeyError:
        yield f"sentence {sentence.key}: not in the file, {n_tokens} tokens in the text"
        return
    if len(shape) < 2 or shape[-2] != n_tokens:
        held = shape[-2] if len(shape) >= 2 else "no"
        yield f"sentence {sentence.key}: {held} tokens in the file, {n_tokens} in the text"
