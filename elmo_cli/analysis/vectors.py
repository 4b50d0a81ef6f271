"""LayerView: one layer of an embeddings file, and checks that two files are comparable."""

from __future__ import annotations

from collections.abc import Iterator

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
        embeddings: the file.
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
        highest = max(stored_layers(embeddings), default=embeddings.layers[0])
        self.layer = highest if layer is None else layer
        if self.layer not in embeddings.layers:
            raise no_layer(embeddings, self.layer)
        self.index = embeddings.layers.index(self.layer)
        self.unit = embeddings.unit
        self.per_token = self.unit == "tokens"
        self._has_numbers = not embeddings.is_keyed_by_name or (
            "tokens" in embeddings.records and embeddings.first_sentence in embeddings
        )

    @property
    def path(self) -> str:
        """The name of the file."""
        return str(self.embeddings.path)

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

    def vectors(self, key: Key) -> Vectors:
        """Return the vectors of a sentence, (token, dim) float32; (1, dim) unless `per_token`.

        Raises:
            EmbeddingsFileError: the array cannot be read, or a value is not finite.
        """
        return read_vectors(self.embeddings, key, self.index)

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


def no_layer(embeddings: Embeddings, layer: int | str) -> UsageError:
    """Return the error for a layer that a file does not contain."""
    numbers = stored_layers(embeddings)
    has = layer_list(numbers) if numbers else f"only one layer, `{embeddings.layers[0]}`"
    hint = "`layer` takes a number of a stored layer" if numbers else "leave out `layer`"
    return UsageError(f"{embeddings.path}: `layer={layer}`: the file has {has}", hint)


def n_vectors(embeddings: Embeddings, key: Key) -> int:
    """Return the number of vectors of a sentence in each layer.

    Raises:
        KeyError: there is no such sentence.
        EmbeddingsFileError: the shape of its array differs from those of other sentences.
    """
    shape = embeddings.shape(key)
    layers = () if embeddings.n_layers is None else (embeddings.n_layers,)
    tokens = shape[-2:-1] if embeddings.unit == "tokens" else ()
    if shape != (*layers, *tokens, embeddings.dim):
        raise EmbeddingsFileError(
            f"{embeddings.path}: sentence {key!r} has shape {shape}, others have layers "
            f"{', '.join(map(str, embeddings.layers))} and dimension {embeddings.dim}",
            CORRUPT_HINT,
        )
    return int((1, *tokens)[-1])


def read_vectors(embeddings: Embeddings, key: Key, index: int) -> Vectors:
    """Read the vectors of a sentence in one layer, (vector, dim) float32.

    Args:
        index: of the layer in `embeddings.layers`.
    Raises:
        EmbeddingsFileError: the array has another shape than those of other sentences, cannot be
            read, or has a value that is not finite in float32.
    """
    n = n_vectors(embeddings, key)
    with np.errstate(over="ignore"):
        vectors: Vectors = embeddings.layer(key, index).astype(np.float32, copy=False)
    is_finite = np.isfinite(vectors)
    if not is_finite.all():
        position = int(is_finite.all(-1).argmin())
        where = f"sentence {key!r}"
        if embeddings.unit == "tokens":
            tokens = embeddings.tokens(key)
            word = f" (`{tokens[position]}`)" if tokens and len(tokens) == n else ""
            where = f"{where}, token {position}{word}"
        raise EmbeddingsFileError(
            f"{embeddings.path}: {where}: a value in layer "
            f"{embeddings.layers[index]} is not finite",
            f"`elmo inspect {embeddings.path}` finds all such values; embed the text again",
        )
    return vectors.reshape(n, embeddings.dim)


def check_comparable(embeddings: Embeddings, reference: Embeddings) -> list[str]:
    """Check that the vectors of two files can be compared, as far as the files record it.

    Returns:
        One message for each setting that differs and changes vectors slightly.
    Raises:
        EmbeddingsFileError: the models, units, pooling or dimensions differ.
    """
    ours, theirs = embeddings.attributes, reference.attributes
    models = [(facts.get("model_sha256"), _model(facts)) for facts in (ours, theirs)]
    are_both_known = None not in (models[0][0], models[1][0])
    if are_both_known and models[0][0] != models[1][0]:
        raise _incomparable(embeddings, reference, *(f"the model is {name}" for _, name in models))
    pools = {str(facts["pool"]) for facts in (ours, theirs) if "pool" in facts}
    if embeddings.unit != reference.unit or len(pools) > 1:
        units = (f"the vectors are of {_unit(one)}" for one in (embeddings, reference))
        raise _incomparable(embeddings, reference, *units)
    if embeddings.dim != reference.dim and len(embeddings) and len(reference):
        dims = (f"the vectors have dimension {one.dim}" for one in (embeddings, reference))
        raise _incomparable(embeddings, reference, *dims)
    return [
        f"{embeddings.path}: {name} is {ours.get(name, default)!r}, that of {reference.path} is "
        f"{theirs.get(name, default)!r}"
        for name, default in _SETTINGS.items()
        if are_both_known or (name in ours and name in theirs)
        if ours.get(name, default) != theirs.get(name, default)
    ]


def same_layer(view: LayerView, embeddings: Embeddings) -> LayerView:
    """Return the view of the same layer in another file.

    "top" matches the highest layer of a file that contains all layers.

    Raises:
        EmbeddingsFileError: the other file does not contain this layer, as far as is recorded.
    """
    wanted = _names(view.embeddings, view.layer)
    for layer in embeddings.layers:
        if wanted & _names(embeddings, layer):
            return LayerView(embeddings, layer)
    layers = ", ".join(map(str, embeddings.layers))
    raise EmbeddingsFileError(
        f"{embeddings.path}: contains layer {layers}, but layer {view.layer} of {view.path} "
        "is needed",
        f"embed this text with layer {view.layer} too",
    )


def _names(embeddings: Embeddings, layer: int | str) -> set[str]:
    """Return the names of a layer."""
    contains_all = str(embeddings.attributes.get("layers", "all")) == "all"
    is_top = contains_all and isinstance(layer, int) and layer == embeddings.layers[-1]
    return {str(layer), "top"} if is_top else {str(layer)}


def _model(facts: dict[str, object]) -> str:
    return f"{facts.get('model')} (sha256 {str(facts.get('model_sha256'))[:12]})"


def _unit(embeddings: Embeddings) -> str:
    is_pooled, pool = embeddings.unit == "sentences", embeddings.attributes.get("pool")
    return f"{embeddings.unit} (pool {pool})" if is_pooled else embeddings.unit


def _incomparable(
    embeddings: Embeddings, reference: Embeddings, ours: str, theirs: str
) -> EmbeddingsFileError:
    return EmbeddingsFileError(
        f"{embeddings.path}: {ours}, for {reference.path} {theirs}",
        "embed both texts with the same model and the same options",
    )
