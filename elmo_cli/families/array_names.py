"""ArrayNames: how another program names the arrays of a biLM; and RenamedArrays, read by them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo_cli.arrays import Float32Array
    from elmo_cli.weightfile.named_arrays import NamedArrays

# The arrays of an LSTM layer as TensorFlow's cell has them, by their names in the HDF5 files.
TENSORFLOW_LSTM_ARRAYS = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
_LSTM_ARRAY = re.compile(r"RNN_(\d)/RNN/MultiRNNCell/Cell(\d+)/LSTMCell/(\w+)")


@dataclass(frozen=True, kw_only=True)
class ArrayNames:
    """The names of the arrays of a biLM, derived from those in the HDF5 files of bilm-tf.

    Attributes:
        prefix, suffix: what all names begin and end with.
        lstm: the name of an array of an LSTM layer, with {direction}, {layer} and {array}.
        lstm_arrays: what replaces {array}, by the names in the HDF5 files; others stay.
    """

    prefix: str
    lstm: str
    lstm_arrays: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""

    def stored_name(self, name: str) -> str:
        """The name of an array in the other program."""
        match = _LSTM_ARRAY.fullmatch(name)
        if match is None:
            return self.prefix + name + self.suffix
        direction, layer, array = match.groups()
        own_array = self.lstm_arrays.get(array, array)
        own_name = self.lstm.format(direction=direction, layer=layer, array=own_array)
        return self.prefix + own_name + self.suffix


class RenamedArrays:
    """Arrays of another program, as `NamedArrays`."""

    def __init__(self, arrays: NamedArrays, names: ArrayNames) -> None:
        self._arrays = arrays
        self._names = names

    @property
    def where(self) -> str:
        """The file or folder, for messages."""
        return self._arrays.where

    def stored_name(self, name: str) -> str:
        """The name of an array in its file."""
        return self._names.stored_name(name)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; None if there is none of this name."""
        return self._arrays.shape(self.stored_name(name))

    def read(self, name: str) -> Float32Array:
        """Read an array that exists; or WeightFileError."""
        return self._arrays.read(self.stored_name(name))
