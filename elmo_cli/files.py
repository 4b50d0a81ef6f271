"""Write files: check an output path, replace a file in one step, explain what failed."""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from elmo_cli.errors import ElmoError, OutputError, UsageError
from elmo_cli.file_locks import is_at, remove_unlocked, try_lock
from elmo_cli.messages import OTHER_PATH_HINT

StrPath = str | os.PathLike[str]
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk or a quota is full

_TEMPORARY_SUFFIX = ".part"
_TEMPORARY = re.compile(r"\.[0-9a-f]{8}\.part")  # the rest of a name after that of the output
_LONGEST_SUFFIX = ".1f2e3d4c.part"  # of all files that exist while an output is unfinished
_STDIN = 0  # descriptors
_STDOUT = 1
_COMPRESSED_SUFFIXES = (".gz", ".xz", ".bz2")


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
        raise OutputError("is a folder", "name a file in it", where=path)
    is_file = os.path.isfile(path)
    is_pipe_or_device = os.path.exists(path) and not is_file
    if is_pipe_or_device and regular:
        raise OutputError("not a regular file", "name a file on a disk", where=path)
    if is_pipe_or_device:
        return
    target = resolve(path)
    with output_errors(path):
        os.stat(os.path.join(target.parent, ""))
        if target.is_symlink():  # `resolve` leaves a link only where links form a loop
            os.stat(target)
        with suppress(FileNotFoundError):  # but not a name that is too long
            os.lstat(f"{target}{_LONGEST_SUFFIX}")
    if name.lower().endswith(_COMPRESSED_SUFFIXES):
        raise OutputError(
            "would not be compressed, despite its suffix",
            "choose a name without this suffix, and compress the file afterwards",
            where=path,
        )
    if is_file and not overwrite:
        hint = f"`overwrite=True` replaces it; or {OTHER_PATH_HINT}"
        raise OutputError("exists", hint, where=path)


def check_distinct(
    output: StrPath, inputs: Iterable[StrPath | None], *, what: str = "one of the inputs"
) -> None:
    """Refuse an output that is also read, whatever links lead to it; "-" is a standard stream.

    Args:
        inputs: files, or folders whose files are read.
        what: each of the inputs is, for the message.
    """
    written = _identity(output, _STDOUT)
    if written is None:
        return
    for name in inputs:
        if not name:
            continue
        for path in _files_in(name):
            if _identity(path, _STDIN) == written:
                also = "" if path == output else f" ({os.fspath(path)})"
                raise UsageError(f"is also {what}{also}", OTHER_PATH_HINT, where=output)


def _files_in(path: StrPath) -> list[StrPath]:
    """The entries of a folder, or the file itself."""
    if os.path.isdir(path):
        return [*sorted(Path(path).iterdir())]
    return [path]


def _identity(path: StrPath, standard_stream: int) -> tuple[int, int] | None:
    """Device and inode of a regular file; None for anything else.

    "-" is the file that the descriptor `standard_stream` leads to.
    """
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

    Until then it is called PATH.1f2e3d4c.part and locked, so two runs never write into one file.
    What a killed run has left is removed. Links are followed; devices and pipes are written to
    directly.

    Args:
        overwrite: replace a file that exists by then; otherwise the complete file is kept under the
            name PATH.1f2e3d4c.
        durable: wait until the content is on the disk before renaming the file.
        resumable: as in `output_errors`.
    """
    with output_errors(path, resumable=resumable):
        # By the name as given: /dev/fd/63 (a shell's `>(xz > FILE)`) links to no path.
        if os.path.exists(path) and not os.path.isfile(path):
            with open(path, "wb") as stream:
                yield stream
            return
        target = resolve(path)
        remove_temporary_files(target)
        file, temporary = _open_temporary(target)
        try:
            with file:
                yield file
                file.flush()
                if durable:
                    os.fsync(file.fileno())
                os.close(os.dup(file.fileno()))  # NFS reports a full disk when a file is closed
                if overwrite or not os.path.lexists(target):
                    os.replace(temporary, target)
                    return
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        kept = temporary.with_suffix("")
        os.replace(temporary, kept)
        raise _created_meanwhile(path, f"the complete output of this run is kept as {kept}")


def _open_temporary(target: Path) -> tuple[BinaryIO, Path]:
    """Create and lock the temporary file of an output."""
    while True:
        temporary = Path(f"{target}.{os.urandom(4).hex()}{_TEMPORARY_SUFFIX}")
        file = open(temporary, "xb")  # noqa: SIM115 - a file that exists is not ours to remove
        try_lock(file.fileno())
        if is_at(file.fileno(), temporary):
            return file, temporary
        file.close()  # another process has removed it before it was locked


def remove_temporary_files(target: Path) -> None:
    """Remove the temporary files of an output whose runs were killed: nobody holds their locks."""
    names: list[str] = []
    with suppress(OSError):  # whatever opens a file in the folder reports the reason
        names = os.listdir(target.parent)
    for name in names:
        if is_temporary(name, target.name):
            with suppress(OSError):  # it belongs to another user, or is gone
                remove_unlocked(target.with_name(name))


def is_temporary(name: str, target: str) -> bool:
    """Whether a file name is that of a temporary file of an output of the name `target`."""
    return name.startswith(target) and _TEMPORARY.fullmatch(name, len(target)) is not None


def publish(temporary: Path, path: StrPath, *, overwrite: bool, hint: str) -> None:
    """Rename a complete file to PATH; an OutputError if PATH was created meanwhile."""
    if not overwrite and os.path.lexists(resolve(path)):
        raise _created_meanwhile(path, hint)
    os.replace(temporary, resolve(path))


def _created_meanwhile(path: StrPath, hint: str) -> OutputError:
    return OutputError("was created by another process meanwhile", hint, where=path)


def write_text(
    path: StrPath,
    lines: Iterable[str],
    *,
    overwrite: bool = True,
    durable: bool = False,
    errors: str = "strict",
) -> None:
    """Write lines, which include their ends, in UTF-8 to a `new_file`; `errors` as in `open`."""
    with new_file(path, overwrite=overwrite, durable=durable) as file:
        file.writelines(line.encode("utf-8", errors) for line in lines)


@contextmanager
def output_errors(path: StrPath, *, resumable: bool = False) -> Iterator[None]:
    """Turn an OSError into an OutputError that explains why PATH cannot be written.

    A BrokenPipeError stays what it is.

    Args:
        resumable: as in `OutputError`; the hint says so.
    """
    try:
        yield
    except (ElmoError, BrokenPipeError):
        raise
    except OSError as error:
        problem, hint = _explain_os_error(error, resolve(path).parent, resumable=resumable)
        raise OutputError(problem, hint, where=path, resumable=resumable) from None


def _explain_os_error(error: OSError, folder: Path, *, resumable: bool) -> tuple[str, str]:
    """Why a file in a folder cannot be written, and what to do next."""
    reason = error.strerror or error
    if error.errno in NO_SPACE and resumable:
        hint = "free some space, then `resume=True` continues after what is saved"
        return f"no space left ({reason})", hint
    if error.errno in NO_SPACE:
        return f"no space left ({reason})", "free some space, then run it again"
    if error.errno == errno.ENOENT:
        return f"there is no folder {folder}", f"`mkdir -p {shlex.quote(str(folder))}`"
    if error.errno == errno.ENOTDIR:
        return f"{folder} is not a folder", OTHER_PATH_HINT
    if error.errno == errno.EEXIST:  # where a folder is to be created
        return "is a file, not a folder", f"{OTHER_PATH_HINT}, or move the file away"
    hint = "choose an output path in a folder that you can write to"
    if error.errno == errno.ENAMETOOLONG:
        hint = "choose a shorter name"
    return f"cannot be written ({reason})", hint


@contextmanager
def os_errors_as(
    error_class: type[ElmoError], path: StrPath, problem: str, hint: str
) -> Iterator[None]:
    """Turn an error of the system into one of ours about PATH; `problem` says what failed."""
    try:
        yield
    except ElmoError:
        raise  # some are OSErrors too
    except OSError as error:
        if not error.strerror:  # a library has raised it about the content of a file
            raise
        raise error_class(f"{problem} ({error.strerror})", hint, where=path) from None
