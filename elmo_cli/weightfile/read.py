"""Read a biLM, its softmax layer and its warm state from HDF5, as bilm-tf and AllenNLP do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from elmo_cli.errors import WeightFileError
from elmo_cli.files import StrPath, plural
from elmo_cli.hdf5 import open_hdf5, reading
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.model.options import N_CHARACTERS, Options
from elmo_cli.regular_files import check_regular
from elmo_cli.weightfile.describe import find_dataset, read_values
from elmo_cli.weightfile.table import CHAR_EMBED, lstm_path, rows

_MISMATCH_HINT = "options, weights, softmax layer, vocabulary and state must come from one model"


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
        options = _resolve_optional_matrices(file, options)
        # Every shape is checked before the first byte of memory is taken.
        datasets = [(row, _dataset(file, row.path, row.shape)) for row in rows(options)]
        parameters: dict[str, torch.Tensor] = {}
        for row, dataset in datasets:
            for name, parameter in row.to_parameters(read_values(dataset)).items():
                parameters[name] = torch.from_numpy(np.ascontiguousarray(parameter))
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
    sizes = (("h", options.projection_dim), ("c", options.lstm_dim))
    return State(*_read_tensors(path, {name: (options.n_layers, 2, 1, n) for name, n in sizes}))


@contextmanager
def open_weights(path: StrPath) -> Iterator[h5py.File]:
    """Open a weight file for reading; WeightFileError if it is missing or not HDF5."""
    check_regular(path, WeightFileError)
    with reading(path, WeightFileError):
        file = open_hdf5(path)
    with file:
        yield file


def _read_tensors(path: StrPath, shapes: dict[str, tuple[int, ...]]) -> list[torch.Tensor]:
    with open_weights(path) as file:
        datasets = [_dataset(file, name, shape) for name, shape in shapes.items()]
        return [torch.from_numpy(read_values(dataset)) for dataset in datasets]


def _dataset(file: h5py.File, name: str, shape: tuple[int, ...]) -> h5py.Dataset:
    dataset = find_dataset(file, name)
    shapes = [shape]
    if name == CHAR_EMBED:  # 262 rows have one for "no token here" in front; nothing reads it
        shapes.append((N_CHARACTERS + 1, *shape[1:]))
    if dataset is None or dataset.shape not in shapes:
        found = "missing" if dataset is None else f"of shape {dataset.shape}"
        raise WeightFileError(
            f"{file.filename}: {name} is {found}, expected shape {shape}", _MISMATCH_HINT
        )
    return dataset


def _resolve_optional_matrices(file: h5py.File, options: Options) -> Options:
    """The options with the matrices that files may have beyond need; both must be of one model."""
    if find_dataset(file, CHAR_EMBED) is None:
        raise WeightFileError(
            f"{file.filename}: no char_embed in it, so these are not biLM weights",
            "a biLM's weights hold char_embed, CNN, CNN_proj and RNN_0, RNN_1",
        )
    # More LSTM layers than the options name are no contradiction: leaving the top layer out is a
    # published practice. Other arrays must not be left unread.
    for name, stated in (
        (f"CNN_high_{options.n_highway}/W_carry", f"n_highway {options.n_highway}"),
        (f"CNN/W_cnn_{len(options.filters)}", plural(len(options.filters), "filter")),
    ):
        if find_dataset(file, name) is not None:
            what = f"holds {name}, options.json says {stated}"
            raise WeightFileError(f"{file.filename}: {what}", _MISMATCH_HINT)
    projections = ("CNN_proj/W_proj", f"{lstm_path(0, 0)}/W_P_0")
    has_cnn, has_lstm = (find_dataset(file, name) is not None for name in projections)
    return replace(
        options,
        has_cnn_projection=has_cnn or options.n_filters != options.projection_dim,
        has_lstm_projection=has_lstm or options.lstm_dim != options.projection_dim,
    )


class _NoInitialization(TorchFunctionMode):
    """Leave parameters without values; drawing those of no memory makes torch load its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return None
        return func(*args, **(kwargs or {}))
