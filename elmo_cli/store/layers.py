"""LayerSelection: the layers kept of a model's output or of an embeddings file, or their sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.messages import plural
from elmo_cli.store.reader import Embeddings

_SYNTAX = "`layers` is all, top, average, sum, layer numbers such as 0,2, or mix:w0,w1,w2[,gamma]"
_MIX = "mix:"
_WORDS = ("top", "average", "sum")  # these need all layers of the model, as a mix does
_MAX_DIGITS = 9  # of the number of a layer; Python refuses to read thousands


@dataclass(frozen=True)
class LayerSelection:
    """What is kept of arrays whose first axis is the layer: "all", "top", "0,2", "average", ….

    `indices` along that axis are kept, none for a sum; `weights` are those of a mix, gamma
    included, and 1 for "sum".
    """

    name: str
    indices: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    drop_axis: bool = False

    @classmethod
    def parse(
        cls,
        text: str,
        available: Sequence[int],
        n_layers: int | None,
        *,
        drop_axis: bool = False,
        owner: str = "the model",
    ) -> LayerSelection:
        """Parse one of the forms of `name`; a UsageError for others, and for missing layers.

        Args:
            available: numbers of the layers along the first axis.
            n_layers: layers of the model; None if `available` are only some of them.
            drop_axis: a single layer given by its number loses its axis, as those of "top" do.
            owner: what has the layers, for messages.
        """
        name = "".join(text.split())
        if name == "all":
            all_indices = tuple(range(len(available)))
            return cls(name, all_indices, drop_axis=drop_axis and len(all_indices) == 1)
        if name in _WORDS or name.startswith(_MIX):
            if n_layers is None:
                raise _refused(name, f"{owner} has only {layer_list(available)} of its model")
            if name.startswith(_MIX):
                return cls(name, weights=_mix_weights(name, n_layers, owner))
            if name == "sum":
                return cls(name, weights=(1.0,) * n_layers)
            top = (n_layers - 1,)
            return cls(name, top if name == "top" else (), drop_axis=True)
        numbers = _layer_numbers(name)
        if not set(numbers) <= set(available):
            raise _refused(name, f"{owner} has {layer_list(available)}")
        indices = tuple(available.index(number) for number in numbers)
        plain_name = ",".join(map(str, numbers))
        return cls(plain_name, indices, drop_axis=drop_axis and len(numbers) == 1)

    @property
    def is_sum(self) -> bool:
        """Whether values are computed and not only selected."""
        return not self.indices

    @property
    def n_kept(self) -> int:
        """Vectors that are kept of each token."""
        return len(self.indices) or 1

    def apply(self, array: Any) -> Any:
        """Select or sum layers of an array or tensor: (layer, …) to (kept layer, …) or (…)."""
        if self.weights:
            return _weighted_sum(self.weights, array)
        if self.is_sum:
            return array.mean(0)
        if self.drop_axis:
            return array[self.indices[0]]
        is_all = self.indices == tuple(range(len(array)))
        return array if is_all else array[list(self.indices)]


def stored_layers(embeddings: Embeddings) -> tuple[int, ...]:
    """The numbers of the layers in a file, in its order; none for top, a sum or an unknown one."""
    return tuple(layer for layer in embeddings.layers if isinstance(layer, int))


def find_layer(embeddings: Embeddings, layer: int | str | None) -> int | str:
    """The layer of a file that is to be read.

    Args:
        layer: one of `embeddings.layers`; None for the highest one, or the only one.
    Raises:
        UsageError: the file does not contain this layer.
    """
    if layer is None:
        numbers = stored_layers(embeddings)
        return max(numbers) if numbers else embeddings.layers[0]
    if not len(embeddings):
        problem = "has no sentences, and so no layers"
        raise UsageError(problem, "embed a text that is not empty", where=embeddings.path)
    if layer not in embeddings.layers:
        problem = f"`layer={layer}`: the file has {layer_list(embeddings.layers)}"
        hint = "choose a layer of the file, or embed the text with this layer"
        raise UsageError(problem, hint, where=str(embeddings.path))
    return layer


def layer_list(numbers: Sequence[int | str]) -> str:
    """Return the layers as messages list them: "layers 0, 2"."""
    noun = "layer" if len(numbers) == 1 else "layers"
    return f"{noun} {', '.join(map(str, numbers))}"


def _weighted_sum(weights: Sequence[float], array: Any) -> Any:
    total = weights[0] * array[0]
    for weight, layer in zip(weights[1:], array[1:], strict=False):
        total = total + weight * layer
    return total


def _refused(name: str, problem: str, hint: str = _SYNTAX) -> UsageError:
    return UsageError(problem, hint, where=f"`layers={name}`")


def _layer_numbers(name: str) -> tuple[int, ...]:
    """The numbers in "0,2"."""
    parts = name.split(",")
    if not all(part.isdecimal() and len(part) <= _MAX_DIGITS for part in parts):
        raise _refused(name, "not a selection of layers")
    numbers = tuple(int(part) for part in parts)
    if len(set(numbers)) < len(numbers):
        raise _refused(name, "a layer is given twice")
    return numbers


def _mix_weights(name: str, n_layers: int, owner: str) -> tuple[float, ...]:
    """The weights of "mix:0.2,0.3,0.5[,1.1]", multiplied by gamma if given."""
    try:
        values = [float(part) for part in name.removeprefix(_MIX).split(",")]
    except ValueError:
        values = [float("nan")]
    if not np.isfinite(values).all():
        raise _refused(name, "the weights are not finite numbers")
    if len(values) not in (n_layers, n_layers + 1):
        needs = f"{owner} needs {plural(n_layers, 'weight')}, optionally gamma"
        raise _refused(name, f"{plural(len(values), 'number')}; {needs}")
    gamma = values[n_layers] if len(values) > n_layers else 1.0
    weights = tuple(value * gamma for value in values[:n_layers])
    largest = max(abs(weight) for weight in weights)
    float32 = np.finfo(np.float32)
    if not float(float32.tiny) <= largest <= float(float32.max):
        raise _refused(name, "all weights are 0, or one exceeds float32", "give other weights")
    return weights
