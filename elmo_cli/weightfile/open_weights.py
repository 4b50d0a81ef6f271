"""Open weight files, and their arrays, checked against options.json without importing torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

import h5py

from elmo_cli.errors import WeightFileError
from elmo_cli.files import StrPath
from elmo_cli.hdf5 import dataset_names, max_content, open_dataset, open_hdf5, reading
from elmo_cli.isolate import run_isolated
from elmo_cli.messages import CORRUPT_HINT, format_bytes, plural
from elmo_cli.model.options import N_CHARACTERS, Options
from elmo_cli.regular_files import check_regular
from elmo_cli.weightfile.describe import find_dataset
from elmo_cli.weightfile.table import CHAR_EMBED, WeightRow, lstm_path, rows

_MISMATCH_HINT = "options, weights, softmax layer, vocabulary and state must come from one model"


def check_readable(paths: Sequence[StrPath | None]) -> None:
    """Open and decompress all data sets of weight files in a child process.

    Errors of single data sets, and of files that are not HDF5, are left to their readers.

    Args:
        paths: None for a file that a model lacks.
    Raises:
        WeightFileError: HDF5 crashes on a file or exceeds a limit, the groups of the file cannot
            be listed, or its arrays together are larger than a file of its size can hold.
    """
    for path in paths:
        if path is not None:
            run_isolated(partial(_decompress_all, path), [path], WeightFileError)


def _decompress_all(path: StrPath) -> None:
    with suppress(OSError), open_hdf5(path) as file, reading(path, WeightFileError):
        n_bytes = 0
        for name in dataset_names(file):
            dataset = None
            with suppress(Exception):  # the reader of the data set reports it
                dataset = open_dataset(file, name)
            if dataset is None:
                continue
            # An array may be within the limit of one, and each of a thousand compressed to nothing.
            n_bytes += dataset.nbytes
            if n_bytes > max_content(file):
                problem = f"its arrays have over {format_bytes(n_bytes)}, more than it can hold"
                raise WeightFileError(problem, CORRUPT_HINT, where=path)
            with suppress(Exception):
                if dataset.chunks:
                    for chunk in dataset.iter_chunks():
                        dataset[chunk]


@contextmanager
def open_weights(path: StrPath) -> Iterator[h5py.File]:
    """Open a weight file for reading; WeightFileError if it is missing or not HDF5."""
    check_regular(path, WeightFileError)
    with reading(path, WeightFileError):
        file = open_hdf5(path)
    with file:
        yield file


def find_arrays(
    file: h5py.File, options: Options
) -> tuple[Options, list[tuple[WeightRow, h5py.Dataset]]]:
    """Find all arrays of a biLM, without reading their values.

    Returns:
        The options, which state the optional matrices in the file; each row with its array.
    Raises:
        WeightFileError: the file does not fit the options.
    """
    resolved = _resolve_optional_matrices(file, options)
    datasets = [(row, dataset_of_shape(file, row.path, row.shape)) for row in rows(resolved)]
    return resolved, datasets


def dataset_of_shape(file: h5py.File, name: str, shape: tuple[int, ...]) -> h5py.Dataset:
    """Return an array of a weight file; WeightFileError if it is missing or has another shape."""
    dataset = find_dataset(file, name)
    if dataset is None:
        problem = f"{name} is missing, expected shape {shape}"
        raise WeightFileError(problem, _MISMATCH_HINT, where=file.filename)
    shapes = [shape]
    if name == CHAR_EMBED:  # of 262 rows, the first means "no token here" and is not used
        shapes.append((N_CHARACTERS + 1, *shape[1:]))
    if dataset.shape not in shapes:
        problem = f"{name} is of shape {dataset.shape}, expected shape {shape}"
        raise WeightFileError(problem, _MISMATCH_HINT, where=file.filename)
    return dataset


def _resolve_optional_matrices(file: h5py.File, options: Options) -> Options:
    """Return the options with the optional matrices of the file; both must be of one model."""
    if find_dataset(file, CHAR_EMBED) is None:
        problem = "no char_embed in it, so these are not biLM weights"
        hint = "a biLM's weights hold char_embed, CNN, CNN_proj and RNN_0, RNN_1"
        raise WeightFileError(problem, hint, where=file.filename)
    # More LSTM layers than the options name are no contradiction: leaving the top layer out is a
    # published practice. Other arrays must not be left unread.
    n_filters = len(options.filters)
    _refuse_array(file, f"CNN_high_{options.n_highway}/W_carry", f"n_highway {options.n_highway}")
    _refuse_array(file, f"CNN/W_cnn_{n_filters}", plural(n_filters, "filter"))
    has_cnn = find_dataset(file, "CNN_proj/W_proj") is not None
    has_lstm = find_dataset(file, f"{lstm_path(0, 0)}/W_P_0") is not None
    return replace(
        options,
        has_cnn_projection=has_cnn or options.n_filters != options.projection_dim,
        has_lstm_projection=has_lstm or options.lstm_dim != options.projection_dim,
    )


def _refuse_array(file: h5py.File, name: str, stated: str) -> None:
    """Raise a WeightFileError if the file has an array that the options leave out."""
    if find_dataset(file, name) is not None:
        problem = f"holds {name}, options.json says {stated}"
        raise WeightFileError(problem, _MISMATCH_HINT, where=file.filename)
