"""LayerView: one layer of an embeddings file, and checks that two files are comparable."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from elmo_cli.errors import EmbeddingsFileError, UsageError
from elmo_cli.isolate import CORRUPT_HINT
from elmo_cli.store.layers import layer_list, stored_layers
from elmo_cli.store.layouts import Key, is_number
from elmo_cli.store.reader import Embeddings

Vectors = npt.NDArray[np.float32]

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
            has = layer_list(numbers) if numbers else f"only one layer, `{embeddings.layers[0]}`"
            hint = "`layer` takes a number of a stored layer" if numbers else "leave out `layer`"
            raise UsageError(f"{self.path}: `layer={layer}`: the file has {has}", hint)
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

    def check_per_token(self, hint: str = "embed the text without pooling") -> None:
        """Raise a UsageError unless the vectors are those of tokens."""
        if not self.per_token:
            raise UsageError(f"{self.path}: has vectors of {self.unit}, not of tokens", hint)

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
    """Check that the vectors of two files can be compared, as far as the files record it.

    Returns:
        One message for each setting that differs and changes vectors slightly.
    Raises:
        EmbeddingsFileError: the models, units, pooling or dimensions differ.
    """
    ours, theirs = embeddings.attributes, reference.attributes
    models = [facts.get("model_sha256") for facts in (ours, theirs)]
    pools = {str(facts["pool"]) for facts in (ours, theirs) if "pool" in facts}
    if None not in models and models[0] != models[1]:
        raise _incomparable(embeddings, reference, "the model is", _model)
    if embeddings.unit != reference.unit or len(pools) > 1:
        raise _incomparable(embeddings, reference, "the vectors are of", _unit)
    if embeddings.dim != reference.dim and len(embeddings) and len(reference):
        raise _incomparable(
            embeddings, reference, "the vectors have dimension", lambda one: one.dim
        )
    return [
        f"{embeddings.path}: {name} is {ours.get(name, default)!r}, that of {reference.path} is "
        f"{theirs.get(name, default)!r}"
        for name, default in _SETTINGS.items()
        if None not in models or (name in ours and name in theirs)
        if ours.get(name, default) != theirs.get(name, default)
    ]


def _incomparable(
    one: Embeddings, other: Embeddings, what: str, describe: Callable[[Embeddings], object]
) -> EmbeddingsFileError:
    return EmbeddingsFileError(
        f"{one.path}: {what} {describe(one)}, for {other.path} {what} {describe(other)}",
        "embed both texts with the same model and the same options",
    )


def _model(embeddings: Embeddings) -> str:
    facts = embeddings.attributes
    return f"{facts.get('model')} (sha256 {str(facts.get('model_sha256'))[:12]})"


def _unit(embeddings: Embeddings) -> str:
    is_pooled, pool = embeddings.unit == "sentences", embeddings.attributes.get("pool")
    return f"{embeddings.unit} (pool {pool})" if is_pooled else embeddings.unit
