"""What becomes of an unfinished output that nothing can go on with: it goes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from elmo_cli.errors import KeptError, OutputError, ResumeError
from elmo_cli.lock import open_locked
from elmo_cli.store.journal import read_journal
from elmo_cli.store.place import part_path, real_path, remove_side_files
from elmo_cli.store.writer import EmbeddingsWriter


@contextmanager
def whole_or_nothing(out: str | os.PathLike[str], **settings: Any) -> Iterator[EmbeddingsWriter]:
    """The writer of a new file, of which nothing stays if it does not become whole.

    Args:
        out: the file.
        settings: as for `EmbeddingsWriter.create`.
    Raises:
        UsageError, OutputError: as of `create`; no hint speaks of `--resume`.
    """
    try:
        with EmbeddingsWriter.create(out, **settings) as writer:
            try:
                yield writer
            except BaseException:
                discard(writer, out)
                raise
    except KeptError as error:
        raise OutputError(error.message, error.anew) from None


def discard(writer: EmbeddingsWriter, out: str | os.PathLike[str]) -> None:
    """Remove the unfinished file of a writer, and what lies beside it."""
    writer.abandon()
    _remove(part_path(real_path(os.fspath(out))))


@contextmanager
def cleared_on_crash(out: str | os.PathLike[str]) -> Iterator[None]:
    """Leave nothing of an output whose writer ran in a child process and died with it.

    An unfinished file that was there before, or that another process is writing, is another run's,
    and stays.
    """
    part = part_path(real_path(os.fspath(out)))
    was_there = part.exists()
    try:
        yield
    except BaseException:
        if not was_there:
            _remove(part)
        raise


def _remove(part: Path) -> None:
    """Remove an unfinished file and what lies beside it, unless another process writes it.

    One that is whole, and only could not have its name, stays as well.
    """
    if _is_whole(part):
        return
    if not part.exists():
        remove_side_files(part)
        return
    try:
        descriptor = open_locked(part, OutputError(f"{part}: another process is writing"))
    except OSError:  # it is being written, or can't be touched
        return
    try:
        # First, since a part that a kill left without its journal would pass for a user's own file.
        part.unlink(missing_ok=True)
        remove_side_files(part)
    finally:
        os.close(descriptor)


def _is_whole(part: Path) -> bool:
    with suppress(ResumeError, OSError):
        journal = read_journal(part)
        # An emptied part may have an old journal for a moment.
        return journal is not None and journal.finished and part.stat().st_size >= journal.size > 0
    return False
