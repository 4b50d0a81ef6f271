"""The values that training begins with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from elmo_cli.model.bilm import BiLM, NextTokenSoftmax
from elmo_cli.model.char_cnn import CharCNN
from elmo_cli.model.lstm import ProjectedLSTM
from elmo_cli.model.options import Options

_SOFTMAX_STD = 0.02


def new_bilm(
    options: Options, counts: npt.NDArray[np.float64], *, seed: int
) -> tuple[BiLM, NextTokenSoftmax]:
    """A biLM with the originals' first values, and a softmax layer that knows how common types are.

    The originals' softmax begins with weights of deviation 1/sqrt(projection) and biases of zero.
    Rare types are seldom drawn as negatives and keep such weights for long, which the sampled loss
    does not notice and the full softmax does: after 400,000 tokens every thirtieth prediction fell
    to a type that was hardly trained. Here weights begin small and biases at the logarithm of the
    share of each type, so that what is not trained yet is unlikely.

    Args:
        counts: how often each type of the vocabulary is predicted, (type,).

    Source: bilm-tf `bilm/training.py`; the LSTM's are TensorFlow's default (Glorot and Bengio
    2010).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        bilm, head = BiLM(options), NextTokenSoftmax(len(counts), options.projection_dim)
        with torch.no_grad():
            _begin_cnn(bilm.char_cnn)
            for lm in (bilm.forward_lm, bilm.backward_lm):
                for layer in lm.layers:
                    if isinstance(layer, ProjectedLSTM):
                        _begin_lstm(layer)
            _begin_head(head, counts)
    return bilm, head


def new_softmax(counts: npt.NDArray[np.float64], projection: int, *, seed: int) -> NextTokenSoftmax:
    """A softmax layer for a biLM that is there: small weights, and biases as `new_bilm` has them.

    Args:
        counts: how often each type of the vocabulary is predicted, (type,).
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = NextTokenSoftmax(len(counts), projection)
        with torch.no_grad():
            _begin_head(head, counts)
    return head


def _begin_head(head: NextTokenSoftmax, counts: npt.NDArray[np.float64]) -> None:
    nn.init.normal_(head.weight, std=_SOFTMAX_STD)
    shares = (counts + 1) / (counts + 1).sum()
    head.bias.copy_(torch.from_numpy(np.log(shares)))


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
    if options.has_cnn_projection:
        _begin_matrix(cnn.projection, options.n_filters, 0.0)


def _begin_matrix(part: nn.Module, n_inputs: int, start: float) -> None:
    weight, bias = _parameters(part)
    nn.init.normal_(weight, std=n_inputs**-0.5)
    bias.fill_(start)


def _begin_lstm(layer: ProjectedLSTM) -> None:
    # One matrix of [x ; h] in TensorFlow: its sizes bound the values, not those of the halves.
    n_inputs, n_outputs = 2 * layer.options.projection_dim, 4 * layer.options.lstm_dim
    bound = (6 / (n_inputs + n_outputs)) ** 0.5
    nn.init.uniform_(layer.input.weight, -bound, bound)
    nn.init.uniform_(layer.recurrent.weight, -bound, bound)
    layer.input.bias.zero_()
    for weight in layer.projection.parameters():
        nn.init.xavier_uniform_(weight)


def _parameters(part: nn.Module) -> tuple[Tensor, Tensor]:
    return part.get_parameter("weight"), part.get_parameter("bias")
