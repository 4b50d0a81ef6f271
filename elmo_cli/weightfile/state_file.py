"""The warm state of a model: the one state that sentences may start from, in a file beside it."""

from __future__ import annotations

from pathlib import Path

import h5py
import torch

from elmo_cli.errors import WeightFileError
from elmo_cli.model.options import Options
from elmo_cli.model.state import State
from elmo_cli.weightfile.new_file import new_hdf5
from elmo_cli.weightfile.read import open_weights, read_array


def read_state(path: str | Path, options: Options) -> State:
    """A stored state of one row: h (layer, direction, 1, projection), c (…, cell), float32.

    Raises:
        WeightFileError: damaged, or of another model's sizes.
    """
    with open_weights(path) as file:
        arrays = []
        for name, size in (("h", options.projection), ("c", options.cell)):
            item, shape = file.get(name), (options.n_layers, 2, 1, size)
            if not isinstance(item, h5py.Dataset) or item.shape != shape:
                found = item.shape if isinstance(item, h5py.Dataset) else "missing"
                raise WeightFileError(
                    f"{path}: {name} is {found}, options.json asks for {shape}",
                    "the state must be the one stored with this model",
                )
            arrays.append(read_array(item, str(path)))
    return State(*(torch.from_numpy(array) for array in arrays))


def write_state(state: State, path: str | Path) -> None:
    """Write a state of one row.

    Raises:
        OutputError: the file can't be written.
    """
    with new_hdf5(path) as file:
        file.create_dataset("h", data=state.h.cpu().float().numpy())
        file.create_dataset("c", data=state.c.cpu().float().numpy())
