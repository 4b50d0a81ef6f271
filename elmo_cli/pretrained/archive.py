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
from elmo_cli.zip_files import max_content

_MODEL_FILE = re.compile(
    r"[^./][^/]*\.(hdf5|h5)|([^./][^/]*)?options[^/]*\.json|parts\.json|vocab[^/]*\.txt(\.gz)?"
    r"|README\.md"
)
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


def _extract(path: Path, folder: Path) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            files = [member for member in archive.infolist() if not member.is_dir()]
            members = _select(path, files)
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
        raise ModelError(f"not a complete zip file ({reason})", hint, where=path) from None


def _select(path: Path, members: Iterable[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The members that a model uses, by their names in the new folder."""
    limit = max_content(path)
    by_name: dict[str, zipfile.ZipInfo] = {}
    size = 0  # of all members, extracted
    for member in members:
        size += member.file_size
        name = _new_name(member)
        if not _is_readable(member) or name in by_name or size > limit:
            problem = (
                f"refused, since {member.filename!r} is encrypted, is a link, has a path outside "
                f"the archive, occurs twice, or raises the extracted size above {limit} bytes"
            )
            hint = "extract it yourself if you trust it, and give the folder"
            raise ModelError(problem, hint, where=path)
        by_name[name] = member
    used = {name: member for name, member in by_name.items() if _MODEL_FILE.fullmatch(name)}
    if not any(name.endswith(HDF5_SUFFIXES) for name in used):
        raise not_a_model(path, [PurePosixPath(name).name for name in by_name])
    return used


def _new_name(member: zipfile.ZipInfo) -> str:
    """The name of a file that a model uses, without its folders; of others the whole path."""
    name = PurePosixPath(member.filename).name
    return name if _MODEL_FILE.fullmatch(name) else member.filename


def _is_readable(member: zipfile.ZipInfo) -> bool:
    is_regular = stat.S_IFMT(member.external_attr >> 16) in (0, stat.S_IFREG)
    is_inside = {"..", "/"}.isdisjoint(PurePosixPath(member.filename).parts)
    is_encrypted = bool(member.flag_bits & 1)
    return is_regular and is_inside and not is_encrypted
