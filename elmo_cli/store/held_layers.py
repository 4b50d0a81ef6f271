"""held_layers: which layers of its model an embeddings file holds."""

from __future__ import annotations

from elmo_cli.store.layer_choice import MOST_DIGITS
from elmo_cli.store.reader import Embeddings


def told_layers(embeddings: Embeddings) -> tuple[int, ...]:
    """The numbers of the layers that a file says it holds, in its order, 0 the token layer.

    Empty where it says no numbers ("all", "top", a mix, nothing), or not as many as it has layers.
    """
    parts = [part.strip() for part in _chosen(embeddings).split(",")]
    if len(parts) != (embeddings.n_layers or 1):
        return ()
    are_numbers = all(part.isdecimal() and len(part) <= MOST_DIGITS for part in parts)
    return tuple(map(int, parts)) if are_numbers else ()


def held_layers(embeddings: Embeddings) -> tuple[int, ...]:
    """The numbers of the layers that a file holds, told or presumed, in its order.

    Empty where each vector is of one layer without a number: the top one, an average, a mix, or one
    of which a file of another program says nothing.
    """
    told, n_layers = told_layers(embeddings), embeddings.n_layers
    # What is no choice of ours is a word of another program, which tells nothing.
    has_all = n_layers is not None and (n_layers > 1 or _chosen(embeddings) == "all")
    return told or (tuple(range(n_layers or 0)) if has_all else ())


def _chosen(embeddings: Embeddings) -> str:
    return str(embeddings.attributes.get("layers", "all")).strip()
