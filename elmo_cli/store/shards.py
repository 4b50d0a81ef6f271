"""Shards: a run in n contiguous ranges of blocks, each written to a normal embeddings file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.reader import Embeddings
from elmo_cli.text.sentence import Sentence

MAX_SHARDS = 99_999


def parse_shard(text: str) -> tuple[int, int]:
    """The (i, n) that "i/n" means: the i-th of n shards, counted from 1.

    Raises:
        UsageError: not two numbers with 1 <= i <= n <= 99,999.
    """
    match = re.fullmatch(r"([0-9]{1,18})/([0-9]{1,18})", text.strip())
    i, n = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= i <= n <= MAX_SHARDS:
        raise UsageError(
            f"`shard={text}`: expected i/n with 1 <= i <= n <= {MAX_SHARDS}", "for example 3/16"
        )
    return i, n


def shard_of(embeddings: Embeddings) -> tuple[int, int] | None:
    """The (i, n) of an embeddings file; None if it is not a shard.

    Raises:
        EmbeddingsFileError: its attribute `shard` is not of the form i/n.
    """
    shard = embeddings.attributes.get("shard")
    if shard is None:
        return None
    try:
        return parse_shard(str(shard))
    except UsageError:
        raise EmbeddingsFileError(
            f"{embeddings.path}: the attribute `shard` is {shard!r}, not i/n",
            "embed this shard of the text again",
        ) from None


def sentences_of_shard(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """The sentences of the whole text that the file was made from: of a shard, as many as it read.

    Only the shard itself, and the end of the text, say where the last shard ends.
    """
    shard = shard_of(embeddings)
    if shard is None:
        yield from sentences
        return
    rest = (sentence for sentence in sentences if sentence.key >= embeddings.first_sentence)
    n_read = embeddings.count("sentences") + embeddings.count("duplicate_sentences")
    yield from rest if shard[0] == shard[1] else islice(rest, n_read)


def shard_range(n_blocks: int, i: int, n: int) -> range:
    """The blocks of the i-th of n shards (i from 1): sizes differ by one at most.

    With fewer blocks than shards some ranges are empty; all of them in order are all blocks once.
    """
    return range(n_blocks * (i - 1) // n, n_blocks * i // n)


def shard_name(i: int, n: int) -> str:
    """The name of the i-th of n shards (i from 1): `part-00003-of-00016`."""
    return f"part-{i:05d}-of-{n:05d}"
