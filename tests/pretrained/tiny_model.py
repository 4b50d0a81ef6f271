"""A biLM of a few kilobytes, written as bilm-tf writes it, for tests that need its files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

CELL, PROJECTION, CHAR_DIM, LAYERS = 6, 4, 2, 2
FILTERS = [[1, 3], [2, 5]]
OPTIONS: dict[str, Any] = {
    "lstm": {
        "use_skip_connections": True,
        "projection_dim": PROJECTION,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": CELL,
        "n_layers": LAYERS,
    },
    "char_cnn": {
        "activation": "relu",
        "filters": FILTERS,
        "n_highway": 1,
        "embedding": {"dim": CHAR_DIM},
        "n_characters": 262,
        "max_characters_per_token": 50,
    },
}


def shapes() -> dict[str, tuple[int, ...]]:
    """The datasets of the weight file."""
    total = sum(count for _, count in FILTERS)
    found: dict[str, tuple[int, ...]] = {"char_embed": (261, CHAR_DIM)}
    for i, (width, count) in enumerate(FILTERS):
        found[f"CNN/W_cnn_{i}"] = (1, width, CHAR_DIM, count)
        found[f"CNN/b_cnn_{i}"] = (count,)
    for gate in ("carry", "transform"):
        found[f"CNN_high_0/W_{gate}"] = (total, total)
        found[f"CNN_high_0/b_{gate}"] = (total,)
    found["CNN_proj/W_proj"] = (total, PROJECTION)
    found["CNN_proj/b_proj"] = (PROJECTION,)
    for direction in range(2):
        for layer in range(LAYERS):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            found[f"{cell}/W_0"] = (2 * PROJECTION, 4 * CELL)
            found[f"{cell}/B"] = (4 * CELL,)
            found[f"{cell}/W_P_0"] = (CELL, PROJECTION)
    return found


def write_tiny_model(
    folder: Path,
    *,
    options: str = "options.json",
    weights: str = "weights.hdf5",
    seed: int = 0,
) -> Path:
    """Write the two files under the given names, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / options).write_text(json.dumps(OPTIONS), encoding="utf-8")
    numbers = np.random.default_rng(seed)
    with h5py.File(folder / weights, "w") as file:
        for name, shape in shapes().items():
            file[name] = numbers.normal(0, 0.3, shape).astype("f4")
    return folder
