"""The folder of models, $ELMO_HOME: what is there, its hashes, and a lock for whoever writes.

models/NAME/{options.json, weights.hdf5}   what `elmo models pull` fetched or a hand put there
archives/SHA256/                           what zips and tar files held
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from elmo_cli.errors import ModelError, OutputError
from elmo_cli.files import FileLock, new_file
from elmo_cli.regular_files import check_regular, sha256_of_file

_RECORD = "sha256.json"
_LOCK = ".lock"


def elmo_home() -> Path:
    """$ELMO_HOME, else $XDG_CACHE_HOME/elmo, else ~/.cache/elmo.

    Raises:
        OutputError: none of them can be told.
    """
    home, xdg = os.environ.get("ELMO_HOME"), os.environ.get("XDG_CACHE_HOME", "")
    try:
        if home:
            return Path(home).expanduser().absolute()
        # The XDG specification asks to ignore a path that is not absolute.
        return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "elmo"
    except RuntimeError:
        raise OutputError(
            "no home folder to keep models in", "set ELMO_HOME to a folder that can be written to"
        ) from None


def model_folder(name: str) -> Path:
    """Where the files of a model of the catalogue are kept; it need not exist."""
    return elmo_home() / "models" / name


def archive_folder(sha256: str) -> Path:
    """Where the files of an archive of this hash are kept; it need not exist."""
    return elmo_home() / "archives" / sha256


def is_offline() -> bool:
    """Whether $ELMO_OFFLINE forbids the network; any value but an empty one does."""
    return bool(os.environ.get("ELMO_OFFLINE"))


def make_folder(folder: Path) -> None:
    """Make a folder of the cache.

    Raises:
        OutputError: it can't be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(folder, error) from None
    if not os.access(folder, os.W_OK):
        raise not_writable(folder, PermissionError(13, "Permission denied"))


def not_writable(path: Path, error: OSError) -> OutputError:
    """The error for a place in the cache that can't be written to."""
    return OutputError(
        f"{path}: can't be written to ({error.strerror or error})",
        "set ELMO_HOME to a folder that can be written to and has space",
    )


@contextmanager
def locked(folder: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a folder of the cache for writing; a second process waits until the first is done.

    Where the file system has no locks, nobody waits.

    Args:
        on_wait: called once if another process holds the folder.
    Raises:
        OutputError: the folder can't be made or written to.
    """
    make_folder(folder)
    lock = FileLock(folder / _LOCK)
    try:
        lock.acquire(wait=True, on_wait=on_wait)
    except OSError as error:
        raise not_writable(folder / _LOCK, error) from None
    try:
        yield
    finally:
        lock.release()


def sha256_of(path: Path) -> str:
    """The sha256 of a file, in hex; read once for each size and time of change.

    Below $ELMO_HOME it is also kept in sha256.json beside the file, so that a later process need
    not read half a gigabyte again.

    Raises:
        ModelError: the file can't be read.
    """
    check_regular(path, ModelError)
    try:
        path = path.resolve(strict=True)
        status = path.stat()
        return _sha256(path, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise ModelError(
            f"{path}: can't be read ({error.strerror or error})", "check the path and its rights"
        ) from None


@lru_cache(maxsize=256)
def _sha256(path: Path, size: int, mtime_ns: int) -> str:
    is_ours = elmo_home().resolve() in path.parents
    known = _recorded(path.parent).get(path.name, {}) if is_ours else {}
    if known == {"sha256": known.get("sha256"), "bytes": size, "mtime_ns": mtime_ns}:
        return str(known["sha256"])
    digest = sha256_of_file(path)
    if is_ours:
        _record(path, {"sha256": digest, "bytes": size, "mtime_ns": mtime_ns})
    return digest


def remember_sha256(path: Path, digest: str) -> None:
    """Keep the hash of a file in the cache that was hashed while it was written."""
    status = path.stat()
    _record(path, {"sha256": digest, "bytes": status.st_size, "mtime_ns": status.st_mtime_ns})


def _recorded(folder: Path) -> dict[str, dict[str, Any]]:
    try:
        content = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    facts = content.items() if isinstance(content, dict) else ()
    return {name: fact for name, fact in facts if isinstance(fact, dict)}


def _record(path: Path, facts: dict[str, str | int]) -> None:
    # A cache that others own is read, never written to; then the hash is made anew each time.
    with suppress(OSError), new_file(path.with_name(_RECORD)) as file:
        text = json.dumps({**_recorded(path.parent), path.name: facts}, indent=1)
        file.write(f"{text}\n".encode())
