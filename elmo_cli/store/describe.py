"""Facts of an embeddings file, an unfinished one or a weight file, and the Python that reads it."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.hdf5 import open_hdf5, reading
from elmo_cli.store.layouts import Key
from elmo_cli.store.log_lines import log_path, read_log
from elmo_cli.store.reader import Embeddings
from elmo_cli.weightfile.describe import describe_weights, kind_of_weights

N_SAMPLES = 3


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The facts of a file; reads no arrays.

    Returns:
        with `kind`:
        "embeddings": path, bytes, layout, complete (None for files of other programs, which have no
            end mark), sentences, tokens (None if the file does not say), n_layers, dim, dtype,
            sentence_map, checksums (whether it has them), sources, attributes, samples (key and
            shape of the first few sentences);
        "unfinished", for OUT.part: path, bytes, committed sentences and tokens, settings,
            is_complete (False);
        "weights": see `describe_weights`.
    Raises:
        EmbeddingsFileError: neither of these; the message says what it is instead.
        ResumeError: the log of an unfinished file is corrupt.
    """
    path = Path(path)
    kind = kind_of_file(path)
    if kind == "unfinished":
        return _unfinished(path)
    if kind == "embeddings":
        with Embeddings(path) as embeddings:
            return _embeddings(embeddings)
    with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
        return describe_weights(path, file)


def kind_of_file(path: Path) -> str:
    """What a file is: "unfinished", "biLM", "softmax", or "embeddings" for any other."""
    if log_path(path).exists():
        return "unfinished"
    try:
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            return kind_of_weights(file) or "embeddings"
    except EmbeddingsFileError:
        return "embeddings"  # opening it as such reports what is wrong


def _embeddings(embeddings: Embeddings) -> dict[str, Any]:
    # Without the arrays that hold something of each sentence.
    attributes = {
        name: value
        for name, value in embeddings.attributes.items()
        if not isinstance(value, np.ndarray) and name != "repeated_lines"
    }
    return {
        "kind": "embeddings",
        "path": str(embeddings.path),
        "bytes": embeddings.path.stat().st_size,
        "layout": embeddings.layout,
        "complete": True if "elmo_schema" in attributes else None,
        "sentences": len(embeddings),
        "tokens": attributes.get("tokens"),
        "n_layers": embeddings.n_layers,
        "dim": embeddings.dim,
        "dtype": str(embeddings.stored_dtype or attributes.get("dtype")),
        "sentence_map": embeddings.has_sentence_map,
        "checksums": embeddings.has_checksums,
        "sources": attributes.get("sources"),
        "attributes": attributes,
        "samples": [
            {"key": key, "shape": list(embeddings.shape(key))}
            for key in islice(embeddings, N_SAMPLES)
        ],
    }


def _unfinished(path: Path) -> dict[str, Any]:
    spec, _, progress = read_log(path)
    return {
        "kind": "unfinished",
        "path": str(path),
        "bytes": path.stat().st_size,
        "sentences": progress.sentences,
        "tokens": progress.tokens,
        "settings": spec.to_attributes(),
        "is_complete": False,
    }


def python_example(path: str | os.PathLike[str]) -> str:
    """Two pieces of Python with a blank line between them: with h5py alone, and with our reader.

    Each leaves the array of the file's first sentence in `array`; with h5py it has the axes of the
    file, with our reader layers come first. For a weight file there is the first piece only.

    Raises:
        EmbeddingsFileError: the file can't be opened, or holds neither embeddings nor weights.
    """
    path = Path(path)
    kind = kind_of_file(path)
    if kind in ("biLM", "softmax"):
        name = "char_embed" if kind == "biLM" else "softmax/W"
        return "\n".join(_with_h5py(path, [f'array = file["{name}"][()]']))
    with Embeddings(path) as embeddings:
        key = next(iter(embeddings), None)
        if key is None:
            return "\n".join(_with_h5py(path, ["names = list(file)  # it has no sentences"]))
        lines = _with_h5py(path, embeddings.python_example(key))
        return "\n".join([*lines, "", *_with_reader(embeddings, key)])


def _with_h5py(path: Path, body: list[str]) -> list[str]:
    imports = "import json, h5py" if any("json." in line for line in body) else "import h5py"
    opened = f"with h5py.File({os.fspath(path)!r}, 'r') as file:"
    return [imports, opened, *(f"    {line}" for line in body)]


def _with_reader(embeddings: Embeddings, key: Key) -> list[str]:
    is_whole = embeddings.unit != "tokens"  # one vector stands for all tokens
    axes = [axis for axis in ("layer", "token", "dim") if axis != "token" or not is_whole]
    axes = axes[-len(embeddings.shape(key)) :]
    lines = [
        "from elmo_cli import open_embeddings",
        f"with open_embeddings({os.fspath(embeddings.path)!r}) as embeddings:",
        f"    array = embeddings[{key!r}]  # axes: {', '.join(axes)}",
    ]
    if embeddings.tokens(key) is not None:
        lines.append(f"    tokens = embeddings.tokens({key!r})")
    return lines
