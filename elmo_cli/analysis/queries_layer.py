"""queries_layer: the layer of another embeddings file that can be compared with one of this."""

from __future__ import annotations

from elmo_cli.analysis.form import UNKNOWN
from elmo_cli.analysis.stored_layer import StoredLayer
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.layers import stored_layers
from elmo_cli.store.reader import Embeddings

# Of these a vector depends a little; where a file says nothing the value is as here.
_DEPENDS_ON = {"state": "zero", "precision": "float32"}


def queries_layer(layer: StoredLayer, queries: Embeddings) -> tuple[StoredLayer, list[str]]:
    """The layer of `queries` that `layer` is of another file, as far as the files tell.

    Returns:
        the layer, and warnings: settings that make vectors differ a little.
    Raises:
        EmbeddingsFileError: the files are of different models, layers or kinds of vectors.
    """
    of, by = layer.embeddings, queries
    ours, theirs = of.attributes, by.attributes
    if not len(queries):
        raise EmbeddingsFileError(f"{by.path}: holds no sentences", "embed a text with queries")
    models = [facts.get("model_sha256") for facts in (theirs, ours)]
    if None not in models and models[0] != models[1]:
        raise EmbeddingsFileError(
            f"{by.path}: made with {_model(by)}, {of.path} with {_model(of)}",
            "vectors of two models can't be compared: embed both texts with one",
        )
    found = StoredLayer(by, _number(layer, by))
    if _kind(found) != _kind(layer):
        raise EmbeddingsFileError(
            f"{by.path}: holds vectors of {_kind(found)}, {of.path} of {_kind(layer)}",
            "embed the queries with the options of the other file",
        )
    if len(of) and by.dim != of.dim:
        raise EmbeddingsFileError(
            f"{by.path}: vectors of {by.dim} numbers, {of.path} has {of.dim}",
            "vectors of two models can't be compared: embed both texts with one",
        )
    differ = [name for name, value in _DEPENDS_ON.items()
              if theirs.get(name, value) != ours.get(name, value)]  # fmt: skip
    return found, [
        f"{by.path}: {name} is {theirs.get(name, _DEPENDS_ON[name])}, that of {of.path} "
        f"{ours.get(name, _DEPENDS_ON[name])}: their vectors are not quite alike"
        for name in differ
    ]


def _number(layer: StoredLayer, queries: Embeddings) -> int | None:
    """The number of the layer in the file of the queries; None for its highest, or only one."""
    held, chosen = stored_layers(queries), str(queries.attributes.get("layers", "all"))
    all_of_ours = str(layer.embeddings.attributes.get("layers", "all")) == "all"
    is_highest = layer.name == "top" or (
        all_of_ours and layer.number == max(stored_layers(layer.embeddings), default=None)
    )
    if layer.number in held:
        return layer.number
    if is_highest and ((held and chosen == "all") or (not held and chosen == "top")):
        return None
    if layer.number is None and not held and StoredLayer(queries).name == layer.name:
        return None
    if layer.name == UNKNOWN:
        hint = "`elmo embed` makes files that tell their layers"
    else:
        hint = f"embed the queries with `--layers {layer.name}`"
    raise EmbeddingsFileError(
        f"{queries.path}: holds --layers {chosen}, of {layer.path} the layer {layer.name} is asked",
        hint,
    )


def _model(embeddings: Embeddings) -> str:
    facts = embeddings.attributes
    return f"{facts.get('model')} (sha256 {str(facts.get('model_sha256'))[:12]}…)"


def _kind(layer: StoredLayer) -> str:
    pool = layer.embeddings.attributes.get("pool") if layer.what == "sentences" else None
    return layer.what if pool is None else f"{layer.what} (--pool {pool})"
