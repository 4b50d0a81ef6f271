"""Part: the unfinished file OUT.part, what lies beside it, and how it becomes OUT.

Which files are there tells how far a run came, so the order in which they are made and removed
matters: a journal without a part file means that the part file was renamed; a part file that is
empty means that nothing is committed. Before anything is written to a part file it has a journal,
so one that has none and is not empty is somebody else's.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from elmo_cli.errors import KeptError, OutputError, ResumeError
from elmo_cli.lock import open_locked, share_lock
from elmo_cli.store.journal import (
    Journal,
    check_settings,
    journal_path,
    read_journal,
    write_journal,
)
from elmo_cli.store.journaled_file import JournaledFile, roll_back
from elmo_cli.store.place import (
    is_finished,
    may_be_ours,
    output_errors,
    part_path,
    real_path,
    remove_side_files,
    side_files,
)
from elmo_cli.whole_file import give_name

FSYNC_INTERVAL_S = 30.0


class Part:
    """An open, locked part file.

    Attributes:
        name: the part file as messages call it.
    """

    def __init__(self, out: str) -> None:
        """Open and lock OUT.part; it is made if it is not there.

        Raises:
            OutputError: the place can't be written to, or another process is writing.
        """
        self.name = f"{out}.part"
        self._out_name = out
        self._journal: Journal | None = None
        self._out = real_path(out)
        self._path = part_path(self._out)
        self._undo_path = Path(f"{self._path}.undo")
        self._synced_s = time.monotonic()
        self._refusal = OutputError(
            f"{self.name}: another process is writing", "wait for it, or choose another `-o`"
        )
        with output_errors(self.name):
            self._descriptor = open_locked(self._path, self._refusal)
            if is_finished(out):  # a kill has left OUT both names; OUT is not to be written to
                self._path.unlink()
                self.close()
                self._descriptor = open_locked(self._path, self._refusal)

    def begin(self, journal: Journal) -> None:
        """Begin with the first record.

        Args:
            journal: that record; if it may overwrite, what another run committed is thrown away.
        Raises:
            OutputError: sentences are committed and not to be overwritten, or it is somebody
                else's.
        """
        overwrite = journal.overwrite
        if not overwrite:
            refuse_committed(self._out_name, self._read_journal())
        self._refuse_foreign(overwrite=overwrite)
        with output_errors(self.name):
            # Empty first: with the part at 0 bytes no reader believes the old journal.
            os.ftruncate(self._descriptor, 0)
            for path in side_files(self._path):
                path.unlink(missing_ok=True)
            write_journal(self._path, journal)
        self._journal = journal

    def to_begin(self, journal: Journal) -> Journal:
        """The first record of a run that was killed before it had written anything.

        Args:
            journal: as it would be without that run, which may have been begun with `--overwrite`.
        """
        with suppress(ResumeError, OSError):
            there = read_journal(self._path)
            if there is not None and there.settings == journal.settings:
                return replace(journal, overwrite=there.overwrite)
        return journal

    def go_on(self, settings: Mapping[str, Any]) -> bool:
        """Go back to the last commit.

        Args:
            settings: those of this run.
        Returns:
            False where nothing is committed; then the part is to `begin`.
        Raises:
            ResumeError: it was made with other settings, or is damaged.
        """
        journal = self._read_journal()
        if journal is None:
            return False
        where = f"{self.name}: unfinished, {journal.sentences} sentences"
        check_settings(where, journal.settings, settings)
        with output_errors(self.name):
            roll_back(
                self._descriptor,
                self._undo_path,
                committed=journal.size,
                block=journal.blocks,
                name=self.name,
            )
        self._journal = journal
        return True

    def open_block(self) -> JournaledFile:
        """The file of the block after the last commit."""
        journal = self.begun
        with output_errors(self.name):
            return JournaledFile(
                self._descriptor, self._undo_path, committed=journal.size, block=journal.blocks
            )

    def commit(self, journal: Journal) -> None:
        """Make what is written so far survive."""
        durable = time.monotonic() - self._synced_s >= FSYNC_INTERVAL_S
        with output_errors(self.name):
            self._write_journal(journal, durable=durable)

    def publish(self, journal: Journal) -> None:
        """Give the whole file its name; `journal` says that it is finished.

        Raises:
            OutputError: a file is there meanwhile that is not to be overwritten; the part stays.
        """
        with output_errors(self.name):
            self._write_journal(journal, durable=True)
            # Before the renaming: a log that outlived it could be taken for the next run's.
            self._undo_path.unlink(missing_ok=True)
            share_lock(self._descriptor, self._refusal)  # HDF5 reads no file that is locked
            if not give_name(self._path, self._out, overwrite=journal.overwrite):
                raise OutputError(
                    f"{self._out_name}: another process has made it meanwhile",
                    f"what this run wrote is whole, and kept as {self.name}: rename it",
                )
            _sync_folder(self._out.parent)
            remove_side_files(self._path)
        self.close()

    def close(self) -> None:
        """Close and unlock; the files stay."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write_journal(self, journal: Journal, *, durable: bool) -> None:
        if durable:
            os.fsync(self._descriptor)
            self._synced_s = time.monotonic()
        write_journal(self._path, journal, durable=durable)
        self._journal = journal

    def _read_journal(self) -> Journal | None:
        with output_errors(self.name):
            is_empty = os.fstat(self._descriptor).st_size == 0
            return None if is_empty else read_journal(self._path)

    def _refuse_foreign(self, *, overwrite: bool) -> None:
        """Refuse a part file, or a file beside it, that no run of ours can have left.

        Args:
            overwrite: the files beside a part file that has a journal may be damaged.
        """
        with output_errors(self.name):
            is_empty = os.fstat(self._descriptor).st_size == 0
            if not is_empty and not journal_path(self._path).exists():
                raise _not_ours(self.name)
            if is_empty or not overwrite:
                for path in side_files(self._path):
                    if not may_be_ours(path):
                        if is_empty:
                            self._path.unlink()  # opened by this run, and nothing is in it
                        raise _not_ours(f"{self.name}{path.name.removeprefix(self._path.name)}")

    @property
    def begun(self) -> Journal:
        """What is committed.

        Raises:
            ValueError: the part has neither begun nor gone on.
        """
        if self._journal is None:
            raise ValueError("the part has no journal yet")
        return self._journal


def refuse_committed(out: str, there: Journal | None) -> None:
    """Refuse to begin OUT where sentences of another run are committed.

    Args:
        there: what the journal of OUT.part says; None where there is none.
    Raises:
        OutputError: it says that there are some.
    """
    if there is not None and there.finished:
        raise OutputError(
            f"{out}.part: whole, only its name is missing",
            f"rename it to {out}; `--overwrite` starts anew",
        )
    if there is not None and there.sentences:
        raise KeptError(
            f"{out}.part: unfinished, {there.sentences} sentences",
            "`--resume` goes on, `--overwrite` starts anew",
            anew="`--overwrite` starts anew; if `elmo embed` began it, its `--resume` goes on",
        )


def _not_ours(name: str) -> OutputError:
    return OutputError(
        f"{name}: is there already, and `elmo embed` did not make it",
        "move it away, or name another file with `-o`",
    )


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some file systems can't; the renaming itself is done
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
