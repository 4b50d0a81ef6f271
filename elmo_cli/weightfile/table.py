"""The two-way table between the arrays of a weight file and the parameters of a biLM.

A file holds matrices that are multiplied from the right (their rows are inputs); torch keeps
(output, input). Gates keep the file's order (input, candidate, forget, output). The forget bias of
1.0 is in no file; the LSTM adds it when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elmo_cli.arrays import Float32Array
from elmo_cli.model.options import N_CHARACTERS, Options

CHAR_EMBED = "char_embed"  # the only matrix with the same axes in torch


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
        if self.path == CHAR_EMBED:
            return {self.parameters[0]: array[-N_CHARACTERS:]}
        parts = (part.T for part in np.split(array, len(self.parameters)))
        parts = (part[..., 0] if part.ndim == 4 else part for part in parts)
        return dict(zip(self.parameters, parts, strict=True))

    def to_array(self, parameters: Mapping[str, Float32Array]) -> Float32Array:
        """The array of the file; reverses `to_parameters` bit for bit."""
        parts = [parameters[name] for name in self.parameters]
        if self.path == CHAR_EMBED:
            return parts[0]
        parts = [part[..., np.newaxis] if part.ndim == 3 else part for part in parts]
        return np.concatenate([part.T for part in parts])


def rows(options: Options) -> list[WeightRow]:
    """List every array of a weight file of these sizes, in the order bilm-tf writes them."""
    n_filters, projection = options.n_filters, options.projection_dim
    table = [
        WeightRow(CHAR_EMBED, (N_CHARACTERS, options.char_dim), ("char_cnn.embedding.weight",))
    ]
    for i, (width, count) in enumerate(options.filters):
        shape, prefix = (1, width, options.char_dim, count), f"char_cnn.filters.{i}"
        table.append(WeightRow(f"CNN/W_cnn_{i}", shape, (f"{prefix}.weight",)))
        table.append(WeightRow(f"CNN/b_cnn_{i}", (count,), (f"{prefix}.bias",)))
    for k in range(options.n_highway):
        for gate in ("carry", "transform"):
            path, prefix = f"CNN_high_{k}/{{}}_{gate}", f"char_cnn.highways.{k}.{gate}"
            table += _linear(path, n_filters, n_filters, prefix)
    if options.has_cnn_projection:
        table += _linear("CNN_proj/{}_proj", n_filters, projection, "char_cnn.projection")
    for direction, name in enumerate(("forward_lm", "backward_lm")):
        for layer in range(options.n_layers):
            table += _lstm_rows(options, lstm_path(direction, layer), f"{name}.layers.{layer}")
    return table


def lstm_path(direction: int, layer: int) -> str:
    """The group of one LSTM layer; direction 0 is forward, 1 backward."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _linear(path: str, n_inputs: int, n_outputs: int, prefix: str) -> list[WeightRow]:
    return [
        WeightRow(path.format("W"), (n_inputs, n_outputs), (f"{prefix}.weight",)),
        WeightRow(path.format("b"), (n_outputs,), (f"{prefix}.bias",)),
    ]


def _lstm_rows(options: Options, path: str, prefix: str) -> list[WeightRow]:
    gates = 4 * options.lstm_dim
    both = (f"{prefix}.input.weight", f"{prefix}.recurrent.weight")
    table = [
        WeightRow(f"{path}/W_0", (2 * options.projection_dim, gates), both),
        WeightRow(f"{path}/B", (gates,), (f"{prefix}.input.bias",)),
    ]
    if options.has_lstm_projection:
        shape = (options.lstm_dim, options.projection_dim)
        table.append(WeightRow(f"{path}/W_P_0", shape, (f"{prefix}.projection.weight",)))
    return table
