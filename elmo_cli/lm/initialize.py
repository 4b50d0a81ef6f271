"""Initial values of a new biLM and softmax, and untrained models as files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from elmo_cli.errors import OutputError
from elmo_cli.files import StrPath, output_errors, write_text
from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.char_cnn import CharCNN
from elmo_cli.model.lstm import ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE
from elmo_cli.pretrained.load import ModelSource, locate
from elmo_cli.weightfile.write import write_bilm

_SOFTMAX_STD = 0.02


def new_bilm(
    options: Options, counts: npt.NDArray[np.float64], *, seed: int
) -> tuple[BiLM, NextTokenSoftmax]:
    """A biLM with the initial values of bilm-tf, and a softmax that knows how frequent types are.

    bilm-tf's softmax starts with weights of deviation 1/sqrt(projection) and biases of zero. Rare
    types are seldom drawn as negative samples and keep such weights for long, which the sampled
    loss does not show and the full softmax does: after 400,000 tokens every thirtieth prediction
    was a type that was hardly trained. Here weights start small and biases at the logarithm of the
    relative frequency, so that types that are not trained yet are unlikely.

    Args:
        counts: how often each type of the vocabulary is a target, (type,).

    Source: bilm-tf `bilm/training.py`; the LSTM has TensorFlow's default (Glorot and Bengio 2010).
    """
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        bilm, softmax = BiLM(options), NextTokenSoftmax(len(counts), options.projection_dim)
        _initialize_bilm(bilm)
        _initialize_softmax(softmax, counts)
    return bilm, softmax


def new_softmax(
    counts: npt.NDArray[np.float64], projection_dim: int, *, seed: int
) -> NextTokenSoftmax:
    """A softmax for an existing biLM, with initial values as in `new_bilm`."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        softmax = NextTokenSoftmax(len(counts), projection_dim)
        _initialize_softmax(softmax, counts)
    return softmax


def write_untrained(like: ModelSource | StrPath, output: Path, *, seed: int = 0) -> int:
    """Write options.json and weights.hdf5 of a biLM with the initial values of pretraining.

    Args:
        like: the model whose sizes are copied.
        output: a folder that is new or empty.
        seed: random seed; the same seed gives the same bytes.
    Returns:
        the number of parameters.
    Raises:
        ModelError, OptionsError: no such model, or not on this machine.
        OutputError: the folder has content or cannot be written to.
    """
    options = locate(like).read_options()
    with output_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        if content := sorted(os.listdir(output)):
            what = f"{output}: contains {content[0]}"
            raise OutputError(what, "choose a new or empty folder with `output`")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        bilm = BiLM(options)
        _initialize_bilm(bilm)
    write_text(output / OPTIONS_FILE, [json.dumps(options.to_dict(), indent=2), "\n"])
    write_bilm(bilm, output / WEIGHTS_FILE)
    return sum(values.numel() for values in bilm.parameters())


def _initialize_bilm(bilm: BiLM) -> None:
    _initialize_cnn(bilm.char_cnn)
    for lm in (bilm.forward_lm, bilm.backward_lm):
        for layer in lm.layers:
            _initialize_lstm(cast(ProjectedLSTM, layer))


def _initialize_softmax(softmax: NextTokenSoftmax, counts: npt.NDArray[np.float64]) -> None:
    nn.init.normal_(softmax.weight, std=_SOFTMAX_STD)
    frequencies = (counts + 1) / (counts + 1).sum()
    softmax.bias.copy_(torch.from_numpy(np.log(frequencies)))


def _initialize_cnn(cnn: CharCNN) -> None:
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
            _initialize_matrix(highway.get_submodule(gate), options.n_filters, start)
    if options.has_cnn_projection:
        _initialize_matrix(cnn.projection, options.n_filters, 0.0)


def _initialize_matrix(part: nn.Module, n_inputs: int, bias_value: float) -> None:
    weight, bias = _parameters(part)
    nn.init.normal_(weight, std=n_inputs**-0.5)
    bias.fill_(bias_value)


def _initialize_lstm(layer: ProjectedLSTM) -> None:
    # TensorFlow has one matrix of [x ; h], whose size determines the bound.
    n_inputs, n_outputs = 2 * layer.options.projection_dim, 4 * layer.options.lstm_dim
    bound = (6 / (n_inputs + n_outputs)) ** 0.5
    nn.init.uniform_(layer.input.weight, -bound, bound)
    nn.init.uniform_(layer.recurrent.weight, -bound, bound)
    layer.input.bias.zero_()
    for weight in layer.projection.parameters():
        nn.init.xavier_uniform_(weight)


def _parameters(part: nn.Module) -> tuple[Tensor, Tensor]:
    return part.get_parameter("weight"), part.get_parameter("bias")
