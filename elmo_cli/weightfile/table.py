"""The two-way table between the arrays of a weight file and the parameters of a biLM.

A file holds matrices that are multiplied from the right (their rows are inputs); torch keeps
(output, input). Gates keep the file's order (input, candidate, forget, output). The forget bias of
1.0 is in no file of bilm-tf; the LSTM adds it when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import Float32Array
from elmo_cli.model.options import Options

# The matrices with the same axes in torch.
CHAR_EMBED = "char_embed"
WORD_EMBED = "word_embed"  # only of models that elmo alone reads
ADAGRAD_GROUP = "adagrad"  # the HDF5 group of the accumulators, in a file of their own
# Training clips, and Adagrad accumulates, gradients of the loss summed over this number of tokens:
# the default of bilm-tf.
LOSS_TOKENS = 20


@dataclass(frozen=True)
class WeightRow:
    """One array of the file: its HDF5 path, its shape there and the parameters that are in it.

    Two parameters share one array where the file has the input weights above the recurrent weights
    in one matrix. A filter is (1, width, char_dim, count), in torch (count, char_dim, width).
    """

    path: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]

    def to_parameters(self, array: Float32Array) -> dict[str, Float32Array]:
        """The parameters in an array of the file, by name."""
        if self.path in (CHAR_EMBED, WORD_EMBED):
            n_rows, _ = self.shape
            return {self.parameters[0]: array[-n_rows:]}
        parameters: dict[str, Float32Array] = {}
        parts = np.split(array, len(self.parameters))
        for name, part in zip(self.parameters, parts, strict=True):
            transposed = part.T  # a filter: (count, char_dim, width, 1)
            parameters[name] = transposed[..., 0] if part.ndim == 4 else transposed
        return parameters

    def to_array(self, parameters: Mapping[str, Float32Array]) -> Float32Array:
        """The array of the file; reverses `to_parameters` bit for bit."""
        if self.path in (CHAR_EMBED, WORD_EMBED):
            return parameters[self.parameters[0]]
        parts = []
        for name in self.parameters:
            parameter = parameters[name]
            is_filter = parameter.ndim == 3  # (count, char_dim, width)
            parts.append(parameter[..., np.newaxis].T if is_filter else parameter.T)
        return np.concatenate(parts)


def rows(options: Options) -> list[WeightRow]:
    """List every array of a weight file of these sizes, in the order bilm-tf writes them."""
    embedding = "char_cnn.embedding.weight"
    table = [_row(CHAR_EMBED, (options.n_characters, options.char_dim), embedding)]
    if options.word_dim:
        words_shape = (options.n_words, options.word_dim)
        table.append(_row(WORD_EMBED, words_shape, "char_cnn.words.weight"))
    for i, (width, count) in enumerate(options.filters):
        shape = (1, width, options.char_dim, count)
        table.append(_row(f"CNN/W_cnn_{i}", shape, f"char_cnn.filters.{i}.weight"))
        table.append(_row(f"CNN/b_cnn_{i}", (count,), f"char_cnn.filters.{i}.bias"))
    n_filters = options.n_filters
    for k in range(options.n_highway):
        for gate in ("carry", "transform"):
            table += _linear_rows(
                group=f"CNN_high_{k}",
                name=gate,
                shape=(n_filters, n_filters),
                module=f"char_cnn.highways.{k}.{gate}",
            )
    if options.has_cnn_projection:
        table += _linear_rows(
            group="CNN_proj",
            name="proj",
            shape=(options.word_dim + n_filters, options.projection_dim),
            module="char_cnn.projection",
        )
    for direction, module in enumerate(("forward_lm", "backward_lm")):
        for layer in range(options.n_layers):
            group = lstm_path(direction, layer)
            table += _lstm_rows(options, group, module=f"{module}.layers.{layer}")
    return table


def lstm_path(direction: int, layer: int) -> str:
    """The group of one LSTM layer; direction 0 is forward, 1 backward."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _row(path: str, shape: tuple[int, ...], *parameters: str) -> WeightRow:
    return WeightRow(path=path, shape=shape, parameters=parameters)


def _linear_rows(group: str, name: str, shape: tuple[int, int], module: str) -> list[WeightRow]:
    """The rows of a linear layer; `shape` is (input, output)."""
    _, n_outputs = shape
    return [
        _row(f"{group}/W_{name}", shape, f"{module}.weight"),
        _row(f"{group}/b_{name}", (n_outputs,), f"{module}.bias"),
    ]


def _lstm_rows(options: Options, group: str, module: str) -> list[WeightRow]:
    n_gate_values = 4 * options.lstm_dim
    joint_shape = (2 * options.projection_dim, n_gate_values)
    table = [
        _row(f"{group}/W_0", joint_shape, f"{module}.input.weight", f"{module}.recurrent.weight"),
        _row(f"{group}/B", (n_gate_values,), f"{module}.input.bias"),
    ]
    if options.has_lstm_projection:
        shape = (options.lstm_dim, options.projection_dim)
        table.append(_row(f"{group}/W_P_0", shape, f"{module}.projection.weight"))
    return table
