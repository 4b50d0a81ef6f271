"""whole_file: a new file that appears under its name when it is whole; and how a file that can't be
written is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from elmo_cli.errors import ElmoError, OutputError

SUFFIX = ".part"


@contextmanager
def whole_file(
    path: str | os.PathLike[str], *, overwrite: bool = True, durable: bool = False
) -> Iterator[BinaryIO]:
    """A file to write to; it is renamed to PATH at the end.

    Until then its name is nobody else's, PATH.1f2e3d4c.part: two runs write two files, and what a
    user calls PATH.part stays his.

    Args:
        overwrite: replace a file that is at PATH by then.
        durable: the file is on the disk before it has its name.
    Raises:
        OutputError: another process has made PATH meanwhile; what was written is kept.
        OSError: it can't be written; nothing is left of it, an old PATH is untouched.
    """
    part = f"{os.fspath(path)}.{os.urandom(4).hex()}{SUFFIX}"
    file = open(part, "xb")  # noqa: SIM115 - closed below, and not removed where it is another's
    try:
        with file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        is_named = give_name(part, path, overwrite=overwrite)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    if not is_named:
        raise OutputError(
            f"{os.fspath(path)}: another process has made it meanwhile",
            f"what this run wrote is kept as {part}",
        )


@contextmanager
def writing(path: str | os.PathLike[str], hint: str) -> Iterator[None]:
    """Turn what the system says against writing PATH into an OutputError with `hint`.

    A reader that has gone away is no fault of PATH: a BrokenPipeError stays what it is.
    """
    try:
        yield
    except (ElmoError, BrokenPipeError):
        raise
    except OSError as error:
        raise OutputError(
            f"{os.fspath(path)}: can't be written ({error.strerror or error})", hint
        ) from None


def give_name(
    part: str | os.PathLike[str], path: str | os.PathLike[str], *, overwrite: bool
) -> bool:
    """Rename the whole file PART; False where another is at PATH that is not to be replaced.

    A kill may leave it both names; then the next call takes the first one away.
    """
    if not overwrite:
        try:
            os.link(part, path)  # unlike a renaming, it never replaces a file
        except FileExistsError:
            if not os.path.samefile(part, path):
                return False
        except OSError:  # a file system without hard links
            if os.path.lexists(path):
                return False
            overwrite = True
    if overwrite:
        os.replace(part, path)
    else:
        with suppress(FileNotFoundError):
            if os.path.samefile(part, path):  # and not what another run has begun meanwhile
                os.unlink(part)
    return True
