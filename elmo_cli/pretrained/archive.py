"""Extract a model from an untrusted zip file into the cache, once per file.

Only files that a model uses are extracted. A child process with limited memory extracts them,
because decompression may allocate memory before the amount can be checked.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import stat
import zipfile
import zlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path, PurePosixPath

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.filetypes import ZIP, identify
from elmo_cli.isolate import run_isolated
from elmo_cli.pretrained.catalogue import elmo_home, locked, writing
from elmo_cli.pretrained.model_files import HDF5_SUFFIXES, head_of, not_a_model, sha256_of

_MODEL_FILE = re.compile(
    r"[^./][^/]*\.(hdf5|h5)|([^./][^/]*)?options[^/]*\.json|parts\.json|vocab[^/]*\.txt(\.gz)?"
    r"|README\.md"
)
# Weights hardly compress; a small archive may have any ratio.
_MAX_RATIO, _MIN_LIMIT = 100, 64 << 20
# OSError: raised by bz2. RuntimeError: compressed by a method that Python lacks.
_CORRUPT = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError)


def is_archive(path: Path) -> bool:
    """Whether a file is a zip file by its name or its first bytes."""
    return path.suffix == ".zip" or identify(head_of(path)) == ZIP


def extract_model(path: Path) -> Path:
    """Extract the files of a model, if that was not done before; return their folder.

    Raises ModelError for an archive that is corrupt, unsafe or no model, else OutputError.
    """
    archives = elmo_home() / "archives"
    folder = archives / f"{path.stem[:100]}-{sha256_of(path)[:16]}"
    part = folder.with_name(f"{folder.name}.part")
    if folder.is_dir():
        return folder
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


def _extract(path: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            members = _select(path, (one for one in archive.infolist() if not one.is_dir()))
            with writing(folder):
                folder.mkdir()
                for name, member in members.items():
                    with archive.open(member) as source, open(folder / name, "wb") as target:
                        shutil.copyfileobj(source, target)  # stops at the size in the header
    except ElmoError:
        raise  # some are OSErrors too
    except _CORRUPT as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        hint = "the download may have been cut off: get it again, or extract it and give the folder"
        raise ModelError(f"{path}: not a complete zip file ({reason})", hint) from None


def _select(path: Path, members: Iterable[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The members that a model uses, by their names in the new folder."""
    limit = max(_MIN_LIMIT, _MAX_RATIO * path.stat().st_size)
    found: dict[str, zipfile.ZipInfo] = {}
    total = 0
    for member in members:
        inner = PurePosixPath(member.filename)
        name = inner.name if _MODEL_FILE.fullmatch(inner.name) else member.filename
        total += member.file_size
        is_regular = stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG)
        is_inside = {"..", "/"}.isdisjoint(inner.parts)
        is_readable = is_regular and is_inside and not member.flag_bits & 1  # encrypted
        if not is_readable or name in found or total > limit:
            what = f"{member.filename!r} is encrypted, is a link, has a path outside the archive, "
            what += f"occurs twice, or raises the extracted size above {limit} bytes"
            hint = "extract it yourself if you trust it, and give the folder"
            raise ModelError(f"{path}: refused, since {what}", hint)
        found[name] = member
    used = {name: member for name, member in found.items() if _MODEL_FILE.fullmatch(name)}
    if not any(name.endswith(HDF5_SUFFIXES) for name in used):
        raise not_a_model(path, [PurePosixPath(name).name for name in found])
    return used
