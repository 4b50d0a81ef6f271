"""A new file of a user's choice that appears under its name when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

from elmo_cli.errors import OutputError
from elmo_cli.whole_file import whole_file, writing

Name = str | os.PathLike[str]
_HINT = "choose a place that you can write to, with space left"


def check_new(path: Name, *, overwrite: bool = False) -> None:
    """Refuse, before any work, a place where no file can be made.

    Raises:
        OutputError: there is a file already and `overwrite` is not set, or it is a folder, or
            there is no such folder, or its name says that it is compressed.
    """
    if os.fspath(path).lower().endswith((".gz", ".xz", ".bz2")):
        raise OutputError(
            f"{os.fspath(path)}: would be plain text under this name",
            "leave out the suffix and compress it afterwards, or `-` for a pipe to do so",
        )
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.isdir(path):
        raise OutputError(f"{os.fspath(path)}: a folder, not a file", "name a file in it")
    if not os.path.isdir(folder):
        raise OutputError(
            f"{os.fspath(path)}: there is no folder {folder}", "make it, or choose another place"
        )
    if os.path.isfile(path) and not overwrite:
        raise OutputError(
            f"{os.fspath(path)}: exists", "`--overwrite` replaces it, or name another file"
        )


@contextmanager
def new_file(path: Name, *, overwrite: bool = True) -> Iterator[BinaryIO]:
    """A file to write to, that has its name when it is whole; links are followed.

    Args:
        overwrite: replace a file that is there by then.
    Raises:
        OutputError: the file can't be written, and nothing is left of it; or another process has
            made PATH meanwhile, and it is not to be overwritten. An old PATH is untouched.
    """
    # A device or a pipe is written to as it is; a rename would put a file in its place; and it is
    # opened by the name given, since /dev/fd/63 (a shell's `>(xz > FILE)`) links to no path.
    is_stream = os.path.exists(path) and not os.path.isfile(path)
    target = os.path.realpath(path)
    with (
        writing(path, _HINT),
        open(path, "wb") if is_stream else whole_file(target, overwrite=overwrite) as file,
    ):
        yield file


def write_text(
    path: Name, lines: Iterable[str], *, overwrite: bool = True, errors: str = "strict"
) -> None:
    """Write lines, with their ends, in UTF-8 to a `new_file`.

    Args:
        errors: as in `open`; "surrogateescape" for names of files, which need not be UTF-8.
    Raises:
        OutputError: as `new_file`; an error of what gives the lines stays what it is.
    """
    try:
        with new_file(path, overwrite=overwrite) as file:
            file.writelines(line.encode("utf-8", errors) for line in _apart(lines))
        return
    except _LinesError as error:
        cause = error.cause
    raise cause


class _LinesError(Exception):
    """An OSError of what gives the lines, which says nothing of the file that they go to."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _apart(lines: Iterable[str]) -> Iterator[str]:
    try:
        yield from lines
    except OSError as error:
        raise _LinesError(error) from error
