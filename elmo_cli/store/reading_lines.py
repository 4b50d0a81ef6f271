"""reading_lines: the lines of Python that read a file, for its very layout and keys."""

from __future__ import annotations

import os
from pathlib import Path

from elmo_cli.store.damage import damage_as_error
from elmo_cli.store.datasets import NamedSentences, NumberedSentences
from elmo_cli.store.int8 import INT8
from elmo_cli.store.naming import Key
from elmo_cli.store.reader import Embeddings
from elmo_cli.store.recognise import open_hdf5
from elmo_cli.store.schema import MAP
from elmo_cli.weightfile.describe import kind_of_weights

_AXES = {
    "e2e-coref": ("token", "dim", "layer"),
    "dygie": ("token", "dim", "layer"),
    "flat": ("token", "layer", "dim"),
}


def reading_lines(path: str | os.PathLike[str]) -> str:
    """Two pieces of Python with a blank line between them: with h5py alone, and with our reader.

    Each leaves the array of the file's first sentence in `array`; with h5py it has the axes of the
    file, with our reader layers come first. Of a weight file there is the first piece only.

    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    with damage_as_error(path), open_hdf5(Path(path)) as file:
        weights = kind_of_weights(file)
    if weights:
        name = "char_embed" if weights == "biLM" else "softmax/W"
        return "\n".join(_with_h5py(path, [f'array = file["{name}"][()]']))
    with damage_as_error(path, keys_of_file=True), Embeddings(path) as embeddings:
        key = next(iter(embeddings), None)
        if key is None:
            return "\n".join(_with_h5py(path, ["names = list(file)  # it has no sentences"]))
        lines = _with_h5py(path, _file_lines(embeddings, key))
        return "\n".join([*lines, "", *_with_reader(path, embeddings, key)])


def _with_h5py(path: str | os.PathLike[str], body: list[str]) -> list[str]:
    imports = "import json, h5py" if any("json." in line for line in body) else "import h5py"
    opened = f"with h5py.File({os.fspath(path)!r}, 'r') as file:"
    return [imports, opened, *(f"    {line}" for line in body)]


def _with_reader(path: str | os.PathLike[str], embeddings: Embeddings, key: Key) -> list[str]:
    lines = [
        "from elmo_cli import open_embeddings",
        f"with open_embeddings({os.fspath(path)!r}) as embeddings:",
        f"    array = embeddings[{key!r}]  # {_axes(embeddings, embeddings.shape(key))}",
    ]
    if embeddings.tokens(key) is not None:
        lines.append(f"    tokens = embeddings.tokens({key!r})")
    return lines


def _file_lines(embeddings: Embeddings, key: Key) -> list[str]:
    """The body that reads one sentence with h5py."""
    sentences = embeddings.sentences
    if embeddings.layout == "bilm-types":
        return ["array = file['embedding'][0]  # one type: row = line of the vocabulary"]
    if embeddings.layout == "flat":
        return _flat_lines(embeddings, key)
    lines = []
    if isinstance(sentences, (NumberedSentences, NamedSentences)):
        name = sentences.path(key)
        shape = _axes(embeddings, sentences.stored_shape(key), _AXES.get(embeddings.layout))
        lines.append(f"array = file[{name!r}][()]  # {shape}")
    if isinstance(sentences, NumberedSentences) and sentences.has_map:
        lines.append(f"names = json.loads(file['{MAP}'][0])  # line -> name of its dataset")
    return lines


def _flat_lines(embeddings: Embeddings, key: Key) -> list[str]:
    *layers, dim = embeddings.shape(key)
    scaled = embeddings.stored_dtype == INT8
    if embeddings.is_pooled:
        scale = " * file['scales'][0][..., None]" if scaled else ""
        return [f"array = file['vectors'][0]{scale}  # {_axes(embeddings, (*layers, dim))}"]
    shape = (layers[-1], *layers[:-1], dim)
    axes = _AXES["flat"] if len(shape) == 3 else None
    return [
        "begin, end = file['offsets'][0:2]  # sentence i: offsets[i:i + 2]",
        f"array = file['vectors'][begin:end]  # {_axes(embeddings, shape, axes)}",
        *(["array = array * file['scales'][begin:end][..., None]  # a step a vector"] * scaled),
    ]


def _axes(
    embeddings: Embeddings, shape: tuple[int, ...], names: tuple[str, ...] | None = None
) -> str:
    """A shape in words: "layers 3, tokens 7, dim 1024"."""
    if embeddings.layout == "bilm-types":
        names = ("projection",)
    elif embeddings.is_pooled:
        names = tuple(name for name in names or ("layer", "token", "dim") if name != "token")
    names = names or ("layer", "token", "dim")
    if len(names) < len(shape):  # it says that it is pooled, and is not
        return f"shape {shape}"
    names = names[len(names) - len(shape) :]
    counted = (f"{name}s" if name in ("layer", "token") else name for name in names)
    return ", ".join(f"{name} {size}" for name, size in zip(counted, shape, strict=True))
