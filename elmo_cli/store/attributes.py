"""Facts as attributes of the root of an HDF5 file, and back.

Readers of most layouts take every data set and group for a sentence, so facts can only be
attributes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import h5py
import numpy as np


def write_attributes(file: h5py.File, facts: Mapping[str, object]) -> None:
    """Write `facts` as attributes of the root of `file`, in their order.

    Args:
        file: open for writing.
        facts: name -> a str, bool, int, float, None, numeric array, or a list or dict of what JSON
            can hold.
    """
    for name, value in facts.items():
        file.attrs[name] = _encoded(value)


def read_attributes(file: h5py.File) -> dict[str, Any]:
    """What `write_attributes` wrote, in its order; attributes of other programs as they are."""
    return {name: _decoded(value) for name, value in file.attrs.items()}


def _encoded(value: object) -> object:
    """A value that HDF5 holds and `_decoded` turns back."""
    if isinstance(value, str):
        # NUL would end a string of HDF5, and half a surrogate pair (of a file by another program)
        # is not UTF-8; the others would be decoded as JSON.
        is_plain = value.isprintable() or ("\0" not in value and not _has_surrogates(value))
        return value if is_plain and not _is_json(value) else json.dumps(value)
    return value if isinstance(value, (bool, int, float, np.ndarray)) else json.dumps(value)


def _decoded(value: Any) -> Any:
    """A Python value of the types that JSON knows; numeric arrays stay arrays."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "iuf" and value.ndim:
        return value
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, (list, tuple)):
        return [_decoded(element) for element in value]
    if isinstance(value, str) and _is_json(value):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):  # a string of another program
            return value
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return None if isinstance(value, h5py.Empty) else str(value)


def _is_json(text: str) -> bool:
    return text.startswith(("[", "{", '"')) or text == "null"


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
