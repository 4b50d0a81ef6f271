"""A model in a zip or tar file: unpacked once, below $ELMO_HOME, under the hash of the archive.

An archive comes from anywhere, so nothing in it is trusted: a member that would leave the folder,
a link, or more bytes than an archive of a model can hold, and nothing is unpacked at all. What
Python's readers take into memory before they show anything of it, a child process takes.
"""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, cast

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.filetypes import HEAD_BYTES, TORCH, ZIP, identify
from elmo_cli.isolate import run_isolated
from elmo_cli.pretrained.cache import archive_folder, locked, not_writable, sha256_of
from elmo_cli.pretrained.family import family_of_names

SUFFIXES = (".zip", ".tar.gz", ".tgz", ".tar.xz", ".tar")
_MOST_MEMBERS = 1000
_MOST_BYTES = 16 << 30
# Weights hardly shrink when packed. An archive may be small without being a trap, hence the floor.
_MOST_RATIO, _RATIO_FLOOR = 100, 64 << 20
_LARGEST_CONFIG = 1 << 20
_CHUNK = 1 << 20
_LEFT_S = 24 * 3600.0  # no unpacking takes so long
_LONGEST_NAME = 255  # bytes, of most file systems
_FETCH_AGAIN = "the archive may be cut off; fetch it again and compare its size"
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,  # a way of packing that Python lacks
)


@dataclass(frozen=True, slots=True)
class _Member:
    """What is in an archive, with its size unpacked; `is_plain` is no link and no device."""

    name: str
    n_bytes: int
    open: Callable[[], IO[bytes]]
    is_folder: bool
    is_plain: bool
    is_encrypted: bool = False

    @property
    def path(self) -> PurePosixPath:
        """Its place in the folder of the archive."""
        return PurePosixPath(self.name)


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or tar file, or at least named so.

    Raises:
        ModelError: to find out takes too much memory.
    """
    named = path.name.endswith(SUFFIXES)
    return (
        named
        or _is_zip(path)
        or run_isolated(partial(tarfile.is_tarfile, path), [path], ModelError)
    )


def _is_zip(path: Path) -> bool:
    # Not zipfile.is_zipfile, which looks at the end and so misses one that was cut off.
    with open(path, "rb") as file:
        return identify(file.read(HEAD_BYTES)) in (ZIP, TORCH)


def unpack(path: Path) -> Path:
    """The folder that holds the files of an archive, unpacked if it was not before.

    A folder that all members have in common is left out.

    Raises:
        ModelError: damaged, unsafe, too large, in need of too much memory, or a model of another
            family.
        OutputError: $ELMO_HOME can't be written to.
    """
    folder = archive_folder(sha256_of(path))
    if folder.is_dir():
        return folder
    with locked(folder.parent):
        if not folder.is_dir():
            _unpack_to(path, folder)
    return folder


def _unpack_to(path: Path, folder: Path) -> None:
    _clear_left(folder.parent)
    # A name of its own: where there are no locks, another process may do the same.
    part = folder.with_name(f"{folder.name}.{os.urandom(4).hex()}.part")
    try:
        run_isolated(partial(_unpack_part, path, part), [path], ModelError)
        try:
            os.replace(part, folder)
        except OSError as error:
            if not folder.is_dir():
                raise not_writable(folder, error) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _clear_left(archives: Path) -> None:
    """Remove what processes that were killed have left."""
    for part in archives.glob("*.part"):
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > _LEFT_S:
                shutil.rmtree(part)


def _unpack_part(path: Path, part: Path) -> None:
    with _opened(path) as found:
        members = _members(path, found)
        _refuse_foreign(path, members)
        top = _common_folder(members)
        for member in members:
            _write(path, member, part / member.path.relative_to(top))


@contextmanager
def _opened(path: Path) -> Iterator[Iterator[_Member]]:
    """What is in an archive, read while it is asked for."""
    try:
        if _is_zip(path):
            with zipfile.ZipFile(path) as archive:
                yield (_in_zip(archive, entry) for entry in archive.infolist())
        else:
            with tarfile.open(path) as archive:
                yield (_in_tar(archive, entry) for entry in archive)
    except ElmoError:
        raise  # a full disk is an OSError too
    except _DAMAGED as error:
        raise _damaged(path, error) from None


def _in_zip(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> _Member:
    return _Member(
        entry.filename,
        entry.file_size,
        partial(archive.open, entry),
        is_folder=entry.is_dir(),
        is_plain=stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG),
        is_encrypted=bool(entry.flag_bits & 1),
    )


def _in_tar(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> _Member:
    return _Member(
        entry.name,
        entry.size,
        lambda: cast("IO[bytes]", archive.extractfile(entry)),  # none of what is not plain
        is_folder=entry.isdir(),
        is_plain=entry.isreg() and not entry.issparse(),
    )


def _members(path: Path, found: Iterable[_Member]) -> list[_Member]:
    """The files of an archive, each of them safe to unpack."""
    members: list[_Member] = []
    total = count = 0
    most = min(_MOST_BYTES, max(_RATIO_FLOOR, _MOST_RATIO * path.stat().st_size))
    for member in found:
        _check(path, member)
        count, total = count + 1, total + member.n_bytes
        if count > _MOST_MEMBERS:
            raise _unsafe(path, f"more than {_MOST_MEMBERS} members")
        if total > most:
            raise _unsafe(path, f"unpacks to {total} bytes or more, at most {most} make sense")
        is_clutter = member.path.name == ".DS_Store" or "__MACOSX" in member.path.parts
        if not member.is_folder and not is_clutter:
            members.append(member)
    paths: set[PurePosixPath] = set()
    for member in members:
        if member.path in paths:
            raise _unsafe(path, f"the member {member.name!r} occurs twice")
        paths.add(member.path)
    for member in members:
        if clash := paths.intersection(member.path.parents):
            raise _unsafe(path, f"the member {str(clash.pop())!r} is a file and a folder")
    return members


def _check(path: Path, member: _Member) -> None:
    name, parts = member.name, member.path.parts
    if max(map(len, map(os.fsencode, parts)), default=0) > _LONGEST_NAME:
        raise _unsafe(path, f"the member {name[:40]!r}… has too long a name")
    leaves = member.path.is_absolute() or ".." in parts or not (parts or member.is_folder)
    if leaves or "\\" in name or "\0" in name or ":" in name.split("/")[0]:
        raise _unsafe(path, f"the member {name!r} leads out of the folder")
    if not member.is_folder and not member.is_plain:
        raise _unsafe(path, f"the member {name!r} is a link or a device")
    if member.is_encrypted:
        raise ModelError(f"{path}: {name} is encrypted", "unpack it and give the folder")


def _damaged(path: Path, error: Exception) -> ModelError:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return ModelError(f"{path}: not a whole zip or tar file ({reason})", _FETCH_AGAIN)


def _unsafe(path: Path, what: str) -> ModelError:
    return ModelError(
        f"{path}: not unpacked, {what}", "unpack it by hand if you trust it, and give the folder"
    )


def _refuse_foreign(path: Path, members: list[_Member]) -> None:
    """Refuse a model of another family, or no model, before anything is unpacked."""
    entries = {member.path.name: member for member in members}

    def read(name: str) -> bytes:
        with entries[name].open() as content:
            return content.read(_LARGEST_CONFIG)

    if any(name.endswith((".hdf5", ".h5")) for name in entries):
        # A checkpoint may lie beside the weights that were dumped from it.
        return
    if family := family_of_names(entries, read):
        raise family.error(path)
    shown = ", ".join([*sorted(entries)[:4], *["…"] * (len(entries) > 4)]) or "it is empty"
    raise ModelError(
        f"{path}: no weight file in it ({shown})",
        "a model is an archive with options.json and weights.hdf5",
    )


def _common_folder(members: list[_Member]) -> PurePosixPath:
    tops = {member.path.parts[0] for member in members}
    nested = all(len(member.path.parts) > 1 for member in members)
    return PurePosixPath(tops.pop()) if nested and len(tops) == 1 else PurePosixPath()


def _write(path: Path, member: _Member, target: Path) -> None:
    with member.open() as content:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb") as file:
                # Both readers end at the size that the header states and that was checked above.
                while chunk := _read(path, content, _CHUNK):
                    file.write(chunk)
        except ElmoError:
            raise
        except OSError as error:
            raise not_writable(target, error) from None


def _read(path: Path, content: IO[bytes], n_bytes: int) -> bytes:
    try:
        return content.read(n_bytes)
    except _DAMAGED as error:
        raise _damaged(path, error) from None
