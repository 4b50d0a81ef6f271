"""The parameters of a biLM as AllenNLP names and arranges them, both ways.

AllenNLP has the gates of an LSTM in the order input, forget, candidate, output, and the forget bias
added to their bias; both parts of a highway layer in one matrix, whose second half is the gate of
the input itself; and a row of zeros before the embeddings of the characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from elmo_cli.interop.allennlp_ids import N_IDS, IdStrings
from elmo_cli.model.bilm import BiLM, Highway, ProjectedLSTM
from elmo_cli.model.options import Options
from elmo_cli.weightfile.read import make_bilm

EMBEDDER = "_token_embedder"
LSTM = "_elmo_lstm"
_DIRECTIONS = ("forward", "backward")


def allennlp_tensors(bilm: BiLM) -> dict[str, Tensor]:
    """The parameters of a biLM, by AllenNLP's names, in its order."""
    char_cnn = bilm.char_cnn
    zero_row = char_cnn.embedding.weight.new_zeros(1, bilm.options.char_dim)
    tensors = {
        f"{EMBEDDER}._char_embedding_weights": torch.cat([zero_row, char_cnn.embedding.weight])
    }
    for number, conv in enumerate(char_cnn.filters):
        for name in ("weight", "bias"):
            tensors[f"{EMBEDDER}.char_conv_{number}.{name}"] = conv.get_parameter(name)
    for number, highway in enumerate(cast("list[Highway]", list(char_cnn.highways))):
        for name in ("weight", "bias"):
            transform = highway.transform.get_parameter(name)
            carry = highway.carry.get_parameter(name)
            tensors[f"{_highway(number)}.{name}"] = torch.cat([transform, -carry])
    if bilm.options.has_cnn_projection:
        for name in ("weight", "bias"):
            tensors[f"{EMBEDDER}._projection.{name}"] = char_cnn.projection.get_parameter(name)
    for number in range(bilm.options.n_layers):
        for direction in _DIRECTIONS:
            layer = getattr(bilm, f"{direction}_lm").layers[number]
            prefix = f"{LSTM}.{direction}_layer_{number}"
            for name, tensor in _lstm_tensors(layer).items():
                tensors[f"{prefix}.{name}"] = tensor
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def _lstm_tensors(layer: ProjectedLSTM) -> dict[str, Tensor]:
    i, f, j, o = _reordered(layer.input.bias).chunk(4)
    bias = torch.cat([i, f + layer.options.forget_bias, j, o])
    tensors = {
        "input_linearity.weight": _reordered(layer.input.weight),
        "state_linearity.weight": _reordered(layer.recurrent.weight),
        "state_linearity.bias": bias,
    }
    if layer.options.has_lstm_projection:
        tensors["state_projection.weight"] = layer.projection.get_parameter("weight")
    return tensors


def bilm_tensors(tensors: Mapping[str, Tensor], options: Options) -> dict[str, Tensor]:
    """The parameters of `bilm_of`, from tensors by AllenNLP's names; gradients flow back."""
    parameters = {"char_cnn.embedding.weight": tensors[f"{EMBEDDER}._char_embedding_weights"]}
    for number in range(len(options.filters)):
        for name in ("weight", "bias"):
            conv = tensors[f"{EMBEDDER}.char_conv_{number}.{name}"]
            parameters[f"char_cnn.filters.{number}.{name}"] = conv
    for number in range(options.n_highway):
        for name in ("weight", "bias"):
            transform, carry = tensors[f"{_highway(number)}.{name}"].chunk(2)
            parameters[f"char_cnn.highways.{number}.transform.{name}"] = transform
            parameters[f"char_cnn.highways.{number}.carry.{name}"] = -carry
    if options.has_cnn_projection:
        for name in ("weight", "bias"):
            parameters[f"char_cnn.projection.{name}"] = tensors[f"{EMBEDDER}._projection.{name}"]
    for number in range(options.n_layers):
        for direction in _DIRECTIONS:
            source = f"{LSTM}.{direction}_layer_{number}"
            layer = f"{direction}_lm.layers.{number}"
            weight = _reordered(tensors[f"{source}.input_linearity.weight"])
            bias = _reordered(tensors[f"{source}.state_linearity.bias"])
            recurrent = _reordered(tensors[f"{source}.state_linearity.weight"])
            parameters[f"{layer}.input.weight"] = weight
            parameters[f"{layer}.input.bias"] = bias
            parameters[f"{layer}.recurrent.weight"] = recurrent
            if options.has_lstm_projection:
                projection = tensors[f"{source}.state_projection.weight"]
                parameters[f"{layer}.projection.weight"] = projection
    return parameters


def allennlp_options(options: Options) -> Options:
    """The options of a biLM with AllenNLP's parameters.

    The bias of these parameters includes the forget bias, and their characters have AllenNLP's ids.
    """
    return replace(options, n_characters=N_IDS, forget_bias=0.0)


def bilm_of(tensors: Mapping[str, Tensor], options: Options) -> BiLM:
    """A biLM on the CPU that reads AllenNLP's ids, of tensors by AllenNLP's names.

    Args:
        options: those of `allennlp_options`.
    """
    arrays = {}
    for name, tensor in bilm_tensors(tensors, options).items():
        arrays[name] = tensor.detach().cpu().float().contiguous().numpy()
    return make_bilm(options, arrays.items(), IdStrings(options.max_characters))


def add_parameters(
    module: nn.Module, tensors: Mapping[str, Tensor], *, requires_grad: bool
) -> None:
    """Add parameters with dotted names to a module, and the modules that the names are in."""
    for path, tensor in tensors.items():
        *modules, name = path.split(".")
        owner = module
        for module_name in modules:
            if module_name not in dict(owner.named_children()):
                owner.add_module(module_name, nn.Module())
            owner = owner.get_submodule(module_name)
        owner.register_parameter(name, nn.Parameter(tensor, requires_grad=requires_grad))


def _highway(number: int) -> str:
    return f"{EMBEDDER}._highways._layers.{number}"


def _reordered(gates: Tensor) -> Tensor:
    """Exchange the second and the third quarter of the rows.

    This converts the order of bilm-tf (input, candidate, forget, output) to AllenNLP's, and back.
    """
    first, second, third, fourth = gates.chunk(4)
    return torch.cat([first, third, second, fourth])
