"""Extract a model from an untrusted zip or tar file into the cache, once per archive.

Only files that a model uses are extracted. A child process does it, because Python's readers of
archives allocate memory before they can be asked how much.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import stat
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, NamedTuple

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.filetypes import GZIP, TAR, TORCH, XZ, ZIP
from elmo_cli.isolate import run_isolated
from elmo_cli.pretrained.cache import elmo_home, locked, writing
from elmo_cli.pretrained.model_files import HDF5_SUFFIXES, head_of, not_a_model, sha256_of

SUFFIXES = (".zip", ".tar.gz", ".tgz", ".tar.xz", ".tar")
_MODEL_FILE = re.compile(
    r"[^./][^/]*\.(hdf5|h5)|([^./][^/]*)?options[^/]*\.json|parts\.json|vocab[^/]*\.txt(\.gz)?"
    r"|README\.md"
)
_MAX_BYTES = 16 << 30
# Weights hardly compress; a small archive may have any ratio.
_MAX_RATIO, _MIN_LIMIT = 100, 64 << 20
_CHUNK = 1 << 20
_DAY_S = 24 * 3600.0
_CORRUPT = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError),
    RuntimeError,  # encrypted, or a compression method that Python lacks
)


def is_archive(path: Path) -> bool:
    """Whether a file is a zip or tar file by its name or its first bytes."""
    return path.name.endswith(SUFFIXES) or head_of(path)[1] in (ZIP, TORCH, GZIP, XZ, TAR)


def stem_of(path: Path) -> str:
    """The name of an archive without its suffix."""
    suffix = next((one for one in SUFFIXES if path.name.endswith(one)), path.suffix)
    return path.name.removesuffix(suffix)


def extract_model(path: Path) -> Path:
    """Extract the files of a model, if that was not done before; return their folder.

    Raises ModelError for an archive that is corrupt, unsafe or no model, else OutputError.
    """
    archives = elmo_home() / "archives"
    folder = archives / f"{stem_of(path)[:100]}-{sha256_of(path)[:16]}"
    if folder.is_dir():
        return folder
    with locked(archives), writing(folder):
        for left in archives.glob("*.part"):  # by killed processes
            if time.time() - left.stat().st_mtime > _DAY_S:
                shutil.rmtree(left, ignore_errors=True)
        # Where there are no locks, another process may do the same.
        with TemporaryDirectory(".part", dir=archives) as part:
            run_isolated(partial(_extract, path, Path(part, "model")), [path], ModelError)
            if not folder.is_dir():
                os.replace(Path(part, "model"), folder)
    return folder


def _extract(path: Path, folder: Path) -> None:
    try:
        with _members(path) as members:
            selected = _select(path, members)
            with writing(folder):
                folder.mkdir()
            for name, member in selected.items():
                _copy(member, folder / name)
    except ElmoError:
        raise  # some are OSErrors too
    except _CORRUPT as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ModelError(
            f"{path}: not a complete zip or tar file ({reason})",
            "the download may have been cut off: get it again, or extract it and give the folder",
        ) from None


class _Member(NamedTuple):
    name: str
    n_bytes: int
    is_regular: bool
    open: Callable[[], IO[bytes] | None]


@contextmanager
def _members(path: Path) -> Iterator[Iterator[_Member]]:
    """The members of an archive other than folders, read as they are needed."""
    if head_of(path)[1] in (ZIP, TORCH):
        with zipfile.ZipFile(path) as opened:
            yield (
                _Member(
                    *(one.filename, one.file_size),
                    stat.S_IFMT(one.external_attr >> 16) in (0, stat.S_IFREG),
                    partial(opened.open, one),
                )
                for one in opened.infolist()
                if not one.is_dir()
            )
    else:
        with tarfile.open(path) as archive:
            yield (
                _Member(one.name, one.size, one.isreg(), partial(archive.extractfile, one))
                for one in archive
                if not one.isdir()
            )


def _select(path: Path, members: Iterable[_Member]) -> dict[str, _Member]:
    """The members that a model uses, by their names in the new folder."""
    limit = min(_MAX_BYTES, max(_MIN_LIMIT, _MAX_RATIO * path.stat().st_size))
    found: dict[str, _Member] = {}
    total = 0
    for member in members:
        base, parts = PurePosixPath(member.name).name, PurePosixPath(member.name).parts
        name = base if _MODEL_FILE.fullmatch(base) else member.name
        total += member.n_bytes
        problems = {
            f"{name!r} is a link or a device": not member.is_regular,
            f"{member.name!r} leads out of the archive": not {"..", "/"}.isdisjoint(parts),
            f"{name!r} occurs twice": name in found,
            f"it extracts to more than {limit} bytes": total > limit,
        }
        if problem := next((what for what, is_so in problems.items() if is_so), ""):
            hint = "extract it yourself if you trust it, and give the folder"
            raise ModelError(f"{path}: refused, since {problem}", hint)
        found[name] = member
    used = {name: member for name, member in found.items() if _MODEL_FILE.fullmatch(name)}
    if not any(name.endswith(HDF5_SUFFIXES) for name in used):
        raise not_a_model(path, [PurePosixPath(name).name for name in found])
    return used


def _copy(member: _Member, target: Path) -> None:
    with writing(target):
        output = open(target, "wb", buffering=0)  # noqa: SIM115 - closed by the next line
    with output:
        # Both readers stop at the size of the header, which was checked.
        source = member.open()
        while source and (chunk := source.read(_CHUNK)):
            with writing(target):
                output.write(chunk)
