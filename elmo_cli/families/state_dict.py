"""StateDict: the tensors in a file of PyTorch, which a child process reads without running code."""

from __future__ import annotations

import math
import mmap
import os
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import Float32Array
from elmo_cli.errors import WeightFileError
from elmo_cli.isolate import run_isolated
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.regular_files import check_regular
from elmo_cli.weightfile.named_arrays import check_values
from elmo_cli.zip_files import check_zip

_ITEM_BYTES = 4  # of float32
_MAX_RATIO = 2  # of the tensors in float32 to the file: those in it may be float16
_MORE_BYTES = 1 << 16  # so that an empty file has memory too


@dataclass(frozen=True)
class _StoredTensor:
    """Where a tensor is in the memory that is shared with the child process."""

    start: int  # in values
    shape: tuple[int, ...]


class StateDict:
    """The floating-point tensors of a file that `torch.save` has written, by name, as float32.

    Attributes:
        path: the file.
        shapes: of all tensors.
    """

    def __init__(
        self, path: Path, values: Float32Array, stored: Mapping[str, _StoredTensor]
    ) -> None:
        self.path = path
        self.shapes = {name: tensor.shape for name, tensor in stored.items()}
        self._values = values
        self._stored = stored

    def read(self, name: str) -> Float32Array:
        """A tensor that exists; WeightFileError for values that no weight has."""
        tensor = self._stored[name]
        stop = tensor.start + math.prod(tensor.shape)
        array = self._values[tensor.start : stop].reshape(tensor.shape)
        check_values(array, name, str(self.path))
        return array


def read_state_dict(path: Path) -> StateDict:
    """Read the tensors of a file in a child process with limited memory and CPU time.

    The child copies them to memory that it shares with this process, where nothing is unpickled.

    Raises:
        WeightFileError: the file is missing, corrupt, or has no dictionary of tensors.
    """
    import torch  # noqa: F401 - the child has too little memory to import it

    check_regular(path, WeightFileError)
    try:
        n_bytes = os.path.getsize(path)
        # An anonymous mapping takes no memory until it is used.
        memory = mmap.mmap(-1, _MAX_RATIO * n_bytes + _MORE_BYTES)
    except (OSError, OverflowError) as error:
        problem = f"cannot be read ({getattr(error, 'strerror', None) or error})"
        raise WeightFileError(problem, "check the path and its permissions", where=path) from None
    values = np.frombuffer(memory, np.float32, len(memory) // _ITEM_BYTES)
    stored = run_isolated(partial(_copy_tensors, path, values), [path], WeightFileError)
    return StateDict(path, values, stored)


def _copy_tensors(path: Path, values: Float32Array) -> dict[str, _StoredTensor]:
    """Copy the tensors of a file, one after the other, to the beginning of `values`."""
    stored: dict[str, _StoredTensor] = {}
    start = 0
    for name, array in _arrays_of(_load(path)).items():
        stop = start + array.size
        if stop > len(values):
            raise WeightFileError("its tensors are larger than the file", CORRUPT_HINT, where=path)
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            values[start:stop] = array.reshape(-1)
        stored[name] = _StoredTensor(start, array.shape)
        start = stop
    return stored


def _load(path: Path) -> dict[Any, Any]:
    """Load the dictionary of a file; WeightFileError if there is none."""
    import torch

    try:
        if zipfile.is_zipfile(path):
            check_zip(path, methods=[zipfile.ZIP_STORED])  # torch ignores its checksums
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # torch and zipfile raise a dozen types
        problem = f"not a file of tensors that PyTorch reads ({type(error).__name__})"
        raise WeightFileError(problem, CORRUPT_HINT, where=path) from None
    if not isinstance(content, dict):
        problem = f"contains a value of type {type(content).__name__}, not tensors by name"
        raise WeightFileError(problem, CORRUPT_HINT, where=path)
    return content


def _arrays_of(content: Mapping[Any, Any]) -> dict[str, np.ndarray]:
    """The floating-point tensors by name, without copying and without any operation of torch,
    whose threads do not exist in a child process."""
    import torch

    arrays: dict[str, np.ndarray] = {}
    for name, value in content.items():
        is_tensor = isinstance(name, str) and isinstance(value, torch.Tensor)
        if not is_tensor or value.layout != torch.strided or value.device.type != "cpu":
            continue
        if value.dtype in (torch.float16, torch.float32, torch.float64):
            arrays[name] = value.detach().numpy()
    return arrays
