"""held_layers: which layers of its model an embeddings file holds."""

from __future__ import annotations

from elmo_cli.store.reader import Embeddings


def held_layers(embeddings: Embeddings) -> tuple[int, ...]:
    """The numbers of the layers that a file holds, in its order, 0 the token layer.

    Empty where each vector is of one layer without a number: the top one, an average, a mix, or one
    of which a file of another program says nothing.
    """
    chosen = str(embeddings.attributes.get("layers", "all")).strip()
    n_layers = embeddings.n_layers
    parts = [part.strip() for part in chosen.split(",")]
    if all(part.isdecimal() for part in parts) and len(parts) == (n_layers or 1):
        return tuple(int(part) for part in parts)
    # What is no choice of ours is a word of another program, which tells nothing.
    has_all = n_layers is not None and (n_layers > 1 or chosen == "all")
    return tuple(range(n_layers or 0)) if has_all else ()
