"""Read a biLM, its softmax layer and its warm state from HDF5, as bilm-tf and AllenNLP do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from elmo_cli.arrays import Float32Array
from elmo_cli.files import StrPath
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.model.options import Options
from elmo_cli.text.characters import TokenIds
from elmo_cli.weightfile.named_arrays import (
    SOFTMAX_BIAS,
    SOFTMAX_WEIGHT,
    NamedArrays,
    check_shape,
    read_parameters,
    resolve_options,
)
from elmo_cli.weightfile.open_weights import open_weights


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
    with open_weights(weights) as arrays:
        # Every shape is checked before the first byte of memory is taken.
        resolved = resolve_options(arrays, options)
        return make_bilm(resolved, read_parameters(arrays, resolved))


def make_bilm(
    options: Options,
    parameters: Iterable[tuple[str, Float32Array]],
    token_ids: TokenIds | None = None,
) -> BiLM:
    """Make a biLM, ready for inference, of parameters by their names in `BiLM.state_dict`.

    The tensors share the memory of the arrays, which must be contiguous and writable.

    Args:
        token_ids: None for bytes.
    """
    tensors = {name: torch.from_numpy(array) for name, array in parameters}
    with torch.device("meta"), _NoInitialization():
        bilm = BiLM(options, token_ids)
    bilm.load_state_dict(tensors, assign=True)
    return bilm.eval().requires_grad_(False)


def read_softmax(path: StrPath, *, n_types: int, projection: int) -> NextTokenSoftmax:
    """Read softmax/W (type, projection) and softmax/b (type,) from a file of their own or a biLM's.

    Raises:
        WeightFileError: corrupt, without a softmax layer, or of another size.
    """
    with open_weights(path) as arrays:
        return softmax_of_arrays(arrays, n_types=n_types, projection=projection)


def softmax_of_arrays(arrays: NamedArrays, *, n_types: int, projection: int) -> NextTokenSoftmax:
    """Read the softmax layer that is among the arrays; errors as of `read_softmax`."""
    shapes = {SOFTMAX_WEIGHT: (n_types, projection), SOFTMAX_BIAS: (n_types,)}
    weight, bias = _read_tensors(arrays, shapes)
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
    with open_weights(path) as arrays:
        h, c = _read_tensors(arrays, {"h": h_shape, "c": c_shape})
    return State(h, c)


def _read_tensors(arrays: NamedArrays, shapes: Mapping[str, tuple[int, ...]]) -> list[torch.Tensor]:
    """Read arrays, given the shape of each by its name."""
    for name, shape in shapes.items():
        check_shape(arrays, name, shape)
    return [torch.from_numpy(arrays.read(name)) for name in shapes]


class _NoInitialization(TorchFunctionMode):
    """Leave parameters without values; drawing those of no memory makes torch load its compiler."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return None
        return func(*args, **(kwargs or {}))
