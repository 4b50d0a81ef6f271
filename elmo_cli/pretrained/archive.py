"""Extract a model from an untrusted zip or tar file into the cache, once per file.

Only files that a model uses are extracted. A child process with limited memory extracts them,
because decompression may allocate memory before the amount can be checked.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.families.model_paths import head_of, not_a_model, reading
from elmo_cli.families.registry import FAMILIES
from elmo_cli.filetypes import TAR, ZIP, identify
from elmo_cli.isolate import run_isolated
from elmo_cli.pretrained.catalogue import elmo_home, locked, writing
from elmo_cli.regular_files import sha256_of_file
from elmo_cli.zip_files import max_content

_TAR_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_CHUNK_BYTES = 1 << 20
_MOST_OF_STEM = 50  # characters, each of up to 4 bytes of the 255 that a name may have
# The paths of the files that are extracted, after the folder of the model.
_MODEL_FILE = re.compile("|".join(family.members for family in FAMILIES))
# Files that are no model without others.
_WITHOUT_WEIGHTS = re.compile(r".*\.(json|txt|gz|md|pb|dic)|checkpoint|fta/.*")
# OSError: raised by bz2. RuntimeError: compressed by a method that Python lacks.
_CORRUPT = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
)


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or tar file by its name or its first bytes."""
    if path.name.endswith((".zip", *_TAR_SUFFIXES)):
        return True
    return identify(head_of(path)) in (ZIP, TAR)


def archive_stem(path: Path) -> str:
    """The name of an archive without its suffix, which may have two parts."""
    for suffix in _TAR_SUFFIXES:
        if path.name.endswith(suffix):
            return path.name.removesuffix(suffix)
    return path.stem


def extract_model(path: Path) -> Path:
    """Extract the files of a model, if that was not done before; return their folder.

    Raises ModelError for an archive that is corrupt, unsafe or no model, else OutputError.
    """
    archives = elmo_home() / "archives"
    with reading(path):
        sha256 = sha256_of_file(path)
    folder = archives / f"{archive_stem(path)[:_MOST_OF_STEM]}-{sha256[:16]}"
    if folder.is_dir():
        return folder
    part = folder.with_name(f"{folder.name}.part")
    with locked(archives), writing(folder):
        if folder.is_dir():  # another process has extracted it meanwhile
            return folder
        shutil.rmtree(part, ignore_errors=True)  # of a killed process
        try:
            run_isolated(partial(_extract, path, part), [path], ModelError)
            os.replace(part, folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


@dataclass(frozen=True)
class _Member:
    """A file in an archive.

    Attributes:
        is_readable: it is a regular file and not encrypted.
        open: opens it for reading.
    """

    name: str
    size: int
    is_readable: bool
    open: Callable[[], IO[bytes] | None]


def _extract(path: Path, folder: Path) -> None:
    try:
        with ExitStack() as stack:
            members = _select(path, _members(path, stack))
            with writing(folder):
                folder.mkdir()
                for name, member in members.items():
                    (folder / name).parent.mkdir(exist_ok=True)
                    source = member.open()
                    assert source is not None  # it is a regular file
                    with source, open(folder / name, "wb") as target:
                        shutil.copyfileobj(source, target)  # stops at the size in the header
    except ElmoError:
        raise  # some are OSErrors too
    except _CORRUPT as error:
        kind = "zip" if _is_zip(path) else "tar"
        reason = (str(error) or type(error).__name__).splitlines()[0]
        hint = "the download may have been cut off: get it again, or extract it and give the folder"
        raise ModelError(f"not a complete {kind} file ({reason})", hint, where=path) from None


def _is_zip(path: Path) -> bool:
    return path.suffix == ".zip" or identify(head_of(path)) == ZIP


def _members(path: Path, stack: ExitStack) -> Iterator[_Member]:
    """Yield the files in an archive, which `stack` closes; a tar file is read meanwhile."""
    if _is_zip(path):
        zip_file = stack.enter_context(zipfile.ZipFile(path))
        for info in zip_file.infolist():
            if not info.is_dir():
                is_regular = stat.S_IFMT(info.external_attr >> 16) in (0, stat.S_IFREG)
                is_encrypted = bool(info.flag_bits & 1)
                yield _Member(
                    name=info.filename,
                    size=info.file_size,
                    is_readable=is_regular and not is_encrypted,
                    open=partial(zip_file.open, info),
                )
        return
    tar_file = stack.enter_context(tarfile.open(path))  # noqa: SIM115 - closed by `stack`
    for member in tar_file:
        if not member.isdir():
            yield _Member(
                name=member.name,
                size=member.size,
                is_readable=member.isreg() and not member.issparse(),
                open=partial(tar_file.extractfile, member),
            )
    assert tar_file.fileobj is not None
    _read_to_the_end(tar_file.fileobj.read, max_content(path))


def _read_to_the_end(read: Callable[[int], bytes], limit: int) -> None:
    """Read what follows the last member of a tar file, so that the checksum at its end is verified.

    Args:
        read: returns the next bytes of the tar file, uncompressed.
        limit: the number of bytes that may follow.
    Raises:
        One of `_CORRUPT`: the checksum is wrong, or more bytes follow.
    """
    n_read = 0
    while chunk := read(_CHUNK_BYTES):
        n_read += len(chunk)
        if n_read > limit:
            raise tarfile.ReadError("too many bytes after its end")


def _select(path: Path, members: Iterable[_Member]) -> dict[str, _Member]:
    """The members that a model uses, by their names in the new folder."""
    limit = max_content(path)
    by_name: dict[str, _Member] = {}
    size = 0  # of all members, extracted
    for member in members:
        size += member.size
        name = _new_name(member.name)
        is_inside = {"..", "/"}.isdisjoint(PurePosixPath(member.name).parts)
        is_safe = member.is_readable and is_inside
        if not is_safe or name in by_name or size > limit:
            problem = (
                f"refused, since {member.name!r} is encrypted, is a link, has a path outside "
                f"the archive, occurs twice, or raises the extracted size above {limit} bytes"
            )
            hint = "extract it yourself if you trust it, and give the folder"
            raise ModelError(problem, hint, where=path)
        by_name[name] = member
    used = {name: member for name, member in by_name.items() if _MODEL_FILE.fullmatch(name)}
    if all(_WITHOUT_WEIGHTS.fullmatch(name) for name in used):
        raise not_a_model(path, [PurePosixPath(name).name for name in by_name])
    return used


def _new_name(name: str) -> str:
    """The path of a file after the folder of its model; the whole path if no model uses it."""
    parts = PurePosixPath(name).parts
    for number in range(len(parts)):
        path = "/".join(parts[number:])
        if _MODEL_FILE.fullmatch(path):
            return path
    return name
