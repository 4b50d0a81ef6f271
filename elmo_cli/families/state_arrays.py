"""StateArrays: the tensors of AllenNLP's `Elmo` as the arrays of bilm-tf."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import Float32Array
from elmo_cli.errors import WeightFileError
from elmo_cli.families.layer_mix import layer_mix
from elmo_cli.families.state_dict import StateDict

_FORGET_BIAS = 1.0  # AllenNLP adds it when it reads the weights; bilm-tf when the LSTM runs
_N_GATES = 4


@dataclass(frozen=True)
class _Conversion:
    """How an array is derived from tensors.

    Attributes:
        array: a pattern for its name in bilm-tf.
        tensors: their names after the prefix, with the groups of the pattern.
        convert: from the tensors to the array.
    """

    array: str
    tensors: tuple[str, ...]
    convert: Callable[..., Float32Array]


@dataclass(frozen=True)
class _DerivedArray:
    """The full names of the tensors that an array is derived from, and how."""

    tensors: list[str]
    convert: Callable[..., Float32Array]


class StateArrays:
    """The arrays of a biLM in a state dictionary, as `NamedArrays`.

    Args:
        prefix: of the names of all tensors of the biLM.
    """

    def __init__(self, state: StateDict, prefix: str) -> None:
        self.where = str(state.path)
        self._state = state
        self._prefix = prefix

    def stored_name(self, name: str) -> str:
        """The name of the first tensor that an array is derived from."""
        derived = self._find(name)
        return name if derived is None else derived.tensors[0]

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; None if one of its tensors is missing or has other axes."""
        derived = self._find(name)
        if derived is None or any(tensor not in self._state.shapes for tensor in derived.tensors):
            return None
        try:
            return self._compute(derived).shape
        except WeightFileError:
            raise  # it is a ValueError, too
        except (ValueError, IndexError):  # of a tensor with other axes
            return None

    def read(self, name: str) -> Float32Array:
        """Read an array that exists; or WeightFileError."""
        derived = self._find(name)
        assert derived is not None
        return self._compute(derived)

    def _compute(self, derived: _DerivedArray) -> Float32Array:
        return derived.convert(*(self._state.read(tensor) for tensor in derived.tensors))

    def layer_mix(self, n_layers: int) -> str:
        """The first sum of layers that was learned, see `layer_mix`; "" if there is none."""
        mix = f"{self._prefix}scalar_mix_0"
        weight_names = [f"{mix}.scalar_parameters.{layer}" for layer in range(n_layers)]
        gamma_name = f"{mix}.gamma"
        if any(self._state.shapes.get(name) != (1,) for name in (*weight_names, gamma_name)):
            return ""
        weights = [float(self._state.read(name)[0]) for name in weight_names]
        return layer_mix(weights, gamma=float(self._state.read(gamma_name)[0]))

    def _find(self, name: str) -> _DerivedArray | None:
        """How an array is derived; None if bilm-tf has no array of this name."""
        for conversion in _CONVERSIONS:
            match = re.fullmatch(conversion.array, name)
            if match is not None:
                groups = match.groupdict()
                is_backward = groups.get("direction") == "1"
                groups["direction"] = "backward" if is_backward else "forward"
                names = [tensor.format(**groups) for tensor in conversion.tensors]
                tensors = [f"{self._prefix}_elmo_lstm.{name}" for name in names]
                return _DerivedArray(tensors, conversion.convert)
        return None


def _without_changes(tensor: Float32Array) -> Float32Array:
    return tensor


def _transposed(tensor: Float32Array) -> Float32Array:
    return tensor.T


def _filter(tensor: Float32Array) -> Float32Array:
    """From (count, char_dim, width) to (1, width, char_dim, count)."""
    return tensor.transpose(2, 1, 0)[np.newaxis]


def _transform(tensor: Float32Array) -> Float32Array:
    """The first half of the rows of a highway layer: the transformed input."""
    return np.split(tensor, 2)[0].T


def _carry(tensor: Float32Array) -> Float32Array:
    """The gate of the transformed input, from that of the input itself in the second half:
    1 - sigmoid(z) is sigmoid(-z)."""
    return -np.split(tensor, 2)[1].T


def reordered_gates(tensor: Float32Array) -> Float32Array:
    """The rows of the gates in the order of bilm-tf (input, candidate, forget, output), from that
    of AllenNLP (input, forget, candidate, output)."""
    i, f, j, o = np.split(tensor, _N_GATES)
    return np.concatenate([i, j, f, o])


def _lstm_weights(inputs: Float32Array, states: Float32Array) -> Float32Array:
    """Both matrices, one above the other, (input + state, gate * cell)."""
    return np.concatenate([reordered_gates(inputs).T, reordered_gates(states).T])


def _lstm_bias(tensor: Float32Array) -> Float32Array:
    i, j, f, o = np.split(reordered_gates(tensor), _N_GATES)
    return np.concatenate([i, j, f - np.float32(_FORGET_BIAS), o])


_EMBEDDER = "_token_embedder"
_HIGHWAY = _EMBEDDER + "._highways._layers.{layer}"
_LSTM = "_elmo_lstm.{direction}_layer_{layer}"
_LSTM_ARRAY = r"RNN_(?P<direction>[01])/RNN/MultiRNNCell/Cell(?P<layer>\d+)/LSTMCell/"
_CONVERSIONS = (
    _Conversion("char_embed", (f"{_EMBEDDER}._char_embedding_weights",), _without_changes),
    _Conversion(r"CNN/W_cnn_(?P<layer>\d+)", (_EMBEDDER + ".char_conv_{layer}.weight",), _filter),
    _Conversion(
        r"CNN/b_cnn_(?P<layer>\d+)", (_EMBEDDER + ".char_conv_{layer}.bias",), _without_changes
    ),
    _Conversion(r"CNN_high_(?P<layer>\d+)/W_transform", (f"{_HIGHWAY}.weight",), _transform),
    _Conversion(r"CNN_high_(?P<layer>\d+)/b_transform", (f"{_HIGHWAY}.bias",), _transform),
    _Conversion(r"CNN_high_(?P<layer>\d+)/W_carry", (f"{_HIGHWAY}.weight",), _carry),
    _Conversion(r"CNN_high_(?P<layer>\d+)/b_carry", (f"{_HIGHWAY}.bias",), _carry),
    _Conversion("CNN_proj/W_proj", (f"{_EMBEDDER}._projection.weight",), _transposed),
    _Conversion("CNN_proj/b_proj", (f"{_EMBEDDER}._projection.bias",), _without_changes),
    _Conversion(
        f"{_LSTM_ARRAY}W_0",
        (f"{_LSTM}.input_linearity.weight", f"{_LSTM}.state_linearity.weight"),
        _lstm_weights,
    ),
    _Conversion(f"{_LSTM_ARRAY}B", (f"{_LSTM}.state_linearity.bias",), _lstm_bias),
    _Conversion(f"{_LSTM_ARRAY}W_P_0", (f"{_LSTM}.state_projection.weight",), _transposed),
)
