"""A new text file that appears under its name when it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from elmo_cli.errors import OutputError

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


def write_text(path: Name, lines: Iterable[str]) -> None:
    """Write lines, with their ends, in UTF-8 to PATH.part and rename it to PATH.

    Raises:
        OutputError: the file can't be written; nothing is left of it, an old PATH is untouched.
    """
    target = os.path.realpath(path)
    # A device or a pipe is written to as it is; a rename would put a file in its place.
    is_stream = os.path.exists(target) and not os.path.isfile(target)
    part = target if is_stream else f"{target}.part"
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
        if not is_stream:
            os.replace(part, target)
    except BaseException as error:
        if not is_stream:
            with suppress(OSError):
                os.unlink(part)
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            raise OutputError(
                f"{os.fspath(path)}: can't be written ({error.strerror or error})", _HINT
            ) from None
        raise
