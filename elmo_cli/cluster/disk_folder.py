"""DiskFolder: the folder of the shards on a disk that all machines see."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from elmo_cli.cluster.unfinished import SHARDS, UNFINISHED, is_left, unfinished_name
from elmo_cli.store.writer import finished_attributes


class DiskFolder:
    """A folder of this machine, or one that is mounted on all; see `Folder`.

    Args:
        mark: what the names of a run's unfinished files begin with.
    """

    def __init__(self, path: str, mark: str) -> None:
        self._path, self._mark = Path(path), mark
        self._unfinished = self._path / UNFINISHED

    def make(self) -> None:
        """See `Folder.make`."""
        self._path.mkdir(parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """See `Folder.has`."""
        return (self._path / name).is_file()

    def absent(self, names: Iterable[str]) -> set[str]:
        """See `Folder.absent`."""
        return {name for name in names if not self.has(name)}

    def others(self, names: Iterable[str]) -> list[str]:
        """See `Folder.others`."""
        return sorted({path.name for path in self._path.glob(SHARDS)} - set(names))

    def facts(self, name: str) -> dict[str, Any]:
        """See `Folder.facts`."""
        return finished_attributes(str(self._path / name))

    @contextmanager
    def working(self) -> Iterator[Path]:
        """See `Folder.working`."""
        self._unfinished.mkdir(parents=True, exist_ok=True)
        working = self._unfinished / unfinished_name(self._mark)
        try:
            yield working
        finally:
            working.unlink(missing_ok=True)

    def fetch(self, name: str, copy: Path) -> None:
        """See `Folder.fetch`."""
        shutil.copyfile(self._path / name, copy)

    def put(self, working: Path, name: str) -> None:
        """See `Folder.put`."""
        os.replace(working, self._path / name)

    def clean_up(self) -> None:
        """See `Folder.clean_up`."""
        for path in self._unfinished.glob("*"):
            with suppress(OSError):  # it may have got its name meanwhile
                if path.name.startswith(self._mark) or is_left(path.stat().st_mtime):
                    path.unlink()
        with suppress(OSError):  # refused while there is something in it
            self._unfinished.rmdir()
