"""NamedArrays: the arrays of a biLM by their paths in a weight file, wherever they are stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from elmo_cli.arrays import Float32Array
from elmo_cli.errors import WeightFileError
from elmo_cli.messages import plural
from elmo_cli.model.options import N_CHARACTERS, Options
from elmo_cli.weightfile.table import CHAR_EMBED, WORD_EMBED, WeightRow, lstm_path, rows

SOFTMAX_WEIGHT = "softmax/W"  # (type, projection)
SOFTMAX_BIAS = "softmax/b"  # (type,)
# Trained weights are far below; what is far above overflows in the first layer.
LARGEST_WEIGHT = 1e6
LARGEST_SUM = float(np.finfo(np.float32).max)  # of squared gradients: any finite value
_MISMATCH_HINT = "options, weights, softmax layer, vocabulary and state must come from one model"


class NamedArrays(Protocol):
    """Arrays in an open file or folder, named as in the HDF5 files of bilm-tf."""

    @property
    def where(self) -> str:
        """The file or folder, for messages."""

    def stored_name(self, name: str) -> str:
        """The name of an array in its file, for messages."""

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array, without reading it; None if there is no array of this name."""

    def read(self, name: str) -> Float32Array:
        """Read an array as `check_values` accepts it; or WeightFileError."""


def check_values(
    array: Float32Array, name: str, where: str, *, largest: float = LARGEST_WEIGHT
) -> None:
    """Raise a WeightFileError for values that are NaN, infinite or absurdly large."""
    found = np.abs(array).max(initial=0)
    if not found <= largest:  # nor is NaN
        problem = f"{name} has a value of {found:.3g}; weights must be below {largest:g}"
        hint = "it is corrupt or its training has diverged: get it again"
        raise WeightFileError(problem, hint, where=where)


def check_shape(arrays: NamedArrays, name: str, shape: tuple[int, ...]) -> None:
    """Raise a WeightFileError if an array is missing or has another shape."""
    found = arrays.shape(name)
    if found is None:
        problem = f"{arrays.stored_name(name)} is missing, expected shape {shape}"
        raise WeightFileError(problem, _MISMATCH_HINT, where=arrays.where)
    shapes = [shape]
    if name == CHAR_EMBED:  # of 262 rows, the first means "no token here" and is not used
        shapes.append((N_CHARACTERS + 1, *shape[1:]))
    if found not in shapes:
        problem = f"{arrays.stored_name(name)} is of shape {found}, expected shape {shape}"
        raise WeightFileError(problem, _MISMATCH_HINT, where=arrays.where)


def resolve_options(arrays: NamedArrays, options: Options) -> Options:
    """Check the shapes of all arrays of a biLM, without reading their values.

    Returns:
        The options, which state the optional matrices that exist.
    Raises:
        WeightFileError: the arrays do not fit the options.
    """
    resolved = _resolve_optional_matrices(arrays, options)
    for row in rows(resolved):
        check_shape(arrays, row.path, row.shape)
    return resolved


def read_parameters(arrays: NamedArrays, options: Options) -> Iterator[tuple[str, Float32Array]]:
    """Yield the parameters of a biLM by their names in `BiLM.state_dict`.

    Args:
        options: as `resolve_options` returns them.
    """
    for row in rows(options):
        for name, parameter in row.to_parameters(arrays.read(row.path)).items():
            yield name, np.ascontiguousarray(parameter)


def digest_arrays(arrays: NamedArrays, options: Options) -> str:
    """The SHA-256 of all arrays that a biLM uses: of the name, the shape and the bytes of each.

    It does not depend on the format of the file, nor on arrays that are not used.

    Args:
        options: as `resolve_options` returns them.
    """
    digest = hashlib.sha256()
    for row in rows(options):
        array = _used_rows(row, arrays.read(row.path))
        digest.update(f"{row.path} {row.shape}\n".encode())
        digest.update(np.ascontiguousarray(array, "<f4").data)
    return digest.hexdigest()


def _used_rows(row: WeightRow, array: Float32Array) -> Float32Array:
    """The array without the first row of a `char_embed` of 262, which no character uses."""
    return array[-row.shape[0] :] if row.path == CHAR_EMBED else array


def _resolve_optional_matrices(arrays: NamedArrays, options: Options) -> Options:
    """Return the options with the optional matrices that exist; both must be of one model."""
    if arrays.shape(CHAR_EMBED) is None:
        problem = "no char_embed in it, so these are not biLM weights"
        hint = "a biLM's weights hold char_embed, CNN, CNN_proj and RNN_0, RNN_1"
        raise WeightFileError(problem, hint, where=arrays.where)
    # More LSTM layers than the options name are no contradiction: leaving the top layer out is a
    # published practice. Other arrays must not be left unread.
    n_filters = len(options.filters)
    _refuse_array(arrays, f"CNN_high_{options.n_highway}/W_carry", f"n_highway {options.n_highway}")
    _refuse_array(arrays, f"CNN/W_cnn_{n_filters}", plural(n_filters, "filter"))
    has_cnn = arrays.shape("CNN_proj/W_proj") is not None or options.is_unicode
    has_lstm = arrays.shape(f"{lstm_path(0, 0)}/W_P_0") is not None
    n_characters = N_CHARACTERS
    n_words = 0
    if options.is_unicode:  # only the weights state the sizes of its dictionaries
        n_characters = n_rows(arrays.shape(CHAR_EMBED))
        n_words = n_rows(arrays.shape(WORD_EMBED))
    return replace(
        options,
        n_characters=n_characters,
        n_words=n_words,
        has_cnn_projection=has_cnn or options.n_filters != options.projection_dim,
        has_lstm_projection=has_lstm or options.lstm_dim != options.projection_dim,
    )


def n_rows(shape: tuple[int, ...] | None) -> int:
    """The number of rows of a matrix; 0 if its shape is None, so that there is no such matrix."""
    return shape[0] if shape else 0


def _refuse_array(arrays: NamedArrays, name: str, stated: str) -> None:
    """Raise a WeightFileError if there is an array that the options leave out."""
    if arrays.shape(name) is not None:
        problem = f"holds {arrays.stored_name(name)}, options.json says {stated}"
        raise WeightFileError(problem, _MISMATCH_HINT, where=arrays.where)
