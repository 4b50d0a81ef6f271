"""Locks on files: one process at a time, whatever happens to the file and to the process."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from threading import Timer

import pytest

from elmo_cli.file_locks import FileLock, abandoned_lock, holding_lock


def test_one_process_at_a_time(tmp_path: Path) -> None:
    """Two writers of one file would write over each other's bytes."""
    first = FileLock(tmp_path / "lock")
    second = FileLock(tmp_path / "lock")
    assert first.acquire()
    assert not second.acquire()
    waited: list[str] = []

    def on_wait() -> None:
        waited.append("second")
        first.release()

    assert second.acquire(wait=True, on_wait=on_wait)
    assert waited == ["second"]
    assert not first.acquire()
    second.release()


def test_a_lock_is_abandoned_if_it_exists_and_nobody_holds_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with abandoned_lock(path) as is_abandoned:
        assert not is_abandoned
    held = FileLock(path)
    held.acquire()
    with abandoned_lock(path) as is_abandoned:
        assert not is_abandoned
    assert path.exists()
    held.release()
    with abandoned_lock(path) as is_abandoned:
        assert is_abandoned
        assert not FileLock(path).acquire()
    assert not path.exists()


def test_a_lock_on_a_replaced_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that held the lock renamed the file: its successor would write to that one."""
    path = tmp_path / "lock"
    flock = fcntl.flock

    def flock_after_renaming(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.rename(tmp_path / "old")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_renaming)
    lock = FileLock(path)
    assert lock.acquire()
    assert os.path.samestat(os.fstat(lock.descriptor), path.stat())
    lock.release()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing could be written there at all."""

    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    lock = FileLock(tmp_path / "lock")
    assert lock.acquire()
    assert os.listdir(tmp_path) == ["lock"]
    lock.release()


def test_an_error_of_a_lock_is_not_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes could write one file."""

    def fail(descriptor: int, operation: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", fail)
    lock = FileLock(tmp_path / "lock")
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        lock.acquire()
    assert lock.descriptor == -1


def test_a_held_lock_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first = FileLock(path)
    first.acquire()
    waited: list[str] = []
    Timer(0.05, first.release).start()
    with holding_lock(path, lambda: waited.append("once")):
        assert waited == ["once"]
        assert not FileLock(path).acquire()
    assert not path.exists()
