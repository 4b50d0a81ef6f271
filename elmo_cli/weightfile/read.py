"""Read a biLM, its softmax layer and its warm state from HDF5, as bilm-tf and AllenNLP do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from elmo_cli.errors import WeightFileError
from elmo_cli.hdf5 import NoSuchNameError, open_dataset, open_group, open_hdf5, reading, reason_of
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import N_CHARACTERS, Options
from elmo_cli.model.softmax import NextToken
from elmo_cli.model.state import State
from elmo_cli.regular_files import check_regular
from elmo_cli.weightfile.describe import read_values
from elmo_cli.weightfile.table import Row, lstm_path, rows

StrPath = str | Path

_TRUNCATED_HINT = "the file may be truncated: get it again and compare its size or sha256"
_MISMATCH_HINT = "the options and the weights must come from one model"


def read_bilm(options: StrPath | Options, weights: StrPath) -> BiLM:
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
        options = file.resolve_optional_matrices(options)
        # Every shape is checked before the first byte of memory is taken.
        datasets = [(row, file.row(row)) for row in rows(options)]
        parameters: dict[str, torch.Tensor] = {}
        for row, dataset in datasets:
            parameters.update(_parameters(row, read_values(dataset, weights)))
    with torch.device("meta"), _NoInitialization():
        bilm = BiLM(options)
    bilm.load_state_dict(parameters, assign=True)
    return bilm.eval().requires_grad_(False)


def read_softmax(path: StrPath, *, n_types: int, projection: int) -> NextToken:
    """Read the softmax layer from a file with softmax/W and softmax/b.

    Args:
        path: the softmax file, or a weight file that has the group `softmax`.
        n_types: types of its vocabulary.
        projection: output size of the biLM's LSTM layers.
    Raises:
        WeightFileError: corrupt, without a softmax layer, or of another size.
    """
    with open_weights(path) as file:
        weight, bias = file.get("softmax/W"), file.get("softmax/b")
        if weight is None or bias is None:
            raise WeightFileError(
                f"{path}: no softmax/W and softmax/b in it", "give the file of softmax weights"
            )
        if weight.shape != (n_types, projection) or bias.shape != (n_types,):
            raise WeightFileError(
                f"{path}: softmax/W has shape {weight.shape} and softmax/b {bias.shape}, "
                f"vocabulary and options ask for {(n_types, projection)} and {(n_types,)}",
                "softmax, vocabulary and biLM must come from one model",
            )
        arrays = [torch.from_numpy(read_values(item, path)) for item in (weight, bias)]
    softmax = NextToken(n_types, projection)
    with torch.no_grad():
        softmax.weight.copy_(arrays[0])
        softmax.bias.copy_(arrays[1])
    return softmax


def read_state(path: StrPath, options: Options) -> State:
    """Read a warm state of one row: h (layer, direction, 1, projection), c (…, cell), float32.

    Raises:
        WeightFileError: corrupt, or of another model's sizes.
    """
    with open_weights(path) as file:
        arrays = []
        for name, size in (("h", options.projection), ("c", options.cell)):
            dataset, shape = file.get(name), (options.n_layers, 2, 1, size)
            if dataset is None or dataset.shape != shape:
                raise WeightFileError(
                    f"{path}: {name} is {dataset.shape if dataset is not None else 'missing'}, "
                    f"options.json asks for {shape}",
                    "the state must be the one stored with this model",
                )
            arrays.append(read_values(dataset, path))
    return State(*(torch.from_numpy(array) for array in arrays))


@contextmanager
def open_weights(path: StrPath) -> Iterator[WeightFile]:
    """Open a weight file for reading.

    Raises:
        WeightFileError: missing, a folder, or not HDF5.
    """
    check_regular(path, WeightFileError)
    try:
        file = open_hdf5(path)
    except FileNotFoundError:
        raise WeightFileError(
            f"{path}: no such weight file", "a model is an options.json and a weights.hdf5"
        ) from None
    except IsADirectoryError:
        raise WeightFileError(
            f"{path}: a folder, not a weight file", "give the weights.hdf5 in it, or a whole model"
        ) from None
    except Exception as error:
        what = f"not a readable HDF5 file ({reason_of(error, path)})"
        raise WeightFileError(f"{path}: {what}", _TRUNCATED_HINT) from None
    with file:
        yield WeightFile(file, path)


class WeightFile:
    """An open weight file, whose errors are WeightFileErrors.

    Args:
        file: open for reading.
        path: its name for messages.
    """

    def __init__(self, file: h5py.File, path: StrPath) -> None:
        self._file, self._path = file, path

    def get(self, name: str) -> h5py.Dataset | None:
        """Open a data set; None where there is none."""
        with reading(self._path, WeightFileError):
            try:
                return open_dataset(self._file, name)
            except NoSuchNameError:
                return None

    def has(self, name: str) -> bool:
        """Whether there is a data set or a group of this name."""
        with reading(self._path, WeightFileError):
            try:
                open_group(self._file, name)
            except NoSuchNameError:
                return self.get(name) is not None
            return True

    def row(self, row: Row) -> h5py.Dataset:
        """Open the array of a row, whose shape has to be that of the options."""
        dataset, shape = self.get(row.path), row.shape
        if dataset is None:
            what = "a group, not an array" if self.has(row.path) else "missing"
            raise WeightFileError(f"{self._path}: {row.path} is {what}", _MISMATCH_HINT)
        one_more = (N_CHARACTERS + 1, *shape[1:])
        if dataset.shape != shape and (row.path != "char_embed" or dataset.shape != one_more):
            raise WeightFileError(
                f"{self._path}: {row.path} has shape {dataset.shape}, "
                f"options.json asks for {shape}",
                _MISMATCH_HINT,
            )
        return dataset

    def resolve_optional_matrices(self, options: Options) -> Options:
        """The options with what only the file decides: which optional matrices exist."""
        if not self.has("char_embed"):
            raise WeightFileError(
                f"{self._path}: no char_embed in it, so these are not biLM weights "
                f"(found {self._names()})",
                "a biLM's weights hold char_embed, CNN, CNN_proj and RNN_0, RNN_1",
            )
        first = lstm_path(0, 0)
        has_cnn, has_lstm = self.has("CNN_proj"), self.has(f"{first}/W_P_0")
        missing = ""
        if not has_cnn and options.n_filters != options.projection:
            missing = f"CNN_proj is missing, and {options.n_filters} filters are"
        elif not has_lstm and options.cell != options.projection and self.has(first):
            missing = f"{first}/W_P_0 is missing, and dim {options.cell} is"
        if missing:
            raise WeightFileError(
                f"{self._path}: {missing} not projection_dim {options.projection}", _MISMATCH_HINT
            )
        self._reject_unread_arrays(options)
        return replace(options, cnn_projection=has_cnn, lstm_projection=has_lstm)

    def _reject_unread_arrays(self, options: Options) -> None:
        """Refuse arrays that the options would leave unread: the two are not of one model."""
        # More LSTM layers than the options name are no contradiction: leaving the top layer out is
        # a published practice.
        unread = {
            f"CNN_high_{options.n_highway}": f"n_highway {options.n_highway}",
            f"CNN/W_cnn_{len(options.filters)}": f"{len(options.filters)} filters",
        }
        for name, stated in unread.items():
            if self.has(name):
                raise WeightFileError(
                    f"{self._path}: holds {name}, options.json says {stated}", _MISMATCH_HINT
                )

    def _names(self) -> str:
        with reading(self._path, WeightFileError):
            names = [str(name) for name in self._file]
        return ", ".join(names[:4] + ["…"] * (len(names) > 4)) or "nothing"


class _NoInitialization(TorchFunctionMode):
    """Modules leave their parameters without values, since all are taken from a file.

    Drawing them costs seconds even for parameters without memory: for those torch loads its
    compiler.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if getattr(func, "__module__", None) == "torch.nn.init":
            return args[0] if args else (kwargs or {})["tensor"]
        return func(*args, **(kwargs or {}))


def _parameters(row: Row, array: np.ndarray[Any, Any]) -> dict[str, torch.Tensor]:
    if row.path == "char_embed":
        # A file of 262 rows has the one for "no token here" in front; nothing reads it.
        array = array[-N_CHARACTERS:]
    parts = np.split(array, len(row.parameters))
    return {
        name: torch.from_numpy(np.ascontiguousarray(row.transform.to_parameter(part)))
        for name, part in zip(row.parameters, parts, strict=True)
    }
