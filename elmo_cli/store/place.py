"""The place of an embeddings file: what is there, and what the system says about writing to it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmo_cli.errors import KeptError, OutputError
from elmo_cli.store.journal import BEGINS as JOURNAL_BEGINS
from elmo_cli.store.journal import journal_path, new_journal_path
from elmo_cli.store.journaled_file import MARK as UNDO_MARK

_NO_SPACE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_NO_RIGHT = {errno.EACCES, errno.EPERM, errno.EROFS}


def is_finished(out: str) -> bool:
    """Whether OUT is there and no part file that is to replace it."""
    real = real_path(out)
    return real.exists() and (not part_path(real).exists() or _has_both_names(real))


def remove_leftovers(out: str) -> None:
    """Remove what a run leaves when it is killed after its file got its name."""
    real = real_path(out)
    with output_errors(out):
        if _has_both_names(real):
            part_path(real).unlink(missing_ok=True)
        remove_side_files(part_path(real))


def _has_both_names(real: Path) -> bool:
    """Whether a run was killed when its file was OUT already, and OUT.part as well."""
    with suppress(FileNotFoundError):
        return real.samefile(part_path(real))
    return False


def real_path(out: str) -> Path:
    """The file itself where OUT is a link, so that the link survives the renaming."""
    return Path(os.path.realpath(out))


def part_path(out: str | Path) -> Path:
    """The unfinished file of OUT."""
    return Path(f"{out}.part")


def side_files(part: Path) -> tuple[Path, ...]:
    """Undo log and journal of a part file, whether they are there or not; the journal last."""
    return Path(f"{part}.undo"), new_journal_path(part), journal_path(part)


def remove_side_files(part: Path) -> None:
    """Remove journal and undo log of a part file, if they are there; the journal last."""
    for path in side_files(part):
        if may_be_ours(path):
            path.unlink(missing_ok=True)


def may_be_ours(path: Path) -> bool:
    """Whether a file beside a part file, if it is there, can be of a run of ours."""
    begins = UNDO_MARK if path.suffix == ".undo" else JOURNAL_BEGINS
    try:
        with open(path, "rb") as file:
            head = file.read(len(begins))
    except FileNotFoundError:
        return True
    except IsADirectoryError:
        return False
    # Begun and not written: by a kill empty or cut short, by a power cut zeros.
    return begins.startswith(head.rstrip(b"\0"))


def check_place(out: str) -> None:
    """Refuse a place that can't become an embeddings file.

    Raises:
        OutputError: it is a folder or a device, or its folder is not there.
    """
    path = real_path(out)
    if out.startswith("/dev/std"):
        raise OutputError(f"{out}: not a regular file", "`-o -` writes to standard output")
    with output_errors(out):
        try:
            mode = os.stat(out).st_mode  # of a shell's `>(…)` too, whose link leads to no path
        except FileNotFoundError:
            if not path.parent.is_dir():
                raise
            mode = stat.S_IFDIR if out.endswith(os.sep) else stat.S_IFREG
    if stat.S_ISDIR(mode):
        raise OutputError(f"{out}: is a folder", "name a file in it, such as `-o DIR/out.hdf5`")
    if not stat.S_ISREG(mode):
        raise OutputError(
            f"{out}: not a regular file", "HDF5 needs a file on a disk, `-o out.hdf5`"
        )


def check_free(out: str) -> None:
    """Refuse to write over OUT.

    Raises:
        OutputError: OUT is there.
    """
    if real_path(out).exists():
        raise OutputError(f"{out}: exists", "`--overwrite` replaces it, `-o` names another file")


@contextmanager
def output_errors(name: str) -> Iterator[None]:
    """Turn what the system says about writing `name` into an OutputError."""
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        raise output_error(name, error) from None


def output_error(name: str, error: OSError) -> OutputError:
    """The OutputError for what the system said about writing `name`."""
    folder = Path(name).parent
    if folder.is_dir():  # then a link leads elsewhere
        folder = real_path(name).parent
    if error.errno in _NO_SPACE:
        return KeptError(
            f"{name}: no space left ({error.strerror})",
            "free some, then `--resume` (what is committed is kept), or `--dtype float16`",
            anew="free some, then give the same command again",
        )
    if error.errno in _NO_RIGHT:
        return OutputError(
            f"{name}: can't be written ({error.strerror})",
            "choose a folder that you can write to with `-o`",
        )
    if error.errno == errno.ENOENT:
        return OutputError(f"{name}: there is no folder {folder}", f"`mkdir -p {folder}`")
    if error.errno == errno.ENOTDIR:
        return OutputError(f"{name}: {folder} is not a folder", "choose another place with `-o`")
    return OutputError(
        f"{name}: can't be written ({error.strerror or error})", "choose another place with `-o`"
    )
