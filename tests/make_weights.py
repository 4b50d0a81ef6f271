"""Weights of made-up biLMs: the same bits on every machine, so that frozen outputs fit them.

Each array has a random stream of its own, seeded by the sha256 of "MODEL/NAME OF THE ARRAY". A
sample is the sum of three uniform ones, shifted and scaled to mean 0 and variance 1: no logarithm
or cosine that C libraries could round differently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

OptionsJson = dict[str, Any]  # the content of an options.json
WeightArray = npt.NDArray[np.float32]


def options_of(
    *,
    filters: list[list[int]],
    char_dim: int,
    cell: int,
    projection: int,
    n_layers: int = 2,
    n_highway: int = 1,
    activation: str = "relu",
    skip: bool = True,
    cell_clip: float | None = 3,
    proj_clip: float | None = 3,
    forget_bias: float | None = None,
) -> OptionsJson:
    """The content of an options.json."""
    stated_bias = {} if forget_bias is None else {"forget_bias": forget_bias}
    return {
        "lstm": {
            **stated_bias,
            "use_skip_connections": skip,
            "projection_dim": projection,
            "cell_clip": cell_clip,
            "proj_clip": proj_clip,
            "dim": cell,
            "n_layers": n_layers,
        },
        "char_cnn": {
            "activation": activation,
            "filters": filters,
            "n_highway": n_highway,
            "embedding": {"dim": char_dim},
            "n_characters": 262,
            "max_characters_per_token": 50,
        },
    }


_PUBLISHED_FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]

MODELS: dict[str, OptionsJson] = {
    "tiny": options_of(
        filters=[[1, 4], [2, 8], [3, 16], [4, 32]], char_dim=4, cell=16, projection=8
    ),
    # What tiny leaves out: three layers, no residual, tanh, clips that are reached often.
    "odd": options_of(
        filters=[[1, 5], [3, 7], [5, 11], [6, 13], [9, 4]],
        char_dim=6,
        cell=20,
        projection=12,
        n_layers=3,
        n_highway=2,
        activation="tanh",
        skip=False,
        cell_clip=1.5,
        proj_clip=0.75,
    ),
    # The sizes of the published `small`.
    "small": options_of(filters=_PUBLISHED_FILTERS, char_dim=16, cell=1024, projection=128),
}

_EIGHT = [[1, 3], [2, 5]]  # 8 filters

# What an options.json may name or leave out; each must compute what the oracle computes.
SHAPES: dict[str, OptionsJson] = {
    "tiny": MODELS["tiny"],
    "odd": MODELS["odd"],
    "no CNN_proj": options_of(filters=_EIGHT, char_dim=3, cell=11, projection=8),
    "no W_P_0": options_of(filters=[[2, 13]], char_dim=3, cell=6, projection=6, proj_clip=0.1),
    "neither": options_of(filters=_EIGHT, char_dim=3, cell=8, projection=8, cell_clip=0.5),
    "no highway": options_of(filters=_EIGHT, char_dim=2, cell=7, projection=4, n_highway=0),
    "one layer": options_of(filters=_EIGHT, char_dim=2, cell=7, projection=4, n_layers=1),
    "four layers": options_of(
        filters=_EIGHT, char_dim=2, cell=5, projection=6, n_layers=4, skip=True, n_highway=3
    ),
    "no clips": options_of(
        filters=_EIGHT, char_dim=2, cell=9, projection=5, cell_clip=None, proj_clip=None
    ),
    "tight clips": options_of(
        filters=_EIGHT, char_dim=2, cell=9, projection=5, cell_clip=0.3, proj_clip=0.2
    ),
    "forget bias in the file": options_of(
        filters=_EIGHT, char_dim=2, cell=9, projection=5, forget_bias=0
    ),
}


def weight_arrays(options: OptionsJson, model: str) -> dict[str, WeightArray]:
    """Every array of the weight file, by its HDF5 name.

    Matrices that bilm-tf has no need of are left out: CNN_proj where the filters make up
    projection_dim already, W_P_0 where dim is projection_dim.
    """
    return dict(_cnn_arrays(options, model)) | dict(_lstm_arrays(options, model))


def write_model(folder: Path, options: OptionsJson, model: str) -> Path:
    """Write options.json and weights.hdf5 into `folder`, and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    write_arrays(folder / "weights.hdf5", weight_arrays(options, model))
    return folder


def write_arrays(path: Path, arrays: dict[str, Any]) -> Path:
    """Write arrays into a new HDF5 file, and return its path."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    return path


def _cnn_arrays(options: OptionsJson, model: str) -> Iterator[tuple[str, WeightArray]]:
    cnn = options["char_cnn"]
    projection = options["lstm"]["projection_dim"]
    char_dim = cnn["embedding"]["dim"]
    n_filters = sum(count for _, count in cnn["filters"])
    characters = _samples(model, "char_embed", (261, char_dim))
    characters[260] *= np.float32(0.25)  # padding, or it would win most maxima
    yield "char_embed", characters
    for i, (width, count) in enumerate(cnn["filters"]):
        shape = (1, width, char_dim, count)
        std = (width * char_dim) ** -0.5
        yield f"CNN/W_cnn_{i}", _samples(model, f"CNN/W_cnn_{i}", shape, std)
        yield f"CNN/b_cnn_{i}", _samples(model, f"CNN/b_cnn_{i}", (count,), 0.2, -0.8)
    for k in range(cnn["n_highway"]):
        group = f"CNN_high_{k}"
        for gate, std, mean in (("carry", 0.5, -1.0), ("transform", 0.1, 0.0)):
            weight = f"{group}/W_{gate}"
            bias = f"{group}/b_{gate}"
            yield weight, _samples(model, weight, (n_filters, n_filters), n_filters**-0.5)
            yield bias, _samples(model, bias, (n_filters,), std, mean)
    if n_filters != projection:
        weight = "CNN_proj/W_proj"
        yield weight, _samples(model, weight, (n_filters, projection), 2 / n_filters**0.5)
        yield "CNN_proj/b_proj", _samples(model, "CNN_proj/b_proj", (projection,), 0.1)


def _lstm_arrays(options: OptionsJson, model: str) -> Iterator[tuple[str, WeightArray]]:
    n_layers = options["lstm"]["n_layers"]
    projection = options["lstm"]["projection_dim"]
    cell = options["lstm"]["dim"]
    for direction in range(2):
        for layer in range(n_layers):
            group = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            gates = _samples(model, f"{group}/W_0", (2 * projection, 4 * cell), projection**-0.5)
            gates[projection:] *= np.float32(0.6)  # a recurrence that forgets its rounding errors
            yield f"{group}/W_0", gates
            yield f"{group}/B", _samples(model, f"{group}/B", (4 * cell,), 0.3)
            if cell == projection:
                continue
            matrix = _samples(model, f"{group}/W_P_0", (cell, projection), cell**-0.5)
            # Some outputs are large, as in trained models, and reach the projection clip.
            column = np.arange(projection, dtype=np.float64) / projection
            matrix *= (0.8 + 5.0 * column * column * column * column).astype("<f4")
            yield f"{group}/W_P_0", matrix


def _samples(
    model: str, name: str, shape: tuple[int, ...], std: float = 1.0, mean: float = 0.0
) -> WeightArray:
    digest = hashlib.sha256(f"{model}/{name}".encode()).digest()
    seed = np.frombuffer(digest, "<u4")
    uniform = np.random.RandomState(seed).random_sample((int(np.prod(shape)), 3))
    normal = (uniform[:, 0] + uniform[:, 1] + uniform[:, 2]) * 2.0 - 3.0
    return np.ascontiguousarray(normal.reshape(shape) * std + mean, "<f4")
