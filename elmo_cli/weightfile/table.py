"""The two-way table between the arrays of a weight file and the parameters of a biLM.

A file holds matrices that are multiplied from the right (their rows are inputs); torch keeps
(output, input). Gates keep the file's order (input, candidate, forget, output). The forget bias of
1.0 is in no file; the LSTM adds it when it runs.
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
    """One array of the file: its HDF5 path, its shape there and the parameters that are in it.

    Two parameters share one array where the file has the input weights above the recurrent weights
    in one matrix; `transform` applies to each of them.
    """

    path: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    transform: Transform = IDENTITY


def rows(options: Options) -> list[Row]:
    """List every array of a weight file of these sizes, in the order bilm-tf writes them."""
    n_filters, projection = options.n_filters, options.projection_dim
    table = [Row("char_embed", (N_CHARACTERS, options.char_dim), ("char_cnn.embedding.weight",))]
    for i, (width, count) in enumerate(options.filters):
        shape, prefix = (1, width, options.char_dim, count), f"char_cnn.filters.{i}"
        table.append(Row(f"CNN/W_cnn_{i}", shape, (f"{prefix}.weight",), CONV_FILTER))
        table.append(Row(f"CNN/b_cnn_{i}", (count,), (f"{prefix}.bias",)))
    for k in range(options.n_highway):
        for gate in ("carry", "transform"):
            table += _linear(
                f"CNN_high_{k}/{{}}_{gate}", n_filters, n_filters, f"char_cnn.highways.{k}.{gate}"
            )
    if options.has_cnn_projection:
        table += _linear("CNN_proj/{}_proj", n_filters, projection, "char_cnn.projection")
    for direction, name in enumerate(("forward_lm", "backward_lm")):
        for layer in range(options.n_layers):
            table += _lstm_rows(options, lstm_path(direction, layer), f"{name}.layers.{layer}")
    return table


def lstm_path(direction: int, layer: int) -> str:
    """The group of one LSTM layer; direction 0 is forward, 1 backward."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _linear(path: str, n_inputs: int, n_outputs: int, prefix: str) -> list[Row]:
    return [
        Row(path.format("W"), (n_inputs, n_outputs), (f"{prefix}.weight",), TRANSPOSE),
        Row(path.format("b"), (n_outputs,), (f"{prefix}.bias",)),
    ]


def _lstm_rows(options: Options, path: str, prefix: str) -> list[Row]:
    gates = 4 * options.lstm_dim
    both = (f"{prefix}.input.weight", f"{prefix}.recurrent.weight")
    table = [
        Row(f"{path}/W_0", (2 * options.projection_dim, gates), both, TRANSPOSE),
        Row(f"{path}/B", (gates,), (f"{prefix}.input.bias",)),
    ]
    if options.has_lstm_projection:
        shape = (options.lstm_dim, options.projection_dim)
        table.append(Row(f"{path}/W_P_0", shape, (f"{prefix}.projection.weight",), TRANSPOSE))
    return table
