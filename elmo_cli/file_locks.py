"""Locks on files (flock): held, waited for, or left by a killed process.

They are not those of the library filelock, which refuses a file system without locks (ENOLCK,
EOPNOTSUPP) and also keeps a lock on a file that another process has renamed.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from elmo_cli.errors import OutputError
from elmo_cli.messages import OTHER_PATH_HINT

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of a file system without locks


class FileLock:
    """An exclusive lock (flock) on a file; the system releases it when the process ends.

    Attributes:
        descriptor: the open file, for reading and writing; -1 while the lock is not held.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.descriptor = -1
        self._path = Path(path)

    def acquire(self, *, wait: bool = False, on_wait: Callable[[], None] | None = None) -> bool:
        """Lock the file, which is created if necessary; False if another process has the lock.

        Args:
            wait: until that process releases it, after calling `on_wait`.
        """
        while self.descriptor < 0:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                is_locked = try_lock(descriptor)
                if not is_locked and not wait:
                    return False
                if not is_locked:
                    if on_wait is not None:
                        on_wait()
                    _flock(descriptor, fcntl.LOCK_EX)
                # The process that held the lock may have renamed or removed the file.
                if is_at(descriptor, self._path):
                    self.descriptor = descriptor
            finally:
                if self.descriptor != descriptor:
                    os.close(descriptor)
        return True

    def release(self) -> None:
        """Close the file, which releases the lock."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@contextmanager
def holding_lock(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock on a file, which is removed at the end; wait if another process has it.

    `on_wait` is called once before waiting.
    """
    lock = FileLock(path)
    lock.acquire(wait=True, on_wait=on_wait)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # later it may be the lock of another process
        lock.release()


@contextmanager
def abandoned_lock(path: Path) -> Iterator[bool]:
    """Hold a lock whose file a killed process has left, and remove the file at the end.

    Yields whether there is such a file: False if it is missing or another process has the lock.
    """
    lock = FileLock(path)
    if not path.exists() or not lock.acquire():
        yield False
        return
    try:
        yield True
    finally:
        path.unlink(missing_ok=True)  # later it may be the lock of another process
        lock.release()


def lock_own(path: Path, begins: bytes) -> FileLock:
    """Lock a file that only elmo writes: new, or beginning with these bytes or some of them.

    Raises:
        OutputError: another process is writing it, or it is a file of the user.
    """
    lock = FileLock(path)
    if not lock.acquire():
        problem = "another process is writing it"
        raise OutputError(problem, f"wait; or {OTHER_PATH_HINT}", where=path)
    beginning = os.pread(lock.descriptor, len(begins), 0).rstrip(b"\0")
    if not begins.startswith(beginning):
        lock.release()
        raise not_ours(path)
    return lock


def not_ours(path: str | os.PathLike[str]) -> OutputError:
    """The error for a file of the user that has the name of a temporary file."""
    problem = "exists and is not an unfinished output of elmo"
    return OutputError(problem, f"move it elsewhere, or {OTHER_PATH_HINT}", where=path)


def remove_unlocked(path: Path) -> None:
    """Remove a file that no process has locked; keep it where the file system has no locks."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def is_at(descriptor: int, path: Path) -> bool:
    """Whether an open file still has this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def try_lock(descriptor: int) -> bool:
    """Lock an open file, without waiting; whether no other process has the lock."""
    try:
        _flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _flock(descriptor: int, operation: int) -> None:
    """Call flock; a file system without locks counts as if the lock was free."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
