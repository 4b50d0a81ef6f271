"""Write a biLM, its softmax layer and its warm state to HDF5, as bilm-tf and AllenNLP load them.

The accumulators of Adagrad are written to a file that only elmo reads.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from pathlib import Path

import h5py
import numpy as np
import torch

from elmo_cli.arrays import Float32Array, FloatArray
from elmo_cli.errors import OutputError
from elmo_cli.files import new_file
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax, State
from elmo_cli.model.options import Options
from elmo_cli.weightfile.named_arrays import SOFTMAX_BIAS, SOFTMAX_WEIGHT
from elmo_cli.weightfile.table import ADAGRAD_GROUP, LOSS_TOKENS, rows


def write_bilm(bilm: BiLM, path: str | Path, *, dtype: str = "float32") -> None:
    """Write the weights of a biLM to an HDF5 file, which is replaced when it is complete.

    Args:
        dtype: "float32", or "float16" for half the bytes (AllenNLP loads both).
    Raises:
        OutputError: the file can't be written, or `dtype` can't hold a value.
    """
    parameters = {name: _array(tensor) for name, tensor in bilm.state_dict().items()}
    arrays = ((row.path, row.to_array(parameters)) for row in rows(bilm.options))
    _write(path, arrays, dtype)


def write_softmax(softmax: NextTokenSoftmax, path: str | Path, *, dtype: str = "float32") -> None:
    """Write softmax/W (type, projection) and softmax/b (type,) as `write_bilm` does."""
    weight = _array(softmax.weight)
    bias = _array(softmax.bias)
    _write(path, [(SOFTMAX_WEIGHT, weight), (SOFTMAX_BIAS, bias)], dtype)


def write_state(state: State, path: str | Path) -> None:
    """Write a state of one row as `write_bilm` does."""
    _write(path, [("h", _array(state.h)), ("c", _array(state.c))], "float32")


def write_accumulators(
    accumulators: Mapping[str, Float32Array],
    options: Options,
    path: str | Path,
    *,
    loss_tokens: int,
) -> None:
    """Write the accumulators of Adagrad as `write_bilm` does.

    They have the names of the weights, in a group that keeps them from being read as weights. They
    are scaled to a loss that is summed over `LOSS_TOKENS`.

    Args:
        accumulators: by the names of `families.OpenModel.accumulators`.
        loss_tokens: the number of tokens over which the training summed the loss.
    """
    of_bilm = {name.removeprefix("bilm."): array for name, array in accumulators.items()}
    arrays = [(row.path, row.to_array(of_bilm)) for row in rows(options)]
    arrays.append((SOFTMAX_WEIGHT, accumulators["softmax.weight"]))
    arrays.append((SOFTMAX_BIAS, accumulators["softmax.bias"]))
    factor = (LOSS_TOKENS / loss_tokens) ** 2
    scaled = ((f"{ADAGRAD_GROUP}/{name}", array * factor) for name, array in arrays)
    _write(path, scaled, "float32")


def _array(tensor: torch.Tensor) -> Float32Array:
    array: Float32Array = tensor.detach().cpu().float().numpy()
    return array


def _write(path: str | Path, arrays: Iterable[tuple[str, Float32Array]], dtype: str) -> None:
    # In memory, because HDF5 crashes the process where a disk is full while it closes a file.
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        for name, array in arrays:
            file.create_dataset(name, data=_cast(array, dtype, path, name))
    with new_file(path, durable=True) as whole:
        whole.write(content.getbuffer())


def _cast(array: Float32Array, dtype: str, path: str | Path, name: str) -> FloatArray:
    try:
        with np.errstate(over="raise"):
            return array.astype(dtype)
    except FloatingPointError:
        largest = np.abs(array).max()
        problem = f"{name} has a value beyond {dtype}, the greatest is {largest:g}"
        raise OutputError(problem, '`dtype="float32"` holds it', where=path) from None
