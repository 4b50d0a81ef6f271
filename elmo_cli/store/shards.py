"""A run in n shards: contiguous runs of blocks, each written to a normal file of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from elmo_cli.errors import EmbeddingsFileError, UsageError

MAX_SHARDS = 99_999


def parse_shard(text: str) -> tuple[int, int]:
    """The (i, n) that "i/n" means: the i-th of n shards, counted from 1.

    Raises:
        UsageError: not two numbers with 1 <= i <= n <= 99,999.
    """
    match = re.fullmatch(r"([0-9]{1,18})/([0-9]{1,18})", text.strip())
    if match is None:
        raise UsageError(f"--shard {text}: not of the form i/n", "for example `--shard 3/16`")
    i, n = int(match[1]), int(match[2])
    if not 1 <= i <= n:
        what = "there is no shard 0" if i == 0 else f"i = {i} is greater than n = {n}"
        raise UsageError(f"--shard {text}: {what}", f"i goes from 1 to n: `--shard 1/{max(n, 1)}`")
    if n > MAX_SHARDS:
        raise UsageError(f"--shard {text}: {n} shards, at most {MAX_SHARDS}", "take fewer shards")
    return i, n


def shard_of(path: str | os.PathLike[str], attributes: Mapping[str, Any]) -> tuple[int, int]:
    """The (i, n) of a file that has an attribute `shard`.

    Raises:
        EmbeddingsFileError: it is not of the form i/n.
    """
    try:
        return parse_shard(str(attributes["shard"]))
    except UsageError:
        raise EmbeddingsFileError(
            f"{path}: its attribute `shard` is {attributes['shard']!r}, not i/n",
            "make the shard anew with `elmo embed --shard i/n`",
        ) from None


def shard_range(n_blocks: int, i: int, n: int) -> range:
    """The blocks of the i-th of n shards (i from 1): sizes differ by one at most.

    With fewer blocks than shards some ranges are empty; all of them in order are all blocks once.
    """
    return range(n_blocks * (i - 1) // n, n_blocks * i // n)


def shard_name(i: int, n: int) -> str:
    """The name of the i-th of n shards (i from 1): `part-00003-of-00016`."""
    return f"part-{i:05d}-of-{n:05d}"
