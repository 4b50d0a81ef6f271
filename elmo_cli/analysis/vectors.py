"""LayerView: one layer of an embeddings file, and checks that two files are comparable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from elmo_cli.arrays import Float32Array
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.layers import layer_list, stored_layers
from elmo_cli.store.layouts import Key, is_number
from elmo_cli.store.reader import Embeddings

Vectors = Float32Array

_MUST_AGREE = ("model_sha256", "unit", "pool", "dimension")
# Settings of a run that change its vectors, and their values if a file does not record them.
_SETTINGS = {"state": "zero", "state_sha256": None, "batch_size": None, "precision": "float32"}


class LayerView:
    """One layer of an open embeddings file, with one vector per token, sentence or type.

    Attributes:
        embeddings, path: the file and its name.
        layer: the number of the layer in its model, or "top", "average", "mix:…", "unknown".
        index: its index in `embeddings.layers`.
        unit: what the vectors belong to: "tokens", "sentences" or "types".
        per_token: whether `unit` is "tokens".
    """

    def __init__(self, embeddings: Embeddings, layer: int | str | None = None) -> None:
        """
        Args:
            layer: one of `embeddings.layers`; None for the highest or only layer.
        Raises:
            UsageError: the file does not contain this layer.
        """
        self.embeddings, self.path = embeddings, str(embeddings.path)
        numbers = stored_layers(embeddings)
        self.layer = max(numbers, default=embeddings.layers[0]) if layer is None else layer
        if self.layer not in embeddings.layers:
            what = f"{self.path}: `layer={layer}`: the file has {layer_list(embeddings.layers)}"
            raise UsageError(what, "choose a layer of the file, or embed the text with this layer")
        self.index = embeddings.layers.index(self.layer)
        self.unit = embeddings.unit
        self.per_token = self.unit == "tokens"
        self._has_numbers = not embeddings.is_keyed_by_name or (
            embeddings.first_sentence in embeddings and "tokens" in embeddings.records
        )

    @property
    def has_tokens(self) -> bool:
        """Whether the tokens of at least one sentence are stored."""
        return any(self.tokens(key) for key in self)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys of all sentences in file order.

        If the file is keyed by sentences, these are numbers, unless the order is unknown.
        """
        first, n = self.embeddings.first_sentence, len(self.embeddings)
        is_text = self.embeddings.is_keyed_by_name and self._has_numbers
        yield from range(first, first + n) if is_text else self.embeddings

    def find_key(self, name: str) -> Key | None:
        """Return the key that a user writes as `name`; None if there is no such sentence."""
        names: list[Key] = [name, int(name)] if is_number(name) else [name]
        if self._has_numbers:  # a number refers to the sentence listed under it
            names.reverse()
        return next((key for key in names if key in self.embeddings), None)

    def check_per_token(self) -> None:
        """Raise a UsageError unless the vectors are those of tokens."""
        if not self.per_token:
            what = f"{self.path}: has vectors of {self.unit}, not of tokens"
            raise UsageError(what, "embed the text without pooling to get vectors of tokens")

    def n_vectors(self, key: Key) -> int:
        """Return the number of vectors of a sentence.

        Raises:
            KeyError: there is no such sentence.
            EmbeddingsFileError: the shape of its array differs from those of other sentences.
        """
        file = self.embeddings
        shape = file.shape(key)
        layers = () if file.n_layers is None else (file.n_layers,)
        tokens = shape[-2:-1] if self.per_token else ()
        if shape != (*layers, *tokens, file.dim):
            raise EmbeddingsFileError(
                f"{self.path}: sentence {key!r} has shape {shape}, others have layers "
                f"{', '.join(map(str, file.layers))} and dimension {file.dim}",
                CORRUPT_HINT,
            )
        return int((1, *tokens)[-1])

    def vectors(self, key: Key) -> Vectors:
        """Return the vectors of a sentence, (token, dim) float32; (1, dim) unless `per_token`.

        Raises:
            EmbeddingsFileError: as `n_vectors`, the array cannot be read, or it has a value that is
                not finite in float32.
        """
        n = self.n_vectors(key)
        with np.errstate(over="ignore"):
            vectors = self.embeddings.layer(key, self.index).astype(np.float32, copy=False)
        if not np.isfinite(vectors).all():
            raise EmbeddingsFileError(
                f"{self.path}: sentence {key!r}: a value in layer {self.layer} is not finite",
                f"`elmo inspect {self.path}` finds all such values; embed the text again",
            )
        return vectors.reshape(n, self.embeddings.dim)

    def vector(self, key: Key, position: int | None) -> Vectors:
        """Return one vector of a sentence, (dim,); the only one if `position` is None."""
        vector: Vectors = self.vectors(key)[position or 0]
        return vector

    def tokens(self, key: Key) -> tuple[str, ...] | None:
        """Return the tokens of a sentence; None if they are not stored."""
        tokens = self.embeddings.tokens(key)
        if tokens and self.per_token and len(tokens) != self.embeddings.shape(key)[-2]:
            return None  # in files of other programs the key is a line, and tokens contain spaces
        return tokens


def check_comparable(embeddings: Embeddings, reference: Embeddings) -> list[str]:
    """Check that the vectors of two files can be compared, as far as both record their settings.

    Returns:
        One message for each setting that differs and changes vectors slightly.
    Raises:
        EmbeddingsFileError: the models, units, pooling or dimensions differ.
    """
    files = (embeddings, reference)
    defaults = _SETTINGS if all("model_sha256" in one.attributes for one in files) else {}
    ours, theirs = ({**defaults, **_recorded(one)} for one in files)
    different = {
        name: f"{embeddings.path}: {name} is {ours[name]!r}, that of {reference.path} is "
        f"{theirs[name]!r}"
        for name in (*_MUST_AGREE, *_SETTINGS)
        if name in ours and name in theirs and ours[name] != theirs[name]
    }
    for name in _MUST_AGREE:
        if name in different:
            hint = "embed both texts with the same model and the same options"
            raise EmbeddingsFileError(different[name], hint)
    return list(different.values())


def _recorded(embeddings: Embeddings) -> dict[str, Any]:
    names = ("pool", *_SETTINGS)
    facts = {name: one for name, one in embeddings.attributes.items() if name in names}
    if "model_sha256" in embeddings.attributes:
        facts["model_sha256"] = str(embeddings.attributes["model_sha256"])[:12]
    if len(embeddings):  # else the dimension is unknown
        facts["dimension"] = embeddings.dim
    return {**facts, "unit": embeddings.unit}
