"""Read biLM weights from HDF5, in the form of bilm-tf and AllenNLP."""

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
from elmo_cli.hdf5 import max_plausible_bytes, open_hdf5, read_dataset, reading, reason_of
from elmo_cli.model.bilm import BiLM
from elmo_cli.model.options import N_CHARACTERS, Options
from elmo_cli.weightfile.table import Row, lstm_path, rows
from elmo_cli.weightfile.transforms import Array

_PAIR = "the options and the weights must come from one model"
_CUT_OFF = "the file may be cut off; fetch it again and compare its size or sha256"


def read_bilm(options: str | Path | Options, weights: str | Path) -> BiLM:
    """A biLM from its two files.

    Args:
        options: an options.json, or what it says.
        weights: an HDF5 file, float32 or float16.
    Returns:
        The biLM in float32 on the CPU, ready for inference (`eval`, no gradients).
    Raises:
        OptionsError: the options can't describe a biLM.
        WeightFileError: the weights are damaged, foreign, hold NaN, or have other shapes.
    Source: bilm-tf `bilm/model.py` `_pretrained_initializer`.
    """
    if not isinstance(options, Options):
        options = Options.from_file(options)
    with open_weights(weights) as file:
        options = _settled(options, file, str(weights))
        table = rows(options)
        for row in table:  # every shape before the first byte of memory is taken
            _check(file, row, str(weights))
        parameters: dict[str, torch.Tensor] = {}
        for row in table:
            parameters.update(_parameters(file, row, str(weights)))
    with torch.device("meta"), _NoFirstValues():
        bilm = BiLM(options)
    bilm.load_state_dict(parameters, assign=True)
    return bilm.eval().requires_grad_(False)


class _NoFirstValues(TorchFunctionMode):
    """Modules leave their parameters without values, since all are taken over from a file.

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


@contextmanager
def open_weights(path: str | Path) -> Iterator[h5py.File]:
    """Open a weight file for reading.

    Raises:
        WeightFileError: not there, not HDF5, or damaged, also where reading shows it only later.
    """
    if Path(path).is_dir():
        raise WeightFileError(
            f"{path}: a folder, not a weight file", "give the weights.hdf5 in it, or a whole model"
        )
    try:
        file = open_hdf5(path)
    except OSError as error:
        raise _not_readable(path, error) from None
    with file, reading(path, WeightFileError, _CUT_OFF):
        yield file


def _not_readable(path: str | Path, error: Exception) -> WeightFileError:
    if isinstance(error, FileNotFoundError):
        return WeightFileError(
            f"{path}: no such weight file", "a model is an options.json and a weights.hdf5"
        )
    return WeightFileError(f"{path}: not a readable HDF5 file ({reason_of(error, path)})", _CUT_OFF)


def read_array(item: h5py.Dataset, where: str) -> Array:
    """All numbers of an array, in float32.

    Args:
        item: of an open weight file; its shape has been checked.
        where: name of the file for messages.
    Raises:
        WeightFileError: other numbers than floats, NaN or infinite ones, or damaged.
    """
    name = str(item.name).lstrip("/")
    if item.dtype.kind != "f":
        raise WeightFileError(
            f"{where}: {name} holds {item.dtype}, not float32 or float16",
            "write the weights again as float32",
        )
    if item.nbytes > max_plausible_bytes(item.file):
        there = item.file.id.get_filesize()
        raise WeightFileError(
            f"{where}: {name} would have {item.nbytes} bytes, the file has {there}",
            "the file is damaged, or made to do harm: get it anew from its source",
        )
    with reading(where, WeightFileError, _CUT_OFF):
        values = read_dataset(item)
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
        array: Array = values.astype(np.float32)
    if not np.isfinite(array).all():
        raise WeightFileError(
            f"{where}: {name} holds NaN or infinite numbers",
            "training may have diverged; take an earlier checkpoint of this model",
        )
    return array


def _settled(options: Options, file: h5py.File, where: str) -> Options:
    """The options with what only the file can tell: which optional matrices there are."""
    if "char_embed" not in file:
        raise WeightFileError(
            f"{where}: no char_embed in it, so these are not biLM weights (found {_names(file)})",
            "a biLM's weights hold char_embed, CNN, CNN_proj and RNN_0, RNN_1",
        )
    has_cnn = "CNN_proj" in file
    has_lstm = f"{lstm_path(0, 0)}/W_P_0" in file
    if not has_cnn and options.n_filters != options.projection:
        raise WeightFileError(
            f"{where}: CNN_proj is missing, and {options.n_filters} filters are not "
            f"projection_dim {options.projection}",
            _PAIR,
        )
    if not has_lstm and options.cell != options.projection and lstm_path(0, 0) in file:
        raise WeightFileError(
            f"{where}: {lstm_path(0, 0)}/W_P_0 is missing, and dim {options.cell} is not "
            f"projection_dim {options.projection}",
            _PAIR,
        )
    _refuse_more(file, options, where)
    return replace(options, cnn_projection=has_cnn, lstm_projection=has_lstm)


def _refuse_more(file: h5py.File, options: Options, where: str) -> None:
    """Weights that the options would leave unread mean that the two are not of one model."""
    # More LSTM layers than the options name are no contradiction: leaving the top layer out is
    # a published practice.
    more = {
        f"CNN_high_{options.n_highway}": f"n_highway {options.n_highway}",
        f"CNN/W_cnn_{len(options.filters)}": f"{len(options.filters)} filters",
    }
    for name, said in more.items():
        if name in file:
            raise WeightFileError(f"{where}: holds {name}, options.json says {said}", _PAIR)


def _check(file: h5py.File, row: Row, where: str) -> None:
    item = file.get(row.path)
    if not isinstance(item, h5py.Dataset):
        what = "missing" if item is None else "a group, not an array"
        raise WeightFileError(f"{where}: {row.path} is {what}", _PAIR)
    shape = row.shape
    more = (N_CHARACTERS + 1, *shape[1:])
    if row.path == "char_embed" and item.shape == more:
        shape = more
    if item.shape != shape:
        raise WeightFileError(
            f"{where}: {row.path} has shape {item.shape}, options.json asks for {shape}", _PAIR
        )


def _parameters(file: h5py.File, row: Row, where: str) -> dict[str, torch.Tensor]:
    array = read_array(file[row.path], where)
    if row.path == "char_embed":
        # A file of 262 rows has the one for "no token here" in front; nothing reads it.
        array = array[-N_CHARACTERS:]
    parts = np.split(array, len(row.parameters))
    return {
        name: torch.from_numpy(np.ascontiguousarray(row.transform.to_parameter(part)))
        for name, part in zip(row.parameters, parts, strict=True)
    }


def _names(file: h5py.File) -> str:
    names = list(file)[:4]
    return ", ".join(names) + (", …" if len(file) > 4 else "") if names else "nothing"
