"""The values that training begins with."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from elmo_cli.model.bilm import BiLM
from elmo_cli.model.char_cnn import CharCNN
from elmo_cli.model.lstm import ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.model.softmax import NextToken


def new_model(options: Options, n_types: int, *, seed: int) -> tuple[BiLM, NextToken]:
    """A biLM and a softmax layer with the originals' first values.

    Source: bilm-tf `bilm/training.py`; the LSTM's are TensorFlow's default (Glorot and Bengio
    2010).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        bilm, head = BiLM(options), NextToken(n_types, options.projection)
        with torch.no_grad():
            _begin_cnn(bilm.char_cnn)
            for lm in (bilm.forward_lm, bilm.backward_lm):
                for layer in lm.layers:
                    if isinstance(layer, ProjectedLSTM):
                        _begin_lstm(layer)
            nn.init.normal_(head.weight, std=options.projection**-0.5)
            head.bias.zero_()
    return bilm, head


def _begin_cnn(cnn: CharCNN) -> None:
    options = cnn.options
    nn.init.uniform_(cnn.embedding.weight, -1, 1)
    for part, (width, _) in zip(cnn.filters, options.filters, strict=True):
        weight, bias = _parameters(part)
        if options.activation == "relu":
            nn.init.uniform_(weight, -0.05, 0.05)
        else:
            nn.init.normal_(weight, std=(width * options.char_dim) ** -0.5)
        bias.zero_()
    for highway in cnn.highways:
        for gate, start in (("carry", -2.0), ("transform", 0.0)):
            _begin_matrix(highway.get_submodule(gate), options.n_filters, start)
    if options.cnn_projection:
        _begin_matrix(cnn.projection, options.n_filters, 0.0)


def _begin_matrix(part: nn.Module, n_inputs: int, start: float) -> None:
    weight, bias = _parameters(part)
    nn.init.normal_(weight, std=n_inputs**-0.5)
    bias.fill_(start)


def _begin_lstm(layer: ProjectedLSTM) -> None:
    # One matrix of [x ; h] in TensorFlow: its sizes bound the values, not those of the halves.
    n_inputs, n_outputs = 2 * layer.options.projection, 4 * layer.options.cell
    bound = (6 / (n_inputs + n_outputs)) ** 0.5
    nn.init.uniform_(layer.input.weight, -bound, bound)
    nn.init.uniform_(layer.recurrent.weight, -bound, bound)
    layer.input.bias.zero_()
    for weight in layer.projection.parameters():
        nn.init.xavier_uniform_(weight)


def _parameters(part: nn.Module) -> tuple[Tensor, Tensor]:
    return part.get_parameter("weight"), part.get_parameter("bias")
