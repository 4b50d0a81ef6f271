"""What a weight file contains and whether it is valid, without torch and without its options."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from elmo_cli import hdf5
from elmo_cli.arrays import Float32Array
from elmo_cli.errors import WeightFileError
from elmo_cli.files import StrPath
from elmo_cli.hdf5 import dataset_names, open_dataset, open_hdf5, reading
from elmo_cli.isolate import run_isolated
from elmo_cli.regular_files import sha256_of_file
from elmo_cli.weightfile.named_arrays import (
    LARGEST_WEIGHT,
    SOFTMAX_BIAS,
    SOFTMAX_WEIGHT,
    check_values,
)
from elmo_cli.weightfile.table import CHAR_EMBED, lstm_path

# A file with all arrays of one of these rows contains weights of this kind.
_KINDS = (
    ("biLM", (f"{lstm_path(direction=0, layer=0)}/W_0",)),
    ("biLM", (CHAR_EMBED, "CNN/W_cnn_0")),
    ("softmax", (SOFTMAX_WEIGHT, SOFTMAX_BIAS)),
)


def kind_of_weights(file: h5py.File) -> str:
    """What an open file contains: "biLM", "softmax", or "" for no weights; or WeightFileError."""
    for kind, names in _KINDS:
        if all(find_dataset(file, name) is not None for name in names):
            return kind
    return ""


def find_dataset(file: h5py.File, name: str) -> h5py.Dataset | None:
    """Open a data set of an open weight file, None where it is missing; or WeightFileError."""
    with reading(file.filename, WeightFileError), suppress(hdf5.NoSuchNameError):
        return open_dataset(file, name)
    return None


def describe_weights(path: Path, file: h5py.File) -> dict[str, Any]:
    """Describe an open file of weights, biLM or softmax, without reading values.

    Returns:
        kind "weights", weights ("biLM", "softmax"), path, bytes, sha256, dtypes, parameters, and
        shapes (HDF5 path -> shape).
    """
    with reading(path, WeightFileError):
        datasets = {name: file[name] for name in dataset_names(file)}  # by links that were checked
        shapes = {name: tuple(dataset.shape or ()) for name, dataset in datasets.items()}
    return {
        "kind": "weights",
        "weights": kind_of_weights(file),
        "path": str(path),
        "bytes": path.stat().st_size,
        "sha256": sha256_of_file(path),
        "dtypes": sorted({str(dataset.dtype) for dataset in datasets.values()}),
        "parameters": sum(math.prod(shape) for shape in shapes.values()),
        "shapes": {name: list(shape) for name, shape in shapes.items()},
    }


def weight_problems(file: h5py.File) -> Iterator[str]:
    """Yield what is wrong with an open file of weights, as `read_values` refuses it."""
    with reading(file.filename, WeightFileError):
        for name in dataset_names(file):
            try:
                with reading(file.filename, WeightFileError):
                    read_values(open_dataset(file, name))
            except WeightFileError as error:
                yield error.problem


def read_values(dataset: h5py.Dataset, *, largest: float = LARGEST_WEIGHT) -> Float32Array:
    """Read all values of an array of an open weight file as float32.

    Args:
        largest: the largest absolute value that is accepted.
    Raises:
        WeightFileError: not floats; NaN, infinite or absurdly large values; or corrupt.
    """
    path = dataset.file.filename
    name = dataset.name.lstrip("/")
    with reading(path, WeightFileError):
        if dataset.dtype.kind != "f":
            problem = f"{name} holds {dataset.dtype}, not float32 or float16"
            raise WeightFileError(problem, "write the weights again as float32", where=path)
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            array: Float32Array = hdf5.read_dataset(dataset).astype(np.float32)
    check_values(array, name, path, largest=largest)
    return array


def holds_bilm(path: StrPath) -> bool:
    """Whether a file contains a biLM, found in a child process; OSError if it is no HDF5 file."""

    def work() -> bool:
        with open_hdf5(path) as file:
            return CHAR_EMBED in file

    return run_isolated(work, [path], WeightFileError)
