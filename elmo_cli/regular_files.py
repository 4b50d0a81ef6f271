"""Files that must be regular: models, settings, HDF5 files; reading JSON settings strictly.

A device may never end and a pipe may never begin; both are refused before they are opened. Texts
and labels are read by `text/`, which takes pipes.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import Any

from elmo_cli.errors import ElmoError

MAX_JSON_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20


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
            f"{os.fspath(path)}: not a regular file", "copy its content to a file and give that"
        )


def read_json(path: str | os.PathLike[str], error_class: type[ElmoError], hint: str) -> Any:
    """Read a JSON file of settings: UTF-8, at most 1 MiB, no key twice in one object.

    Args:
        hint: what to do about a file that is not such JSON.
    Raises:
        FileNotFoundError: it is missing.
        ElmoError: of `error_class`: not a regular file, too large, not JSON, or a key twice.
    """
    check_regular(path, error_class)
    where = os.fspath(path)
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_JSON_BYTES + 1)
        if len(content) > MAX_JSON_BYTES:
            raise error_class(f"{where}: larger than 1 MiB, not a file of settings", hint)
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=unique_keys)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise error_class(f"{where}: can't be read ({error.strerror or error})", hint) from None
    except DuplicateKeyError as error:
        raise error_class(f"{where}: {error}", "remove one of the two") from None
    except (ValueError, RecursionError) as error:
        raise error_class(f"{where}: not JSON ({error})", hint) from None


class DuplicateKeyError(ValueError):
    """A key that occurs twice in a JSON object, of which parsers keep one silently."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its pairs; an `object_pairs_hook` of `json.loads`.

    Raises:
        DuplicateKeyError: a key occurs twice.
    """
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise DuplicateKeyError(f"the key {key!r} occurs twice in one object")
        found[key] = value
    return found


def sha256_of_file(path: str | os.PathLike[str]) -> str:
    """The sha256 of a file's bytes, in hexadecimal.

    Raises:
        OSError: it can't be read.
    """
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
