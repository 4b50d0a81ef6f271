"""Form: what all vectors of an embeddings file have in common."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layouts import Key
from elmo_cli.store.reader import Embeddings

UNKNOWN = "unknown"  # a layer of which nobody says which

# Settings of a run that decide about its vectors.
SETTINGS = (
    *("model_sha256", "state", "state_sha256", "batch_size"),
    *("pool", "precision"),
)


@dataclass(frozen=True)
class Form:
    """What all vectors of an embeddings file have in common.

    Attributes:
        layers: what its layers are called: numbers, or "top", "average", "mix:…", "unknown".
        dim: of a vector.
        tells_layers: whether the file says which layers it has, and they are not presumed.
        has_layers: whether arrays have an axis of layers.
        by_sentence: whether a sentence has one vector, and not one for each token; a type too.
        model: what the file calls the model.
        settings: those of `SETTINGS` that the file tells.
        text_sha256: of the text that it was made from; None where it doesn't tell.
    """

    layers: tuple[str, ...]
    tells_layers: bool
    dim: int
    has_layers: bool
    by_sentence: bool
    model: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    text_sha256: object = None

    @classmethod
    def of(cls, embeddings: Embeddings) -> Form:
        """The form of an open file; of a file without sentences `dim` is 0.

        Raises:
            EmbeddingsFileError: the file is damaged.
        """
        shape, _ = embeddings.reader.example() or ((), None)
        by_sentence = embeddings.reader.pooled or len(shape) == 1
        has_layers = len(shape) == (2 if by_sentence else 3)
        facts = embeddings.attributes
        return cls(
            layers=tuple(map(str, embeddings.layers)),
            tells_layers=facts.get("layers") is not None,
            dim=(0, *shape)[-1],
            has_layers=has_layers,
            by_sentence=by_sentence,
            model=None if facts.get("model") is None else str(facts["model"]),
            settings={name: facts[name] for name in SETTINGS if facts.get(name) is not None},
            text_sha256=facts.get("text_sha256"),
        )

    def place(self, layer: str) -> int:
        """Where a layer stands in each array; what a file with one layer calls it decides nothing.

        Raises:
            ValueError: it is not there.
        """
        return self.layers.index(layer) if len(self.layers) > 1 else 0

    def n_vectors(self, shape: Sequence[int]) -> int | None:
        """Vectors of each layer in an array of that shape; None if it is not like the others."""
        layers = (len(self.layers),) if self.has_layers else ()
        tokens = () if self.by_sentence else tuple(shape[-2:-1])
        if len(shape) != len(layers) + (1 if self.by_sentence else 2):
            return None
        return (1, *tokens)[-1] if tuple(shape) == (*layers, *tokens, self.dim) else None

    def rows(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The array of a sentence as (layer, vector, dim)."""
        return array.reshape(len(self.layers), -1, self.dim)


def unlike(
    path: str | os.PathLike[str], key: Key, shape: Sequence[int], form: Form
) -> EmbeddingsFileError:
    """The error for a sentence whose array is not like the others."""
    layers = f"layers {', '.join(form.layers)}, " if form.has_layers else ""
    return EmbeddingsFileError(
        f"{os.fspath(path)}: sentence {key!r} has shape {tuple(shape)}, others have {layers}dim "
        f"{form.dim}",
        CORRUPT_HINT,
    )
