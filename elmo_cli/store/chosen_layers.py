"""ChosenLayers: which layers of an embeddings file go over into another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.store.damage import DAMAGED
from elmo_cli.store.datasets import Array
from elmo_cli.store.held_layers import told_layers
from elmo_cli.store.layer_choice import MIX, layer_numbers, mix_weights
from elmo_cli.store.reader import Embeddings

_MOST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ChosenLayers:
    """What of each array goes over.

    Attributes:
        name: what the new file says of its layers; None for what the old one says.
        n_layers: of each array.
        places: of the layers that stay side by side, in the axis of layers; empty for a sum.
        weights: of the layers in a sum; empty for their mean.
        is_bare: whether a single layer loses its axis.
    """

    name: str | None
    n_layers: int
    places: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    is_bare: bool = False

    @property
    def is_sum(self) -> bool:
        """Whether values are computed, and not only taken over."""
        return not self.places

    def of(self, array: Array, n_axes: int, where: str) -> Array:
        """The array that goes over: (layer, …) -> (layer, …), or (…) without the axis.

        Args:
            n_axes: that the array should have.
            where: of its sentence, for messages.
        Raises:
            EmbeddingsFileError: the array has other axes, or other layers than those of the file.
            UsageError: the sum is beyond float32.
        """
        if array.ndim != n_axes or len(array) != self.n_layers:
            raise EmbeddingsFileError(
                f"{where}: shape {array.shape}, others have {self.n_layers} layers", DAMAGED
            )
        if self.weights:
            return self._mixed(array, where)
        if self.is_sum:
            return self._mean(array, where)
        return array[self.places[0]] if self.is_bare else array[list(self.places)]

    def _mixed(self, array: Array, where: str) -> Array:
        total = np.zeros(array.shape[1:])  # float64, or what is too large would become infinite
        with np.errstate(invalid="ignore"):  # of values that were no numbers before
            for weight, layer in zip(self.weights, array, strict=True):
                total += weight * layer.astype(np.float64)
        if (np.isfinite(total) & (np.abs(total) > _MOST)).any():
            raise self._beyond(where, "give smaller weights, or a smaller gamma")
        return total.astype(np.float32)

    def _mean(self, array: Array, where: str) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            mean: Array = array.mean(axis=0, dtype=np.float32)
        if (~np.isfinite(mean) & np.isfinite(array).all(axis=0)).any():
            raise self._beyond(where, "a mix takes weights: equal ones that are small enough")
        return mean

    def _beyond(self, where: str, hint: str) -> UsageError:
        return UsageError(f"{where}: --layers {self.name}: a value is beyond float32", hint)


def chosen_layers(embeddings: Embeddings, layers: str | None, layout: str) -> ChosenLayers | None:
    """What of each array goes over into a file of another layout or of fewer layers.

    Args:
        layers: "all", "top", "average", "mix:…" or numbers of layers; None for all of them.
        layout: of the new file.
    Returns:
        None where arrays go over as they are.
    Raises:
        UsageError: the file lacks them, or the layout has no place for all.
    """
    name = "all" if layers is None else "".join(layers.split())
    path, n_layers, is_single = embeddings.path, embeddings.n_layers, layout == "manylangs"
    if not len(embeddings) and name != "all":
        # What the other shards of the run say has to be said here too.
        is_sum = name == "average" or name.startswith(MIX)
        return ChosenLayers(_checked(name, path, is_single), 0, () if is_sum else (0,))
    if name == "all":
        if not is_single or n_layers is None:
            return None
        if n_layers == 1:
            return ChosenLayers(None, n_layers, places=(0,), is_bare=True)
        raise UsageError(
            f"{path}: manylangs holds one layer a file, this one has {n_layers}",
            "`--layers top`, `--layers average`, a mix or a number",
        )
    if n_layers is None:
        raise UsageError(f"{path}: --layers {name}: it has but one layer", "leave out `--layers`")
    told = told_layers(embeddings)
    if name in ("top", "average") or name.startswith(MIX):
        return _of_all(embeddings, name, n_layers, told)
    numbers = told or tuple(range(n_layers))
    wanted = layer_numbers(name, f"{path}: ") if name.replace(",", "").isdecimal() else ()
    if not wanted or not set(wanted) <= set(numbers):
        raise UsageError(
            f"{path}: --layers {name}: {_has(numbers)}",
            "`--layers` takes some of them" + ("" if told else ", top, average or a mix"),
        )
    if is_single and len(wanted) > 1:
        raise _one_a_file(path, name)
    places = tuple(numbers.index(number) for number in wanted)
    return ChosenLayers(",".join(map(str, wanted)), n_layers, places, is_bare=is_single)


def _of_all(
    embeddings: Embeddings, name: str, n_layers: int, told: tuple[int, ...]
) -> ChosenLayers:
    """One vector of all layers of the model: the top one, their mean, or a mix."""
    if told:
        raise UsageError(
            f"{embeddings.path}: --layers {name}: {_has(told)}, chosen from those of its model",
            f"{name.partition(':')[0]} is one of all layers; here `--layers` takes some of these",
        )
    if name == "top":
        return ChosenLayers(name, n_layers, places=(n_layers - 1,), is_bare=True)
    if embeddings.attributes.get("pool") == "max":
        raise UsageError(
            f"{embeddings.path}: --layers {name}: its vectors are maxima over sentences, of which "
            "no sum of layers can be made",
            f"`elmo embed --pool max --layers {name}` makes it from the text",
        )
    is_mix = name.startswith(MIX)
    where = f"{embeddings.path}: "
    weights = mix_weights(name, n_layers, "the file", where) if is_mix else ()
    return ChosenLayers(name, n_layers, weights=weights)


def _checked(name: str, path: Path, is_single: bool) -> str:
    """The choice, where there is no array to look at.

    Raises:
        UsageError: it is none, or not one of a single layer.
    """
    if name.startswith(MIX):
        mix_weights(name, name.count(",") + 1, "the file", f"{path}: ")
    if name in ("top", "average") or name.startswith(MIX):
        return name
    numbers = layer_numbers(name, f"{path}: ")
    if is_single and len(numbers) > 1:
        raise _one_a_file(path, name)
    return ",".join(map(str, numbers))


def _one_a_file(path: Path, name: str) -> UsageError:
    return UsageError(
        f"{path}: --layers {name}: manylangs holds one layer a file", "choose one of them"
    )


def _has(numbers: tuple[int, ...]) -> str:
    return f"it has layer{'s' * (len(numbers) > 1)} {', '.join(map(str, numbers))}"
