"""ChosenLayers: which layers of an embeddings file go over into another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elmo_cli.errors import UsageError
from elmo_cli.store.datasets import Array
from elmo_cli.store.layer_choice import MIX, layer_numbers, mix_weights
from elmo_cli.store.reader import Embeddings


@dataclass(frozen=True)
class ChosenLayers:
    """What of each array goes over.

    Attributes:
        name: what the new file says of its layers; None for what the old one says.
        places: of the layers that stay side by side, in the axis of layers; empty for all as they
            are, or for a sum.
        weights: of the layers in a sum; empty for none.
        is_mean: whether the sum is the plain mean.
        is_bare: whether a single layer loses its axis.
    """

    name: str | None = None
    places: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    is_mean: bool = False
    is_bare: bool = False

    @property
    def is_sum(self) -> bool:
        """Whether values are computed, and not only taken over."""
        return self.is_mean or bool(self.weights)

    @property
    def are_all(self) -> bool:
        """Whether arrays go over as they are."""
        return not self.places and not self.is_sum

    def of(self, array: Array) -> Array:
        """The array that goes over: (layer, …) -> (layer, …), or (…) without the axis; the sum with
        weights in float64."""
        if self.is_mean:
            mean: Array = array.mean(axis=0, dtype=np.float32)
            return mean
        if self.weights:
            total = np.zeros(
                array.shape[1:]
            )  # in float64, for the writer to tell what is too large
            for weight, layer in zip(self.weights, array, strict=True):
                total += weight * layer.astype(np.float64)
            return total
        if self.are_all:
            return array
        return array[self.places[0]] if self.is_bare else array[list(self.places)]


def chosen_layers(embeddings: Embeddings, layers: str | None, layout: str) -> ChosenLayers:
    """What of each array goes over into a file of another layout or of fewer layers.

    Args:
        layers: "all", "top", "average", "mix:…" or numbers of layers; None for all of them.
        layout: of the new file.
    Raises:
        UsageError: the file lacks them, or the layout has no place for all.
    """
    name, n_layers, path = "".join((layers or "all").split()), embeddings.n_layers, embeddings.path
    is_single = layout == "manylangs"
    if name == "all":
        if is_single and n_layers is not None and n_layers > 1:
            raise UsageError(
                f"{path}: manylangs holds one layer a file, this one has {n_layers}",
                "`--layers top`, `--layers average`, a mix or a number",
            )
        return ChosenLayers(places=(0,), is_bare=True) if is_single and n_layers else ChosenLayers()
    if n_layers is None:
        raise UsageError(f"{path}: --layers {name}: it has but one layer", "leave out `--layers`")
    held = _held_layers(embeddings, n_layers)
    is_whole = held is None
    if is_whole and name == "top":
        return ChosenLayers(name, places=(n_layers - 1,), is_bare=True)
    if is_whole and embeddings.attributes.get("pool") != "max":  # which is no sum's
        if name == "average":
            return ChosenLayers(name, is_mean=True)
        if name.startswith(MIX):
            return ChosenLayers(name, weights=mix_weights(name, n_layers, "the file", f"{path}: "))
    numbers = list(range(n_layers)) if held is None else held
    wanted = layer_numbers(name, f"{path}: ") if name.replace(",", "").isdecimal() else ()
    if not wanted or not set(wanted) <= set(numbers):
        raise UsageError(
            f"{path}: --layers {name}: it has layers {', '.join(map(str, numbers))}",
            "`--layers` takes some of them" + (", top, average or a mix" if is_whole else ""),
        )
    if is_single and len(wanted) > 1:
        raise UsageError(
            f"{path}: --layers {name}: manylangs holds one layer a file", "choose one of them"
        )
    places = tuple(numbers.index(number) for number in wanted)
    return ChosenLayers(",".join(map(str, wanted)), places=places, is_bare=is_single)


def _held_layers(embeddings: Embeddings, n_layers: int) -> list[int] | None:
    """The numbers of the layers that a file holds of its model's; None for all of them."""
    layers = str(embeddings.attributes.get("layers", "all"))
    numbers = [int(part) for part in layers.split(",") if part.strip().isdecimal()]
    return numbers if len(numbers) == n_layers else None
