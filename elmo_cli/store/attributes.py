"""Facts as attributes of the root group, and back.

Readers of these layouts take every dataset and group for a sentence, so attributes are the one
place for facts. An attribute in HDF5 1.8 holds less than 64 KiB, hence the pieces.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import h5py
import numpy as np

PIECE = 12_000  # characters; at most 4 bytes each


def write_attributes(file: h5py.File, facts: Mapping[str, object]) -> None:
    """Write `facts` as attributes of the root of `file`, in their order.

    Args:
        file: open for writing.
        facts: name -> a str, bool, int, float, None, list or dict (of what JSON can hold).
    """
    for name, value in facts.items():
        for piece, written in _pieces(name, _encoded(value)):
            file.attrs[piece] = written


def read_attributes(file: h5py.File) -> dict[str, Any]:
    """What `write_attributes` wrote, in its order; attributes of foreign files as they are."""
    pieces: dict[str, dict[int, Any]] = {}
    for name, value in file.attrs.items():
        whole, _, number = name.partition("#")
        # Old releases of h5py yield the pieces by name: 0, 1, 10, 2.
        pieces.setdefault(whole, {})[int(number) if number.isdecimal() else 0] = _plain(value)
    return {name: _decoded(_joined(found)) for name, found in pieces.items()}


def _joined(pieces: dict[int, Any]) -> Any:
    """The whole of what was cut; a foreign file may count something else so, and gets a list."""
    found = [pieces[number] for number in sorted(pieces)]
    if len(found) == 1:
        return found[0]
    return "".join(found) if all(isinstance(piece, str) for piece in found) else found


def _encoded(value: object) -> object:
    """A value that HDF5 holds and `_decoded` turns back."""
    if isinstance(value, str):
        # NUL would end a string of HDF5, half a surrogate pair (of a file by another program) has
        # no place in one; the others would read as JSON.
        odd = "\0" in value or (not value.isascii() and _has_surrogates(value))
        return json.dumps(value) if odd or _reads_as_json(value) else value
    return value if isinstance(value, (bool, int, float)) else json.dumps(value)


def _decoded(value: Any) -> Any:
    if not isinstance(value, str) or not _reads_as_json(value):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):  # a foreign file's own string
        return value


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _reads_as_json(text: str) -> bool:
    return text.startswith(("[", "{", '"')) or text == "null"


def _pieces(name: str, value: object) -> Iterator[tuple[str, object]]:
    if not isinstance(value, str) or len(value) <= PIECE:
        yield name, value
        return
    for number, start in enumerate(range(0, len(value), PIECE)):
        yield f"{name}#{number}", value[start : start + PIECE]


def _plain(value: Any) -> Any:
    """A Python value for what h5py reads, of the types that JSON and `pickle` know."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return [_plain(element) for element in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return None if isinstance(value, h5py.Empty) else str(value)
