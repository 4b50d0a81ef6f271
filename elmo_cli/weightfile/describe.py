"""What a weight file contains and whether it is valid, without torch and without its options."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from elmo_cli.errors import ElmoError, WeightFileError
from elmo_cli.hdf5 import (
    NoSuchNameError,
    dataset_names,
    open_dataset,
    open_group,
    open_hdf5,
    read_dataset,
    reading,
)
from elmo_cli.isolate import StrPath, run_isolated
from elmo_cli.regular_files import sha256_of_file

Array = npt.NDArray[np.float32]

_PIECE_BYTES = 1 << 24
_LARGEST = 1e6  # trained weights are far below; what is far above overflows in the first layer
_LSTM = "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell/"


def kind_of_weights(file: h5py.File) -> str:
    """What an open file contains: "biLM", "softmax", or "" for no weights.

    Raises:
        WeightFileError: an external link in the place of weights, or corrupt.
    """
    with reading(file.filename, WeightFileError):
        if _has(file, "RNN_0") or (_has(file, "char_embed") and _has(file, "CNN")):
            return "biLM"
        return "softmax" if _has(file, "softmax/W") and _has(file, "softmax/b") else ""


def describe_weights(path: Path, file: h5py.File) -> dict[str, Any]:
    """Describe an open file of weights, biLM or softmax, without reading values.

    Returns:
        kind "weights", weights ("biLM", "softmax"), path, bytes, sha256, dtypes, parameters, shapes
        (HDF5 path -> shape) and options: those keys of an options.json that the shapes decide.
    Raises:
        WeightFileError: parts of a biLM are missing, or the file is corrupt.
    """
    kind = kind_of_weights(file)
    with reading(path, WeightFileError):
        names = list(dataset_names(file))
        datasets = [file[name] for name in names]  # by links that have been checked
        shapes = {name: tuple(one.shape or ()) for name, one in zip(names, datasets, strict=True)}
        dtypes = sorted({str(one.dtype) for one in datasets})
    return {
        "kind": "weights",
        "weights": kind,
        "path": str(path),
        "bytes": path.stat().st_size,
        "sha256": sha256_of_file(path),
        "dtypes": dtypes,
        "parameters": sum(map(math.prod, shapes.values())),
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "options": _options(path, shapes) if kind == "biLM" else {},
    }


def weight_problems(file: h5py.File) -> Iterator[str]:
    """Yield what is wrong with an open file of weights, as `read_values` refuses it.

    Raises:
        WeightFileError: its data sets can't be listed.
    """
    path = str(file.filename)
    with reading(path, WeightFileError):
        names = list(dataset_names(file))
    for name in names:
        try:
            with reading(path, WeightFileError):
                dataset = open_dataset(file, name)
            read_values(dataset, path)
        except WeightFileError as error:
            yield error.message.removeprefix(f"{path}: ")


def read_values(dataset: h5py.Dataset, path: StrPath) -> Array:
    """Read all values of an array as float32.

    Args:
        dataset: of an open weight file.
        path: name of the file for messages.
    Raises:
        WeightFileError: not floats; NaN, infinite or absurdly large values; or corrupt.
    """
    name = str(dataset.name).lstrip("/")
    with reading(path, WeightFileError):
        if dataset.dtype.kind != "f":
            raise WeightFileError(
                f"{path}: {name} holds {dataset.dtype}, not float32 or float16",
                "write the weights again as float32",
            )
        values = read_dataset(dataset)
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        array: Array = values.astype(np.float32)
    if not np.isfinite(array).all():
        raise WeightFileError(
            f"{path}: {name} has values that are NaN or infinite",
            "training may have diverged: use an earlier checkpoint of this model",
        )
    if array.size and (largest := float(np.abs(array).max())) > _LARGEST:
        raise WeightFileError(
            f"{path}: {name} has a value of {largest:.3g}, weights are below {_LARGEST:g}",
            "the file is corrupt or the model is untrained: get it again",
        )
    return array


def holds_bilm(path: StrPath) -> bool:
    """Whether a file contains the weights of a biLM, found in a child process.

    Raises:
        WeightFileError: HDF5 crashes on it or exceeds a limit.
        OSError, RuntimeError: it is not a complete HDF5 file.
    """
    return run_isolated(partial(_holds_bilm, path), [path], WeightFileError)


def probe_hdf5(
    paths: Sequence[StrPath | None], error_class: type[ElmoError] = WeightFileError
) -> None:
    """Let a child process open all data sets of files and unpack those that are compressed.

    This finds what would crash a reader; what is wrong with a data set, its reader reports.

    Args:
        paths: HDF5 files; None for one that a model lacks.
    Raises:
        ElmoError: of `error_class`: HDF5 crashes on one of them or exceeds a limit, or its groups
            can't be listed, by external links for example.
    """
    for path in paths:
        if path is not None:
            run_isolated(partial(_probe, path, error_class), [path], error_class)


def _has(file: h5py.File, name: str) -> bool:
    for opener in (open_dataset, open_group):
        with suppress(NoSuchNameError):
            opener(file, name)
            return True
    return False


def _holds_bilm(path: StrPath) -> bool:
    with open_hdf5(path) as file:
        return "char_embed" in file


def _probe(path: StrPath, error_class: type[ElmoError]) -> None:
    try:
        file = open_hdf5(path)
    except OSError:
        return  # its reader says why
    with file, reading(path, error_class):
        for name in dataset_names(file):
            with suppress(Exception):
                _unpack(open_dataset(file, name))


def _unpack(dataset: h5py.Dataset) -> None:
    """Read compressed numbers, in pieces; others need no code that could crash."""
    if dataset.dtype.kind == "f" and dataset.chunks is not None:
        row_bytes = max(1, dataset.nbytes // max(1, len(dataset)))
        step = max(1, _PIECE_BYTES // row_bytes)
        for begin in range(0, len(dataset), step):
            dataset[begin : begin + step]


def _options(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The part of options.json that shapes decide; clips, activation and skips leave no trace."""
    try:
        return {"char_cnn": _char_cnn(shapes), "lstm": _lstm(shapes)}
    except (LookupError, ValueError) as error:
        raise WeightFileError(
            f"{path}: weights of a biLM, but {error} is missing or has another rank",
            "get the file again: bilm-tf and AllenNLP use the same names",
        ) from None


def _char_cnn(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    filters = [shapes[f"CNN/W_cnn_{i}"] for i in range(_count(shapes, "CNN/W_cnn_{}"))]
    rows, char_dim = shapes["char_embed"]
    return {
        "n_characters": rows,
        "embedding": {"dim": char_dim},
        "filters": [[width, n] for _, width, _, n in filters],
        "n_highway": _count(shapes, "CNN_high_{}/W_carry"),
    }


def _lstm(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    dim = shapes[_LSTM.format(0) + "B"][0] // 4
    projected = shapes.get(_LSTM.format(0) + "W_P_0")
    return {
        "dim": dim,
        "projection_dim": projected[1] if projected else dim,
        "n_layers": _count(shapes, _LSTM + "W_0"),
    }


def _count(shapes: dict[str, tuple[int, ...]], name: str) -> int:
    n = 0
    while name.format(n) in shapes:
        n += 1
    return n
