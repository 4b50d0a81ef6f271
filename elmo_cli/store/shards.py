"""Shards: a run in n contiguous ranges of blocks, each written to a normal embeddings file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.reader import Embeddings
from elmo_cli.text.sentence import Sentence


def parse_shard(text: str) -> tuple[int, int]:
    """The (i, n) that "i/n" means: the i-th of n shards, from 1; a UsageError for other text."""
    match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text.strip())
    i, n = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= i <= n:
        what = f"`shard={text}`: expected i/n with 1 <= i <= n <= 99999"
        raise UsageError(what, "for example 3/16")
    return i, n


def shard_of(embeddings: Embeddings) -> tuple[int, int] | None:
    """The (i, n) of an embeddings file; None if it is not a shard."""
    shard = embeddings.attributes.get("shard")
    try:
        return None if shard is None else parse_shard(str(shard))
    except UsageError:
        what = f"the attribute `shard` is {shard!r}, not i/n"
        raise EmbeddingsFileError(f"{embeddings.path}: {what}", "embed the shard again") from None


def sentences_of_shard(embeddings: Embeddings, sentences: Iterable[Sentence]) -> Iterator[Sentence]:
    """The sentences of the whole text that a file was made from; the last shard's to the end."""
    i, n = shard_of(embeddings) or (1, 1)
    n_read = embeddings.count("sentences") + embeddings.count("duplicate_sentences")
    rest = (one for one in sentences if n == 1 or one.key >= embeddings.first_sentence)
    return rest if i == n else islice(rest, n_read)


def shard_range(n_blocks: int, i: int, n: int) -> range:
    """The blocks of the i-th of n shards, whose sizes differ by one at most; it may be empty."""
    return range(n_blocks * (i - 1) // n, n_blocks * i // n)


def shard_name(i: int, n: int) -> str:
    """The name of the i-th of n shards (i from 1): `part-00003-of-00016`."""
    return f"part-{i:05d}-of-{n:05d}"
