"""All arrays of an HDF5 file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py


def read_arrays(path: Path) -> dict[str, Any]:
    """All data sets of a file by their paths."""
    arrays: dict[str, Any] = {}

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[...]

    with h5py.File(path) as file:
        file.visititems(add)
    return arrays
