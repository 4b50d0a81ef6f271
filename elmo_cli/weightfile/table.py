"""The two-way table: arrays of a weight file and the parameters of a biLM.

Reading and writing both go through `rows`, so that neither can know something the other does not.

Two facts hold no row because the numbers stay as they are: gates keep the file's order (input,
candidate, forget, output), and the forget bias of 1.0 is in no file; the cell adds it when it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from elmo_cli.model.options import N_CHARACTERS, Options
from elmo_cli.weightfile.transforms import FILTER, SAME, TRANSPOSED, Transform


@dataclass(frozen=True)
class Row:
    """One array of the file.

    Attributes:
        path: its name in the HDF5 file.
        shape: its shape there.
        parameters: names in the biLM; two share one array where the file has the input's and
            the recurrent weights in one matrix, one above the other.
        transform: applied to each of them.
    """

    path: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    transform: Transform = SAME


def rows(options: Options) -> list[Row]:
    """Every array that a weight file of these sizes has, in the order bilm-tf writes them."""
    table = [Row("char_embed", (N_CHARACTERS, options.char_dim), ("char_cnn.embedding.weight",))]
    table += _filter_rows(options) + _highway_rows(options)
    if options.cnn_projection:
        shape = (options.n_filters, options.projection)
        home = "char_cnn.projection"
        table.append(Row("CNN_proj/W_proj", shape, (f"{home}.weight",), TRANSPOSED))
        table.append(Row("CNN_proj/b_proj", (options.projection,), (f"{home}.bias",)))
    for direction, name in enumerate(("forward_lm", "backward_lm")):
        for layer in range(options.n_layers):
            table += _lstm_rows(options, direction, layer, f"{name}.layers.{layer}")
    return table


def lstm_path(direction: int, layer: int) -> str:
    """The group of one LSTM layer: direction 0 is forward, 1 backward."""
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _filter_rows(options: Options) -> list[Row]:
    table = []
    for i, (width, count) in enumerate(options.filters):
        home = f"char_cnn.filters.{i}"
        shape = (1, width, options.char_dim, count)
        table.append(Row(f"CNN/W_cnn_{i}", shape, (f"{home}.weight",), FILTER))
        table.append(Row(f"CNN/b_cnn_{i}", (count,), (f"{home}.bias",)))
    return table


def _highway_rows(options: Options) -> list[Row]:
    table = []
    size = options.n_filters
    for k in range(options.n_highway):
        for gate in ("carry", "transform"):
            home = f"char_cnn.highways.{k}.{gate}"
            weight = Row(f"CNN_high_{k}/W_{gate}", (size, size), (f"{home}.weight",), TRANSPOSED)
            table += [weight, Row(f"CNN_high_{k}/b_{gate}", (size,), (f"{home}.bias",))]
    return table


def _lstm_rows(options: Options, direction: int, layer: int, home: str) -> list[Row]:
    path, gates = lstm_path(direction, layer), 4 * options.cell
    both = (f"{home}.input.weight", f"{home}.recurrent.weight")
    table = [
        Row(f"{path}/W_0", (2 * options.projection, gates), both, TRANSPOSED),
        Row(f"{path}/B", (gates,), (f"{home}.input.bias",)),
    ]
    if options.lstm_projection:
        shape = (options.cell, options.projection)
        table.append(Row(f"{path}/W_P_0", shape, (f"{home}.projection.weight",), TRANSPOSED))
    return table
