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
    """Write facts in their order: numbers, strings, None, numeric arrays, and what JSON holds."""
    for name, value in facts.items():
        file.attrs[name] = _encoded(value)


def read_attributes(file: h5py.File) -> dict[str, Any]:
    """What `write_attributes` wrote, in its order; attributes of other programs as they are."""
    return {name: _decoded(value) for name, value in file.attrs.items()}


def _encoded(value: object) -> object:
    # NUL would end a string of HDF5, half a surrogate pair is not UTF-8; neither is printable.
    if isinstance(value, str) and value.isprintable() and not _is_json(value):
        return value
    return value if isinstance(value, (bool, int, float, np.ndarray)) else json.dumps(value)


def _decoded(value: Any) -> Any:
    """A value of the types that JSON knows; numeric arrays stay arrays."""
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
