"""The folder of the shards: what it can do, and which kind an output is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from elmo_cli.cluster.disk_folder import DiskFolder
from elmo_cli.cluster.store_folder import StoreFolder
from elmo_cli.cluster.url import is_url
from elmo_cli.embed.job import EmbedJob


class Folder(Protocol):
    """A folder of shards. Its methods may raise an OSError, which an OutputError is too."""

    def make(self) -> None:
        """See to it that shards can be put there."""

    def has(self, name: str) -> bool:
        """Whether a shard is there; it gets its name when it is whole."""

    def absent(self, names: Iterable[str]) -> set[str]:
        """Which of these shards are not there."""

    def others(self, names: Iterable[str]) -> list[str]:
        """Shards that are there beside these."""

    def facts(self, name: str) -> dict[str, Any]:
        """The attributes of a shard.

        Raises:
            ResumeError: the file is no finished shard.
            OutputError: the system can't read it.
        """

    def working(self) -> AbstractContextManager[Path]:
        """A path to write a shard at; what is still there at the end is removed."""

    def fetch(self, name: str, copy: Path) -> None:
        """Copy a shard to a path of `working`."""

    def put(self, working: Path, name: str) -> None:
        """Give a whole shard its name, whether there is one or not."""

    def clean_up(self) -> None:
        """Remove what workers that died have left, and nothing of another run that is at work."""


def folder_of(job: EmbedJob, home: str) -> Folder:
    """The folder that a job puts its shards into, as another job may at the same time.

    Args:
        home: the folder that names of files are relative to.
    Raises:
        UsageError, OutputError: as `StoreFolder`.
    """
    # The same for all workers of a run, and for the same command when it is given again.
    mark = hashlib.sha256(repr((replace(job, output=""), home)).encode()).hexdigest()[:12]
    return StoreFolder(job.output, mark) if is_url(job.output) else DiskFolder(job.output, mark)
