"""What a weight file tells without its options.json: shapes, options that follow, its sha256."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import h5py

from elmo_cli.errors import WeightFileError
from elmo_cli.store.recognise import kind_of_weights

_READ_BYTES = 1 << 22


def weight_facts(path: Path, file: h5py.File) -> dict[str, Any]:
    """Facts of an open file of weights, biLM or softmax.

    Returns:
        kind "weights", weights ("biLM", "softmax"), path, bytes, sha256, dtypes, parameters, shapes
        (HDF5 path -> shape) and options: those keys of an options.json that the shapes decide.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: set[str] = set()

    def note(name: str, member: object) -> None:
        if isinstance(member, h5py.Dataset):
            shapes[name] = tuple(member.shape or ())
            dtypes.add(str(member.dtype))

    file.visititems(note)
    kind = kind_of_weights(file)
    return {
        "kind": "weights",
        "weights": kind,
        "path": str(path),
        "bytes": path.stat().st_size,
        "sha256": sha256_of(path),
        "dtypes": sorted(dtypes),
        "parameters": sum(_size(shape) for shape in shapes.values()),
        "shapes": {name: list(shape) for name, shape in shapes.items()},
        "options": _options(path, shapes) if kind == "biLM" else {},
    }


def sha256_of(path: Path) -> str:
    """The sha256 of a file's bytes, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            digest.update(piece)
    return digest.hexdigest()


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for length in shape:
        size *= length
    return size


def _options(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    """The part of options.json that shapes decide; clips, activation and skips leave no trace."""
    try:
        return {"char_cnn": _char_cnn(shapes), "lstm": _lstm(shapes)}
    except (KeyError, IndexError, ValueError) as error:
        raise WeightFileError(
            f"{path}: weights of a biLM, but not whole: {error} is missing or of another rank",
            "copy the file again; bilm-tf and AllenNLP name all parts alike",
        ) from None


def _char_cnn(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    n_filters = _count(shapes, "CNN/W_cnn_{}")
    filters = [shapes[f"CNN/W_cnn_{i}"] for i in range(n_filters)]
    rows, char_dim = shapes["char_embed"]
    return {
        "n_characters": rows,
        "embedding": {"dim": char_dim},
        "filters": [[width, n] for _, width, _, n in filters],
        "n_highway": _count(shapes, "CNN_high_{}/W_carry"),
    }


def _lstm(shapes: dict[str, tuple[int, ...]]) -> dict[str, Any]:
    cell = "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell/"
    first = cell.format(0)
    dim = shapes[first + "B"][0] // 4
    projected = shapes.get(first + "W_P_0")
    return {
        "dim": dim,
        "projection_dim": projected[1] if projected else dim,
        "n_layers": _count(shapes, cell + "W_0"),
    }


def _count(shapes: dict[str, tuple[int, ...]], name: str) -> int:
    n = 0
    while name.format(n) in shapes:
        n += 1
    return n
