"""Done: what became of a job on a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from elmo_cli.text.notes import Notes

Row = dict[str, Any]  # what became of a piece


@dataclass
class Done:
    """What became of a job.

    Attributes:
        shards: names of the shards in order, those that are missing left out.
        rows: what became of each piece, in order.
        notes: what the reader noticed.
        n_shards: how many there have to be.
        missing: rows of the pieces that have no shard.
        others: names of shards in the folder that are not of this job.
        skipped_list: name of the list there of what `--on-error skip` left out; empty for none.
    """

    shards: list[str]
    rows: list[Row]
    notes: Notes
    n_shards: int
    missing: list[Row] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    skipped_list: str = ""
