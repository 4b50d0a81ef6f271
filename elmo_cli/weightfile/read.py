"""Read a biLM, its softmax layer and its warm state from HDF5, as bilm-tf and AllenNLP do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from elmo_cli.files import StrPath
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.model.options import Options
from elmo_cli.weightfile.describe import read_values
from elmo_cli.weightfile.open_weights import dataset_of_shape, find_arrays, open_weights


def read_bilm(options: str | Path | Options, weights: StrPath) -> BiLM:
    """Read a biLM from its two files.

    Args:
        options: an options.json, or its content.
        weights: an HDF5 file, float32 or float16.
    Returns:
        The biLM in float32 on the CPU, ready for inference (`eval`, no gradients).
    Raises:
        OptionsError: the options can't describe a biLM.
        WeightFileError: the weights are corrupt, foreign, have invalid values or other shapes.
    Source: bilm-tf `bilm/model.py` `_pretrained_initializer`.
    """
    if not isinstance(options, Options):
        options = Options.from_file(options)
    with open_weights(weights) as file:
        # Every shape is checked before the first byte of memory is taken.
        options, datasets = find_arrays(file, options)
        parameters: dict[str, torch.Tensor] = {}
        for row, dataset in datasets:
            arrays = row.to_parameters(read_values(dataset))
            for name, array in arrays.items():
                parameters[name] = torch.from_numpy(np.ascontiguousarray(array))
    with torch.device("meta"), _NoInitialization():
        bilm = BiLM(options)
    bilm.load_state_dict(parameters, assign=True)
    return bilm.eval().requires_grad_(False)


def read_softmax(path: StrPath, *, n_types: int, projection: int) -> NextTokenSoftmax:
    """Read softmax/W (type, projection) and softmax/b (type,) from a file of their own or a biLM's.

    Raises:
        WeightFileError: corrupt, without a softmax layer, or of another size.
    """
    shapes = {"softmax/W": (n_types, projection), "softmax/b": (n_types,)}
    weight, bias = _read_tensors(path, shapes)
    with torch.device("meta"), _NoInitialization():
        softmax = NextTokenSoftmax(n_types, projection)
    softmax.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return softmax


def read_state(path: StrPath, options: Options) -> State:
    """Read a warm state of one row: h (layer, direction, 1, projection), c (…, cell), float32.

    Raises:
        WeightFileError: corrupt, or of another model's sizes.
    """
    h_shape = (options.n_layers, 2, 1, options.projection_dim)
    c_shape = (options.n_layers, 2, 1, options.lstm_dim)
    h, c = _read_tensors(path, {"h": h_shape, "c": c_shape})
    return State(h, c)


def _read_tensors(path: StrPath, shapes: dict[str, tuple[int, ...]]) -> list[torch.Tensor]:
    """Read arrays, given the shape of each by its name."""
    with open_weights(path) as file:
        datasets = [dataset_of_shape(file, name, shape) for name, shape in shapes.items()]
        return [torch.from_numpy(read_values(dataset)) for dataset in datasets]


class _NoInitialization(TorchFunctionMode):
    """Leave parameters without values; drawing those of no memory makes torch load its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return None
        return func(*args, **(kwargs or {}))
