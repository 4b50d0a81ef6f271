"""LayerView: one layer of an embeddings file, and checks that two files are comparable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray, Float32Array, Int64Array
from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.store.half_precision import to_float32
from elmo_cli.store.layers import find_layer
from elmo_cli.store.layouts import Key, SentenceRun, is_number
from elmo_cli.store.reader import Embeddings
from elmo_cli.text.sentence import Tokens

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

    def no_tokens(self) -> UsageError:
        """The error for a file of which no token is known."""
        if any(self.n_vectors(key) for key in self):
            hint = "embed the text again with layout flat, which stores its tokens"
            return UsageError("the file does not store tokens", hint, where=self.path)
        return UsageError("the file has no tokens", "embed a text with tokens", where=self.path)

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

    def runs(self) -> Iterator[LayerRun]:
        """Iterate over all sentences in file order, in runs that are read together."""
        for run in self.embeddings.runs():
            yield LayerRun(self, run)

    def key_in_run(self, run: SentenceRun, number: int) -> Key:
        """Return the key that iteration gives for a sentence of a run."""
        if self.embeddings.is_keyed_by_name and self._has_numbers:
            return self.embeddings.first_sentence + run.begin + number
        return run.key(number)

    def n_vectors(self, key: Key) -> int:
        """Return the number of vectors of a sentence.

        Raises:
            KeyError: there is no such sentence.
            EmbeddingsFileError: the shape of its array differs from those of other sentences.
        """
        return self.checked_length(key, self.embeddings.shape(key))

    def checked_length(self, key: Key, shape: tuple[int, ...]) -> int:
        """Return the number of vectors of a sentence whose array has this shape.

        Raises:
            EmbeddingsFileError: the shape differs from those of other sentences.
        """
        file = self.embeddings
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
        vectors = to_float32(stored if rows is None else stored[rows])
        if not np.isfinite(vectors).all():
            raise self.not_finite(key)
        return vectors

    def not_finite(self, key: Key) -> EmbeddingsFileError:
        """Return the error for a sentence with a value that is not finite."""
        return EmbeddingsFileError(
            f"sentence {key!r}: a value in layer {self.layer} is not finite",
            f"`elmo inspect {self.path}` finds all such values; embed the text again",
            where=self.path,
        )

    def vector(self, key: Key, position: int | None) -> Float32Array:
        """Return one vector of a sentence, (dim,); the only one if `position` is None."""
        row = 0 if position is None else position
        vector: Float32Array = self.vectors(key)[row]
        return vector

    def tokens(self, key: Key) -> Tokens | None:
        """Return the tokens of a sentence; None if they are not stored."""
        tokens = self.embeddings.tokens(key)
        if tokens and self.per_token:
            return self.fitting_tokens(tokens, self.embeddings.shape(key)[-2])
        return tokens

    def fitting_tokens(self, tokens: Tokens | None, n_vectors: int) -> Tokens | None:
        """Return the tokens that the file records for a sentence; None if they do not fit it.

        In files of other programs, the key is a line, whose parts between spaces are the recorded
        tokens. They are not those of the sentence if its tokens contain spaces.
        """
        if tokens and self.per_token and len(tokens) != n_vectors:
            return None
        return tokens


class LayerRun:
    """Consecutive sentences of a view; a number counts them from the first one of the run.

    Attributes:
        keys: as iteration over the view gives them.
    """

    def __init__(self, view: LayerView, run: SentenceRun) -> None:
        self._view = view
        self._run = run
        self._layer = None if view.embeddings.n_layers is None else view.index
        self.keys: list[Key] = [view.key_in_run(run, number) for number in range(len(run))]

    def __len__(self) -> int:
        return len(self.keys)

    def read_tokens(self) -> None:
        """Read the tokens of all sentences together, which is faster if all are needed."""
        self._run.read_infos()

    def n_vectors(self, number: int) -> int:
        """Return the number of vectors of a sentence; errors as those of `LayerView.n_vectors`."""
        return self._view.checked_length(self.keys[number], self._run.shape(number))

    def recorded_tokens(self, number: int) -> Tokens | None:
        """Return the tokens that are recorded for a sentence, however many vectors it has."""
        return self._run.info(number).tokens

    def tokens(self, number: int) -> Tokens | None:
        """Return the tokens of a sentence, as `LayerView.tokens` does."""
        tokens = self.recorded_tokens(number)
        if tokens and self._view.per_token:
            return self._view.fitting_tokens(tokens, self._run.shape(number)[-2])
        return tokens

    def stored_vectors(self, number: int) -> AnyArray:
        """Return the vectors of a sentence in the stored dtype or float32, (token, dim).

        They may be a read-only view of the file.
        """
        n_vectors = self.n_vectors(number)
        array = self._view.embeddings.array_of(*self._run.stored(number, self._layer))
        return array.reshape(n_vectors, self._view.embeddings.dim)

    def all_vectors(self) -> tuple[AnyArray, Int64Array] | None:
        """Return the vectors of all sentences as one array, and where each sentence ends there.

        Returns:
            (vector, dim) in the stored dtype, a view of the file, and (sentence,); None if they
            are not stored in this way.
        """
        return self._run.rows(self._layer)


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
