"""LayerView: one layer of an embeddings file, and checks that two files are comparable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from elmo_cli.arrays import Float32Array, Int64Array
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.layers import find_layer
from elmo_cli.store.layouts import Key, is_number
from elmo_cli.store.reader import Embeddings

_MUST_AGREE = ("model_sha256", "unit", "pool", "dimension")
# Settings of a run that change its vectors, and their values if a file does not record them.
_SETTINGS = {
    "state": "zero",
    "state_sha256": None,
    "batch_size": None,
    "precision": "float32",
}


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
        self.embeddings = embeddings
        self.path = str(embeddings.path)
        self.layer = find_layer(embeddings, layer)
        self.index = embeddings.layers.index(self.layer)
        self.unit = embeddings.unit
        self.per_token = self.unit == "tokens"
        # Whether a number is the key of a sentence, also where its name is one.
        self._has_numbers = True
        if embeddings.is_keyed_by_name:
            is_listed = embeddings.first_sentence in embeddings
            self._has_numbers = is_listed and "tokens" in embeddings.records

    @property
    def has_tokens(self) -> bool:
        """Whether the tokens of at least one sentence are stored."""
        return any(self.tokens(key) for key in self)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over the keys of all sentences in file order.

        If the file is keyed by sentences, these are numbers, unless the order is unknown.
        """
        if self.embeddings.is_keyed_by_name and self._has_numbers:
            first = self.embeddings.first_sentence
            yield from range(first, first + len(self.embeddings))
        else:
            yield from self.embeddings

    def find_key(self, name: str) -> Key | None:
        """Return the key that a user writes as `name`; None if there is no such sentence."""
        candidates: list[Key]
        if not is_number(name):
            candidates = [name]
        elif self._has_numbers:  # a number refers to the sentence listed under it
            candidates = [int(name), name]
        else:
            candidates = [name, int(name)]
        for key in candidates:
            if key in self.embeddings:
                return key
        return None

    def check_per_token(self) -> None:
        """Raise a UsageError unless the vectors are those of tokens."""
        if not self.per_token:
            problem = f"has vectors of {self.unit}, not of tokens"
            hint = "embed the text without pooling to get vectors of tokens"
            raise UsageError(problem, hint, where=self.path)

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
            names = ", ".join(map(str, file.layers))
            raise EmbeddingsFileError(
                f"sentence {key!r} has shape {shape}, others have layers {names} and dimension "
                f"{file.dim}",
                CORRUPT_HINT,
                where=self.path,
            )
        return int(tokens[0]) if tokens else 1

    def vectors(self, key: Key, rows: Int64Array | None = None) -> Float32Array:
        """Return the vectors of a sentence, (token, dim) float32; (1, dim) unless `per_token`.

        Args:
            rows: the vectors to return, (row,), so that the others are neither converted nor
                checked; None for all.
        Raises:
            EmbeddingsFileError: as `n_vectors`, the array cannot be read, or it has a value that is
                not finite in float32.
        """
        n = self.n_vectors(key)
        stored = self.embeddings.layer(key, self.index).reshape(n, self.embeddings.dim)
        selected = stored if rows is None else stored[rows]
        with np.errstate(over="ignore"):
            vectors: Float32Array = selected.astype(np.float32, copy=False)
        if not np.isfinite(vectors).all():
            raise EmbeddingsFileError(
                f"sentence {key!r}: a value in layer {self.layer} is not finite",
                f"`elmo inspect {self.path}` finds all such values; embed the text again",
                where=self.path,
            )
        return vectors

    def vector(self, key: Key, position: int | None) -> Float32Array:
        """Return one vector of a sentence, (dim,); the only one if `position` is None."""
        row = 0 if position is None else position
        vector: Float32Array = self.vectors(key)[row]
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
        For each setting that differs and changes vectors slightly, what is wrong with `embeddings`,
        without its name.
    Raises:
        EmbeddingsFileError: the models, units, pooling or dimensions differ.
    """
    ours = _recorded(embeddings)
    theirs = _recorded(reference)
    if "model_sha256" in ours and "model_sha256" in theirs:  # both are files of elmo
        ours = {**_SETTINGS, **ours}
        theirs = {**_SETTINGS, **theirs}
    differences = []
    for name in (*_MUST_AGREE, *_SETTINGS):
        if name not in ours or name not in theirs or ours[name] == theirs[name]:
            continue
        problem = f"{name} is {ours[name]!r}, that of {reference.path} is {theirs[name]!r}"
        if name in _MUST_AGREE:
            hint = "embed both texts with the same model and the same options"
            raise EmbeddingsFileError(problem, hint, where=embeddings.path)
        differences.append(problem)
    return differences


def _recorded(embeddings: Embeddings) -> dict[str, Any]:
    """Return the settings that a file records and that decide whether it is comparable."""
    recorded: dict[str, Any] = {"unit": embeddings.unit}
    for name in ("pool", *_SETTINGS):
        if name in embeddings.attributes:
            recorded[name] = embeddings.attributes[name]
    if "model_sha256" in embeddings.attributes:
        recorded["model_sha256"] = str(embeddings.attributes["model_sha256"])[:12]
    if len(embeddings):  # else the dimension is unknown
        recorded["dimension"] = embeddings.dim
    return recorded
