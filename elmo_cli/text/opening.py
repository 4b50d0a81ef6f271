"""Names to bytes: which names can be read, and the bytes as they lie in a file or a stream."""

from __future__ import annotations

import os
import select
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from io import BufferedIOBase, BufferedReader
from typing import cast

from elmo_cli.errors import InputError, UsageError
from elmo_cli.text.notes import Notes

STDIN = "-"
PIECE = 1 << 18  # bytes that are read at a time


def check_paths(paths: Sequence[str]) -> None:
    """Refuse, before any work, names that can't be read.

    Raises:
        UsageError: no name at all, or standard input twice.
        InputError: a name that is missing, a folder, or closed to this user.
    """
    if not paths:
        raise UsageError("no input: no file is named", "name text files, or `-` for standard input")
    if list(paths).count(STDIN) > 1:
        raise UsageError(
            "-: standard input is named twice and can be read once only",
            "name `-` once; save the text to a file to read it twice",
        )
    for path in paths:
        if path != STDIN:
            _check_path(path)


def refuse_stream(option: str, paths: Sequence[str]) -> None:
    """Refuse a stream where a text is read more than once.

    Raises:
        UsageError: one of the names is standard input, or a pipe.
    """
    for path in paths:
        if is_stream(path):
            raise UsageError(
                f"{option}: {'standard input' if path == STDIN else path} can be read only once, "
                "and its length is not known",
                "write the text to a file first",
            )


def is_stream(path: str) -> bool:
    """Whether a name stands for what can be read only once: standard input, or a pipe."""
    if path == STDIN:
        return True
    return os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path))


def _check_path(path: str) -> None:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if stat.S_ISDIR(status.st_mode):
        raise InputError(
            f"{path}: a folder, not a file", f"name the files in it: `{os.path.join(path, '*')}`"
        )
    if not os.access(path, os.R_OK):
        raise InputError(f"{path}: no permission to read it", f"`ls -l {path}` shows who may")


def _unreadable(path: str, error: OSError | ValueError) -> InputError:
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):
            to = os.readlink(path)
            return InputError(f"{path}: a link to {to}, which is not there", f"`ls -l {path}`")
        hint = f"check the name; the working directory is {_working_directory()}"
        return InputError(f"{path}: no such file", hint)
    reason = getattr(error, "strerror", None) or error
    return InputError(f"{path}: can't be read ({reason})", "check the name and the disk")


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "gone"


def raw_bytes(name: str, notes: Notes) -> Iterator[bytes]:
    """The bytes of a file or a stream as they come, counted in `notes.bytes_read`.

    Raises:
        InputError: it can't be opened or read.
    """
    try:
        with _opened(name) as stream:
            while chunk := _piece(stream):
                notes.bytes_read += len(chunk)
                yield chunk
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise _unreadable(name, error) from None


def _piece(stream: BufferedIOBase) -> bytes:
    """The next bytes, none at the end alone.

    Standard input is shared with others, who may have set it not to wait; then it also reads as
    empty while there is nothing yet. It stays as they set it.
    """
    chunk = stream.read1(PIECE)
    if chunk or not isinstance(stream, BufferedReader) or _waits(stream):
        return chunk
    late: bytes | None = stream.raw.read(PIECE)
    while late is None:
        select.select([stream], [], [])
        late = stream.raw.read(PIECE)
    return late


def _waits(stream: BufferedReader) -> bool:
    try:
        return os.get_blocking(stream.fileno())
    except OSError:  # no stream of the system
        return True


def _opened(name: str) -> AbstractContextManager[BufferedIOBase]:
    if name != STDIN:
        return cast("AbstractContextManager[BufferedIOBase]", open(name, "rb"))
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None:
        raise InputError("-: standard input is closed", "name a file, or pipe the text in")
    return nullcontext(stream)  # not ours to close
