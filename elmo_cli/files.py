"""Write files: check an output path, replace a file in one step, lock it, explain what failed."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from elmo_cli.errors import ElmoError, OutputError, UsageError

StrPath = str | os.PathLike[str]

TEMPORARY_SUFFIX = ".part"
NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of a file system without locks
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})
_OTHER_PATH = "choose another output path"


def resolve(path: StrPath) -> Path:
    """The file that a path leads to, so that a link survives when the file is replaced."""
    return Path(os.path.realpath(path))


def check_output_path(path: StrPath, *, overwrite: bool = False, regular: bool = False) -> None:
    """Refuse, before any work, a path that no file can be written to.

    Args:
        overwrite: an existing file may be replaced.
        regular: refuse pipes and devices as well.
    """
    name, folder = os.fspath(path), resolve(path).parent
    exists, is_folder = os.path.exists(path), os.path.isdir(path) or name.endswith(os.sep)
    is_special = exists and not is_folder and not os.path.isfile(path)
    if is_special and not regular:
        return
    if not folder.is_dir():
        is_file = os.path.lexists(folder) or any(parent.is_file() for parent in folder.parents)
        raise output_error(name, OSError(errno.ENOTDIR if is_file else errno.ENOENT, ""))
    what, hint = "", f"`overwrite=True` replaces it; or {_OTHER_PATH}"
    if is_folder:
        what, hint = "is a folder", "name a file in it"
    elif is_special:
        what, hint = "not a regular file", "name a file on a disk"
    elif name.lower().endswith((".gz", ".xz", ".bz2")):
        what = "would not be compressed, contrary to its name"
        hint = "choose a name without this suffix, and compress the file afterwards"
    elif exists and not overwrite:
        what = "exists"
    if what:
        raise OutputError(f"{name}: {what}", hint)


def check_distinct(
    output: StrPath, inputs: Iterable[StrPath | None], *, what: str = "one of the inputs"
) -> None:
    """Refuse an output that is also read, whatever links lead to it; "-" is a standard stream.

    Args:
        inputs: files, or folders whose files are read.
        what: each of the inputs is, for the message.
    """
    written = _regular_file(output, 1)
    for name in (one for one in inputs if one):
        for path in sorted(Path(name).iterdir()) if os.path.isdir(name) else [name]:
            found = _regular_file(path, 0)
            if written and found and os.path.samestat(written, found):
                also = "" if path == output else f" ({os.fspath(path)})"
                raise UsageError(f"{os.fspath(output)}: is also {what}{also}", _OTHER_PATH)


def _regular_file(path: StrPath, standard_stream: int) -> os.stat_result | None:
    try:
        status = os.stat(standard_stream if path == "-" else path)
    except (OSError, ValueError):
        return None
    return status if stat.S_ISREG(status.st_mode) else None


@contextmanager
def new_file(
    path: StrPath, *, overwrite: bool = True, durable: bool = False, resumable: bool = False
) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name when it is complete.

    Until then it is called PATH.1f2e3d4c.part, so two runs never write into one file. Links are
    followed; devices and pipes are written to directly.

    Args:
        overwrite: replace a file that exists by then.
        durable: wait until the content is on the disk before renaming the file.
    Raises:
        OutputError: the file cannot be written, and nothing is left of it; or PATH was created
            meanwhile, and the complete temporary file is kept.
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


def tsv_line(*cells: object) -> str:
    r"""Cells as one tab-separated line; tab, line end and backslash become \t, \n, \r and \\."""
    return "\t".join(str(cell).translate(_ESCAPES) for cell in cells) + "\n"


@contextmanager
def output_errors(path: StrPath, *, resumable: bool = False) -> Iterator[None]:
    """Turn an OSError into an OutputError about PATH; a BrokenPipeError stays what it is."""
    try:
        yield
    except (ElmoError, BrokenPipeError):
        raise
    except OSError as error:
        raise output_error(path, error, resumable=resumable) from None


def output_error(path: StrPath, error: OSError, *, resumable: bool = False) -> OutputError:
    """Explain why PATH cannot be written; `resumable` as in `OutputError`, and the hint says so."""
    folder = resolve(path).parent
    then = "`resume=True` continues after what is saved" if resumable else "run it again"
    full = (f"no space left ({error.strerror})", f"free some space, then {then}")
    known = {
        **dict.fromkeys(_NO_SPACE, full),
        errno.ENOENT: (f"there is no folder {folder}", f"`mkdir -p {folder}`"),
        errno.ENOTDIR: (f"{folder} is not a folder", _OTHER_PATH),
    }
    what = f"cannot be written ({error.strerror or error})"
    hint = "choose an output path in a folder that you can write to"
    what, hint = known.get(error.errno or 0, (what, hint))
    return OutputError(f"{os.fspath(path)}: {what}", hint, resumable)


def allocate(descriptor: int, start: int, n_bytes: int) -> None:
    """Raise an OSError now if the disk or a limit has no space for these bytes of a file."""
    if n_bytes > 0 and hasattr(os, "posix_fallocate"):  # macOS has none
        os.posix_fallocate(descriptor, start, n_bytes)


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
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                is_locked = _flock(descriptor, wait=wait, on_wait=on_wait)
                # The process that held the lock may have renamed or removed the file.
                if is_locked and is_open_file(descriptor, self._path):
                    self.descriptor, descriptor = descriptor, -1
                    return True
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
            if not is_locked:
                return False

    def release(self) -> None:
        """Close the file, which releases the lock."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


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


def is_open_file(descriptor: int, path: Path) -> bool:
    """Whether PATH is still the file that is open."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _flock(descriptor: int, *, wait: bool, on_wait: Callable[[], None] | None) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        if wait and on_wait is not None:
            on_wait()
        if wait:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        return wait
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise
    return True


def format_bytes(n_bytes: int) -> str:
    """Bytes as a person reads them: "12.3 GiB", "4.0 MiB", "17 bytes"."""
    power = min(4, max(0, n_bytes.bit_length() - 1) // 10)
    unit = ("bytes", "KiB", "MiB", "GiB", "TiB")[power]
    return f"{n_bytes / 1024**power:.{min(power, 1)}f} {unit}"
