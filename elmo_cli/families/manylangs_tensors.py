"""ManylangsModel: the tensors of ELMoForManyLangs as the parameters of a biLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from elmo_cli.arrays import Float32Array
from elmo_cli.errors import WeightFileError
from elmo_cli.families.dictionaries import token_ids_of
from elmo_cli.families.family import OpenModel
from elmo_cli.families.state_arrays import reordered_gates
from elmo_cli.families.state_dict import StateDict
from elmo_cli.model.options import Options
from elmo_cli.text.unicode_characters import Dictionary
from elmo_cli.weightfile.named_arrays import n_rows

MISMATCH_HINT = "configuration, dictionaries and weights must come from one model"
_N_GATES = 4
_CHARACTERS = "char_emb_layer.embedding.weight"
_WORDS = "word_emb_layer.embedding.weight"


class ManylangsModel(OpenModel):
    """The tensors and dictionaries of a model.

    Args:
        options: the sizes in the configuration.
        digest: of all files.
    Raises:
        ModelError: a dictionary does not fit its matrix.
        WeightFileError: a file lacks a tensor, or has another one or one of another shape.
    """

    def __init__(
        self,
        *,
        options: Options,
        dictionaries: Mapping[str, Dictionary],
        token_embedder: StateDict,
        encoder: StateDict,
        digest: str,
    ) -> None:
        self.assumed = {}
        self.options = replace(
            options,
            n_characters=n_rows(token_embedder.shapes.get(_CHARACTERS)),
            n_words=n_rows(token_embedder.shapes.get(_WORDS)),
        )
        self._files = (
            (token_embedder, _embedder_rows(self.options)),
            (encoder, _encoder_rows(self.options)),
        )
        for file, rows in self._files:
            _check_tensors(file, rows)
        matrix = token_embedder.path.name
        self.dictionaries = dictionaries
        self.token_ids = token_ids_of(self.options, dictionaries, matrix=matrix)
        self._digest = digest

    def digest(self) -> str:
        """A SHA-256 of all files that determine the vectors."""
        return self._digest

    def parameters(self) -> Iterator[tuple[str, Float32Array]]:
        """Read the parameters, tensor by tensor."""
        for file, rows in self._files:
            for row in rows:
                yield row.parameter, np.ascontiguousarray(row.convert(file.read(row.tensor)))


@dataclass(frozen=True, kw_only=True)
class TensorRow:
    """A parameter of a biLM, by its name in `BiLM.state_dict`, and the tensor that contains it.

    Attributes:
        shape: of the tensor.
        convert: from the tensor to the parameter.
    """

    parameter: str
    tensor: str
    shape: tuple[int, ...]
    convert: Callable[[Float32Array], Float32Array] = np.copy


def _first_half(values: Float32Array) -> Float32Array:
    return values[: len(values) // 2].copy()


def _negated_second_half(values: Float32Array) -> Float32Array:
    """The gate of the transformed input, from that of the input itself: 1 - sigmoid(z) is
    sigmoid(-z)."""
    return -values[len(values) // 2 :]


def _embedder_rows(options: Options) -> list[TensorRow]:
    """The tensors of token_embedder.pkl."""
    n_filters = options.n_filters
    table = [
        TensorRow(
            parameter="char_cnn.embedding.weight",
            tensor=_CHARACTERS,
            shape=(options.n_characters, options.char_dim),
        )
    ]
    if options.word_dim:
        shape = (options.n_words, options.word_dim)
        table.append(TensorRow(parameter="char_cnn.words.weight", tensor=_WORDS, shape=shape))
    for i, (width, count) in enumerate(options.filters):
        name = f"convolutions.{i}"
        table += _linear_rows(f"char_cnn.filters.{i}", name, (count, options.char_dim, width))
    for k in range(options.n_highway):
        for gate, convert in (("transform", _first_half), ("carry", _negated_second_half)):
            module = f"char_cnn.highways.{k}.{gate}"
            shape = (2 * n_filters, n_filters)
            for row in _linear_rows(module, f"highways._layers.{k}", shape):
                table.append(replace(row, convert=convert))
    n_features = options.word_dim + n_filters
    table += _linear_rows("char_cnn.projection", "projection", (options.projection_dim, n_features))
    return table


def _linear_rows(module: str, name: str, shape: tuple[int, ...]) -> list[TensorRow]:
    """The weight, of this shape, and the bias of a module."""
    return [
        TensorRow(parameter=f"{module}.weight", tensor=f"{name}.weight", shape=shape),
        TensorRow(parameter=f"{module}.bias", tensor=f"{name}.bias", shape=shape[:1]),
    ]


def _encoder_rows(options: Options) -> list[TensorRow]:
    """The tensors of encoder.pkl."""
    n_gate_values = _N_GATES * options.lstm_dim
    gates_shape = (n_gate_values, options.projection_dim)
    table = []
    for direction in ("forward", "backward"):
        for layer in range(options.n_layers):
            module = f"{direction}_lm.layers.{layer}"
            name = f"{direction}_layer_{layer}"
            table += [
                TensorRow(
                    parameter=f"{module}.input.weight",
                    tensor=f"{name}.input_linearity.weight",
                    shape=gates_shape,
                    convert=reordered_gates,
                ),
                TensorRow(
                    parameter=f"{module}.recurrent.weight",
                    tensor=f"{name}.state_linearity.weight",
                    shape=gates_shape,
                    convert=reordered_gates,
                ),
                TensorRow(
                    parameter=f"{module}.input.bias",
                    tensor=f"{name}.state_linearity.bias",
                    shape=(n_gate_values,),
                    convert=reordered_gates,
                ),
                TensorRow(
                    parameter=f"{module}.projection.weight",
                    tensor=f"{name}.state_projection.weight",
                    shape=(options.projection_dim, options.lstm_dim),
                ),
            ]
    return table


def _check_tensors(file: StateDict, rows: list[TensorRow]) -> None:
    """Raise a WeightFileError unless a file has exactly the tensors of a table."""
    for row in rows:
        found = file.shapes.get(row.tensor)
        if found != row.shape:
            what = "is missing" if found is None else f"is of shape {found}"
            problem = f"{row.tensor} {what}, expected shape {row.shape}"
            raise WeightFileError(problem, MISMATCH_HINT, where=file.path)
    unknown = file.shapes.keys() - {row.tensor for row in rows}
    if unknown:
        problem = f"holds {min(unknown)}, which the configuration leaves out"
        raise WeightFileError(problem, MISMATCH_HINT, where=file.path)
