"""ShardNumber: which of the n shards of a run a file is, with its blocks and its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from elmo_cli.errors import UsageError


@dataclass(frozen=True)
class ShardNumber:
    """The `i`-th of `n` shards, from 1; as text `3/16`, in a command and in a file."""

    i: int
    n: int

    @classmethod
    def parse(cls, text: str) -> ShardNumber:
        """The number that "i/n" means; a UsageError for other text."""
        match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text.strip())
        if match is not None:
            i = int(match[1])
            n = int(match[2])
            if 1 <= i <= n:
                return cls(i, n)
        problem = "expected i/n with 1 <= i <= n <= 99999"
        raise UsageError(problem, "for example 3/16", where=f"`shard={text}`")

    def __str__(self) -> str:
        return f"{self.i}/{self.n}"

    @property
    def is_last(self) -> bool:
        """Whether the text ends with this shard."""
        return self.i == self.n

    @property
    def file_stem(self) -> str:
        """The name of its file without suffix: `part-00003-of-00016`."""
        return f"part-{self.i:05d}-of-{self.n:05d}"

    def blocks_of(self, n_blocks: int) -> range:
        """Its blocks, of all blocks of a text; the sizes of shards differ by one at most.

        The range is empty if there are fewer blocks than shards.
        """
        return range(n_blocks * (self.i - 1) // self.n, n_blocks * self.i // self.n)


WHOLE_TEXT = ShardNumber(1, 1)
