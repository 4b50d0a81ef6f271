"""open_locked, wait_locked: a file that one process at a time has open to write to it."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from elmo_cli.errors import OutputError

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of a file system that has none


def open_locked(path: Path, refusal: OutputError) -> int:
    """A descriptor of `path` that holds its lock until it is closed; the file is made if need be.

    Args:
        refusal: raised where another process holds the lock.
    Raises:
        OSError: it can't be opened to write to it.
    """
    return _open_locked(path, lambda: _refuse(refusal))


def wait_locked(path: Path, on_wait: Callable[[], None] | None = None) -> int:
    """As `open_locked`, when whoever holds the lock has given it back.

    Args:
        on_wait: called before, if another process holds it.
    Raises:
        OSError: as `open_locked`.
    """
    return _open_locked(path, on_wait or (lambda: None))


def share_lock(descriptor: int, refusal: OutputError) -> None:
    """Let others read a file of `open_locked`, while still none may write to it.

    Args:
        refusal: raised where another process has taken the lock in between.
    """
    _lock(descriptor, fcntl.LOCK_SH, lambda: _refuse(refusal))


def _refuse(refusal: OutputError) -> None:
    raise refusal from None


def _open_locked(path: Path, on_wait: Callable[[], None]) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _lock(descriptor, fcntl.LOCK_EX, on_wait)
            # Whoever held the lock may have renamed or removed the file in between.
            if os.fstat(descriptor).st_ino == _inode(path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, kind: int, on_wait: Callable[[], None]) -> None:
    """Take a lock; where another process holds it, `on_wait` may refuse to wait."""
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(descriptor, kind)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
        # A file system without locks: there the user must see to it.


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None
