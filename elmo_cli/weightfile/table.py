"""The two-way table between the arrays of a weight file and the parameters of a biLM.

Reading and writing both go through `rows`, so that neither can know something the other does not.
A file holds matrices that are multiplied from the right (their rows are inputs); torch keeps
(output, input).

Two facts have no row because no number changes: gates keep the file's order (input, candidate,
forget, output), and the forget bias of 1.0 is in no file; the LSTM adds it when it runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elmo_cli.model.options import N_CHARACTERS, Options
from elmo_cli.weightfile.describe import Array


@dataclass(frozen=True)
class Transform:
    """How an array of a file becomes a parameter; `to_file` inverts `to_parameter` bit for bit."""

    to_parameter: Callable[[Array], Array]
    to_file: Callable[[Array], Array]


IDENTITY = Transform(lambda a: a, lambda a: a)
TRANSPOSE = Transform(lambda a: a.T, lambda a: a.T)
# File: (1, width, char_dim, count). torch's Conv1d: (count, char_dim, width).
CONV_FILTER = Transform(lambda a: a[0].transpose(2, 1, 0), lambda a: a.transpose(2, 1, 0)[None])


@dataclass(frozen=True)
class Row:
    """One array of the file.

    Attributes:
        path: its name in the HDF5 file.
        shape: its shape there.
        parameters: names in the biLM; two share one array where the file has the input weights
            above the recurrent weights in one matrix.
        transform: applied to each of them.
    """

    path: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    transform: Transform = IDENTITY


def rows(options: Options) -> list[Row]:
    """List every array of a weight file of these sizes, in the order bilm-tf writes them."""
    table = [Row("char_embed", (N_CHARACTERS, options.char_dim), ("char_cnn.embedding.weight",))]
    table += _filter_rows(options) + _highway_rows(options)
    if options.cnn_projection:
        shape = (options.n_filters, options.projection)
        prefix = "char_cnn.projection"
        table.append(Row("CNN_proj/W_proj", shape, (f"{prefix}.weight",), TRANSPOSE))
        table.append(Row("CNN_proj/b_proj", (options.projection,), (f"{prefix}.bias",)))
    for direction, name in enumerate(("forward_lm", "backward_lm")):
        for layer in range(options.n_layers):
            table += _lstm_rows(options, lstm_path(direction, layer), f"{name}.layers.{layer}")
    return table


def lstm_path(direction: int, layer: int) -> str:
    """The group of one LSTM layer; direction 0 is forward, 1 backward."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _filter_rows(options: Options) -> list[Row]:
    table = []
    for i, (width, count) in enumerate(options.filters):
        prefix = f"char_cnn.filters.{i}"
        shape = (1, width, options.char_dim, count)
        table.append(Row(f"CNN/W_cnn_{i}", shape, (f"{prefix}.weight",), CONV_FILTER))
        table.append(Row(f"CNN/b_cnn_{i}", (count,), (f"{prefix}.bias",)))
    return table


def _highway_rows(options: Options) -> list[Row]:
    table = []
    size = options.n_filters
    for k in range(options.n_highway):
        for gate in ("carry", "transform"):
            prefix = f"char_cnn.highways.{k}.{gate}"
            path = f"CNN_high_{k}/W_{gate}"
            table.append(Row(path, (size, size), (f"{prefix}.weight",), TRANSPOSE))
            table.append(Row(f"CNN_high_{k}/b_{gate}", (size,), (f"{prefix}.bias",)))
    return table


def _lstm_rows(options: Options, path: str, prefix: str) -> list[Row]:
    gates = 4 * options.cell
    both = (f"{prefix}.input.weight", f"{prefix}.recurrent.weight")
    table = [
        Row(f"{path}/W_0", (2 * options.projection, gates), both, TRANSPOSE),
        Row(f"{path}/B", (gates,), (f"{prefix}.input.bias",)),
    ]
    if options.lstm_projection:
        shape = (options.cell, options.projection)
        table.append(Row(f"{path}/W_P_0", shape, (f"{prefix}.projection.weight",), TRANSPOSE))
    return table
