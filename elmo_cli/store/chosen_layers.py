"""chosen_layers: which layers of an embeddings file go over into another."""

from __future__ import annotations

from elmo_cli.errors import UsageError
from elmo_cli.store.reader import Embeddings


def chosen_layers(
    embeddings: Embeddings, layers: str | None, layout: str
) -> int | slice | str | None:
    """What of each array goes over into a file of another layout or of fewer layers.

    Args:
        layers: "top", "average" or the number of a layer; None for all of them.
        layout: of the new file.
    Returns:
        The place of a layer, with its axis where it is a slice; None for all layers, "average" for
        their mean.
    Raises:
        UsageError: the file lacks them, or the layout has no place for all.
    """
    n_layers = embeddings.n_layers
    if layers is None:
        if layout != "manylangs" or n_layers is None:
            return None
        if n_layers == 1:
            return 0
        raise UsageError(
            f"{embeddings.path}: manylangs holds one layer a file, this one has {n_layers}",
            "`--layers top`, `--layers average` or a number",
        )
    if n_layers is None:
        raise UsageError(
            f"{embeddings.path}: --layers {layers}: it has but one layer", "leave out `--layers`"
        )
    held = _held_layers(embeddings, n_layers)
    if layers == "top" and held is None:
        return n_layers - 1
    if layers == "average" and held is None and embeddings.attributes.get("pool") != "max":
        return layers
    numbers = list(range(n_layers)) if held is None else held
    if not layers.isdecimal() or int(layers) not in numbers:
        raise UsageError(
            f"{embeddings.path}: --layers {layers}: it has layers {', '.join(map(str, numbers))}",
            "`--layers` takes one of them" + ("" if held else ", or top, or average"),
        )
    place = numbers.index(int(layers))
    return place if layout == "manylangs" else slice(place, place + 1)


def _held_layers(embeddings: Embeddings, n_layers: int) -> list[int] | None:
    """The numbers of the layers that a file holds of its model's; None for all of them."""
    layers = str(embeddings.attributes.get("layers", "all"))
    numbers = [int(part) for part in layers.split(",") if part.strip().isdecimal()]
    return numbers if len(numbers) == n_layers else None
