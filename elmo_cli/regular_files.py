"""Files that must be regular, such as models: a device may never end, a pipe never begin."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from contextlib import suppress
from typing import Any

from elmo_cli.errors import ElmoError
from elmo_cli.files import StrPath

_MAX_SETTINGS_BYTES = 1 << 20
_CHUNK_BYTES = 1 << 20


def is_regular(path: StrPath) -> bool:
    """Whether a path is a regular file, a folder or missing: opening it neither waits nor lasts."""
    with suppress(OSError, ValueError):  # whatever opens it reports the reason
        mode = os.stat(path).st_mode
        return stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    return True


def check_regular(path: StrPath, error_class: type[ElmoError]) -> None:
    """Raise `error_class` for a pipe, a socket or a device."""
    if not is_regular(path):
        raise error_class("not a regular file", "copy its content to a file", where=path)


# What a value of JSON raises while it is read as one of another kind, or as a number that is too
# large for a float.
INVALID_JSON = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def read_json(path: StrPath, error_class: type[ElmoError], hint: str) -> Any:
    """Read settings in JSON: UTF-8, at most 1 MiB, no key twice; or FileNotFoundError."""
    check_regular(path, error_class)
    try:
        with open(path, "rb") as file:
            content = file.read(_MAX_SETTINGS_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = f"can't be read ({error.strerror or error})"
        raise error_class(problem, hint, where=path) from None
    if len(content) > _MAX_SETTINGS_BYTES:
        raise error_class("larger than 1 MiB, so no settings", hint, where=path)
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise error_class(f"not JSON ({error})", hint, where=path) from None


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; ValueError for a key twice, of which parsers keep one value silently."""
    members = dict(pairs)
    if len(members) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        [(repeated, _)] = counts.most_common(1)
        raise ValueError(f"the key {repeated[:40]!r} occurs twice in one object")
    return members


def sha256_of_file(path: StrPath) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
