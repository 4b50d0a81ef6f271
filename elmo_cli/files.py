"""Write files: check an output path, replace a file in one step, lock it, explain what failed."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from elmo_cli.errors import ElmoError, OutputError, UsageError

StrPath = str | os.PathLike[str]

TEMPORARY_SUFFIX = ".part"
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of a file system without locks
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OTHER_PATH = "choose another output path"


def resolve(path: StrPath) -> Path:
    """The file that a path leads to, so that a link survives when the file is replaced."""
    return Path(os.path.realpath(path))


def is_folder(path: str) -> bool:
    """Whether a path or URL names a folder: it ends with a separator, or the folder exists."""
    return path.endswith(("/", os.sep)) or os.path.isdir(path)


def is_url(output: str) -> bool:
    """Whether an output is a URL for fsspec, and not a path."""
    return "://" in output


def check_output_path(path: StrPath, *, overwrite: bool = False, regular: bool = False) -> None:
    """Refuse, before any work, a path that no file can be written to.

    Args:
        overwrite: an existing file may be replaced.
        regular: refuse pipes and devices as well.
    """
    name = os.fspath(path)
    if os.path.isdir(path) or name.endswith(os.sep):
        raise OutputError(f"{name}: is a folder", "name a file in it")
    is_file = os.path.isfile(path)
    if os.path.exists(path) and not is_file:
        if regular:
            raise OutputError(f"{name}: not a regular file", "name a file on a disk")
        return
    with output_errors(path):
        os.stat(os.path.join(resolve(path).parent, ""))
    if name.lower().endswith((".gz", ".xz", ".bz2")):
        hint = "choose a name without this suffix, and compress the file afterwards"
        raise OutputError(f"{name}: would not be compressed, despite its suffix", hint)
    if is_file and not overwrite:
        raise OutputError(f"{name}: exists", f"`overwrite=True` replaces it; or {_OTHER_PATH}")


def check_distinct(
    output: StrPath, inputs: Iterable[StrPath | None], *, what: str = "one of the inputs"
) -> None:
    """Refuse an output that is also read, whatever links lead to it; "-" is a standard stream.

    Args:
        inputs: files, or folders whose files are read.
        what: each of the inputs is, for the message.
    """
    written = _identity(output, 1)
    for name in (name for name in inputs if name):
        for path in sorted(Path(name).iterdir()) if os.path.isdir(name) else [name]:
            if written and written == _identity(path, 0):
                also = "" if path == output else f" ({os.fspath(path)})"
                raise UsageError(f"{os.fspath(output)}: is also {what}{also}", _OTHER_PATH)


def _identity(path: StrPath, standard_stream: int) -> tuple[int, int] | None:
    """Device and inode of a regular file; None for anything else."""
    with suppress(OSError, ValueError):
        status = os.stat(standard_stream if path == "-" else path)
        if stat.S_ISREG(status.st_mode):
            return status.st_dev, status.st_ino
    return None


@contextmanager
def new_file(
    path: StrPath, *, overwrite: bool = True, durable: bool = False, resumable: bool = False
) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name when it is complete.

    Until then it is called PATH.1f2e3d4c.part, so two runs never write into one file. Links are
    followed; devices and pipes are written to directly.

    Args:
        overwrite: replace a file that exists by then; otherwise the temporary file is kept.
        durable: wait until the content is on the disk before renaming the file.
        resumable: as in `output_errors`.
    """
    with output_errors(path, resumable=resumable):
        # By the name as given: /dev/fd/63 (a shell's `>(xz > FILE)`) links to no path.
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as stream:
                yield stream
            return
        temporary = Path(f"{resolve(path)}.{os.urandom(4).hex()}{TEMPORARY_SUFFIX}")
        file = open(temporary, "xb")  # noqa: SIM115 - a file that exists is not ours to remove
        try:
            with file:
                yield file
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        hint = f"the complete output of this run is kept as {temporary}"
        publish(temporary, path, overwrite=overwrite, hint=hint)


def publish(temporary: Path, path: StrPath, *, overwrite: bool, hint: str) -> None:
    """Rename a complete file to PATH; an OutputError if PATH was created meanwhile."""
    if not overwrite and os.path.lexists(resolve(path)):
        raise OutputError(f"{os.fspath(path)}: was created by another process meanwhile", hint)
    os.replace(temporary, resolve(path))


def write_text(
    path: StrPath, lines: Iterable[str], *, overwrite: bool = True, errors: str = "strict"
) -> None:
    """Write lines, which include their ends, in UTF-8 to a `new_file`; `errors` as in `open`."""
    with new_file(path, overwrite=overwrite) as file:
        file.writelines(line.encode("utf-8", errors) for line in lines)


@contextmanager
def output_errors(path: StrPath, *, resumable: bool = False) -> Iterator[None]:
    """Turn an OSError into an OutputError that explains why PATH cannot be written; `resumable` as
    in `OutputError`, and the hint says so. A BrokenPipeError stays what it is."""
    try:
        yield
    except (ElmoError, BrokenPipeError):
        raise
    except OSError as error:
        folder, code, reason = resolve(path).parent, error.errno, error.strerror or error
        what = f"cannot be written ({reason})"
        hint = "choose an output path in a folder that you can write to"
        if code in _NO_SPACE:
            then = "`resume=True` continues after what is saved" if resumable else "run it again"
            what, hint = f"no space left ({reason})", f"free some space, then {then}"
        elif code == errno.ENOENT:
            what, hint = f"there is no folder {folder}", f"`mkdir -p {folder}`"
        elif code == errno.ENOTDIR:
            what, hint = f"{folder} is not a folder", _OTHER_PATH
        raise OutputError(what, hint, where=path, resumable=resumable) from None


@contextmanager
def os_errors_as(
    error_class: type[ElmoError], path: StrPath, what: str, hint: str
) -> Iterator[None]:
    """Turn an error of the system into one of ours about PATH; `what` says what cannot be done."""
    try:
        yield
    except ElmoError:
        raise  # some are OSErrors too
    except OSError as error:
        if not error.strerror:  # a library has raised it about the content of a file
            raise
        raise error_class(f"{path}: {what} ({error.strerror})", hint) from None


class FileLock:
    """An exclusive lock (flock) on a file; the system releases it when the process ends.

    Attributes:
        descriptor: the open file, for reading and writing; -1 while the lock is not held.
    """

    def __init__(self, path: StrPath) -> None:
        self._path, self.descriptor = Path(path), -1

    def acquire(self, *, wait: bool = False, on_wait: Callable[[], None] | None = None) -> bool:
        """Lock the file, which is created if necessary; False if another process has the lock.

        Args:
            wait: until that process releases it, after calling `on_wait`.
        """
        while self.descriptor < 0:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if not _lock(descriptor, fcntl.LOCK_NB):
                    if not wait:
                        return False
                    if on_wait is not None:
                        on_wait()
                    _lock(descriptor)
                # The process that held the lock may have renamed or removed the file.
                if _is_at(descriptor, self._path):
                    self.descriptor, descriptor = descriptor, -1
            finally:
                if descriptor >= 0:
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


def lock_own(path: Path, begins: bytes) -> FileLock:
    """Lock a file that only elmo writes: new, or beginning with these bytes or some of them.

    Raises:
        OutputError: another process is writing it, or it is a file of the user.
    """
    lock = FileLock(path)
    if not lock.acquire():
        raise OutputError(f"{path}: another process is writing it", f"wait; or {_OTHER_PATH}")
    if not begins.startswith(os.pread(lock.descriptor, len(begins), 0).rstrip(b"\0")):
        lock.release()
        raise not_ours(path)
    return lock


def not_ours(path: StrPath) -> OutputError:
    """The error for a file of the user that has the name of a temporary file."""
    what = "exists and is not an unfinished output of elmo"
    return OutputError(f"{os.fspath(path)}: {what}", f"move it elsewhere, or {_OTHER_PATH}")


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _lock(descriptor: int, flags: int = 0) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | flags)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True
