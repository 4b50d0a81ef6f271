"""Files that are named by a user and must be regular: models, settings, HDF5 files.

A device may never end and a pipe may never begin; both are refused before they are opened. Texts
and labels are read by `text/`, which takes pipes.
"""

from __future__ import annotations

import os
import stat

from elmo_cli.errors import ElmoError


def is_regular(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a regular file, a folder or missing: opening it neither waits nor lasts."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return True  # who opens it finds the reason
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def check_regular(path: str | os.PathLike[str], error_class: type[ElmoError]) -> None:
    """Refuse a pipe, a socket or a device.

    Raises:
        ElmoError: of `error_class`.
    """
    if not is_regular(path):
        raise error_class(
            f"{os.fspath(path)}: not a regular file", "copy what it gives into a file first"
        )
