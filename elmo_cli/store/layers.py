"""LayerSelection: the layers kept of a model's output or of an embeddings file, or their sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.messages import plural
from elmo_cli.store.reader import Embeddings

_SYNTAX = "`layers` is all, top, average, layer numbers such as 0,2, or mix:w0,w1,w2[,gamma]"
_MIX = "mix:"


@dataclass(frozen=True)
class LayerSelection:
    """What is kept of arrays whose first axis is the layer: "all", "top", "0,2", "average", ….

    `indices` along that axis are kept, none for a sum; `weights` are of a mix, gamma included.
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
            indices = tuple(range(len(available)))
            return cls(name, indices, drop_axis=drop_axis and len(indices) == 1)
        if name in ("top", "average") or name.startswith(_MIX):
            if n_layers is None:
                raise _refused(name, f"{owner} has only {layer_list(available)} of its model")
            if name.startswith(_MIX):
                return cls(name, weights=_mix_weights(name, n_layers, owner))
            return cls(name, (n_layers - 1,) if name == "top" else (), drop_axis=True)
        parts = name.split(",")
        if not all(part.isdecimal() and len(part) < 10 for part in parts):
            raise _refused(name, "not a selection of layers")
        numbers = tuple(map(int, parts))
        if len(set(numbers)) < len(numbers):
            raise _refused(name, "a layer is given twice")
        if not set(numbers) <= set(available):
            raise _refused(name, f"{owner} has {layer_list(available)}")
        indices = tuple(map(available.index, numbers))
        return cls(",".join(map(str, numbers)), indices, drop_axis=drop_axis and len(numbers) == 1)

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
            return reduce(add, map(mul, self.weights, array))
        if self.is_sum:
            return array.mean(0)
        if self.drop_axis:
            return array[self.indices[0]]
        is_all = self.indices == tuple(range(len(array)))
        return array if is_all else array[list(self.indices)]


def stored_layers(embeddings: Embeddings) -> tuple[int, ...]:
    """The numbers of the layers in a file, in its order; none for top, a sum or an unknown one."""
    return tuple(layer for layer in embeddings.layers if isinstance(layer, int))


def layer_list(numbers: Sequence[int | str]) -> str:
    """Return the layers as messages list them: "layers 0, 2"."""
    return f"layer{'s' * (len(numbers) != 1)} {', '.join(map(str, numbers))}"


def _refused(name: str, what: str, hint: str = _SYNTAX) -> UsageError:
    return UsageError(f"`layers={name}`: {what}", hint)


def _mix_weights(name: str, n: int, owner: str) -> tuple[float, ...]:
    """The weights of "mix:0.2,0.3,0.5[,1.1]", multiplied by gamma if given."""
    try:
        values = [float(part) for part in name[len(_MIX) :].split(",")]
    except ValueError:
        values = [float("nan")]
    if not np.isfinite(values).all():
        raise _refused(name, "the weights are not finite numbers")
    if len(values) not in (n, n + 1):
        what = f"{plural(len(values), 'number')}; {owner} needs {plural(n, 'weight')}"
        raise _refused(name, f"{what}, optionally gamma")
    weights = tuple(value * (values[n:] or [1.0])[0] for value in values[:n])
    float32 = np.finfo(np.float32)
    if not float(float32.tiny) <= max(map(abs, weights)) <= float(float32.max):
        raise _refused(name, "all weights are 0, or one exceeds float32", "give other weights")
    return weights
