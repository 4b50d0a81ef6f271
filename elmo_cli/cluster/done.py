"""Done: what became of a job on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from elmo_cli.text.input import InputReport

Row = dict[str, Any]  # what became of a piece


@dataclass
class Done:
    """What became of a job.

    Attributes:
        rows: what became of each piece, in order.
        notes: what the reader noticed.
        skipped_list: name of the list in the folder of what `--on-error skip` left out; empty for
            none.
        others: names of shards in the folder that are not of this job.
    """

    rows: list[Row]
    notes: InputReport
    skipped_list: str = ""
    others: list[str] = field(default_factory=list)

    @property
    def shards(self) -> list[str]:
        """Names of the shards that are there, in order."""
        return [str(row["name"]) for row in self.rows if not row["error"]]

    @property
    def missing(self) -> list[Row]:
        """Rows of the pieces that have no shard."""
        return [row for row in self.rows if row["error"]]

    @property
    def n_shards(self) -> int:
        """How many there have to be: a piece has one row, whatever became of it."""
        return len(self.rows)
