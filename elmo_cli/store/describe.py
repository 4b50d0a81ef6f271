"""Facts of an embeddings file, an unfinished one or a weight file, and the Python that reads it."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.hdf5 import open_hdf5, reading
from elmo_cli.store.log_lines import log_path, read_log
from elmo_cli.store.reader import Embeddings
from elmo_cli.weightfile.describe import describe_weights, kind_of_weights

_N_SAMPLES = 3


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The facts of a file, without reading arrays.

    Returns:
        kind ("embeddings", "unfinished" or "weights"), path, bytes; for OUT.part the committed
        sentences and tokens, and settings; for weights see `describe_weights`. What a file of
        another program does not say is None.
    Raises:
        EmbeddingsFileError: none of the three; the message says what it is instead.
        ResumeError: the log of an unfinished file is corrupt.
    """
    path = Path(path)
    kind = kind_of_file(path)
    if kind == "unfinished":
        spec, _, progress = read_log(path)
        facts: dict[str, Any] = {"settings": spec.to_attributes(), "is_complete": False}
        facts |= {"sentences": progress.sentences, "tokens": progress.tokens}
    elif kind == "embeddings":
        with Embeddings(path) as embeddings:
            facts = _facts(embeddings)
    else:
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            return describe_weights(path, file)
    return {"kind": kind, "path": str(path), "bytes": path.stat().st_size, **facts}


def kind_of_file(path: Path) -> str:
    """What a file is: "unfinished", "biLM", "softmax", or "embeddings" for any other."""
    if log_path(path).exists():
        return "unfinished"
    try:
        with reading(path, EmbeddingsFileError), open_hdf5(path) as file:
            return kind_of_weights(file) or "embeddings"
    except EmbeddingsFileError:
        return "embeddings"  # opening it as such reports what is wrong


def _facts(embeddings: Embeddings) -> dict[str, Any]:
    attributes = {
        name: value
        for name, value in embeddings.attributes.items()
        if not isinstance(value, np.ndarray) and name != "repeated_lines"  # one per sentence
    }
    keys = islice(embeddings, _N_SAMPLES)
    return {
        "layout": embeddings.layout,
        "complete": True if "elmo_schema" in attributes else None,
        "sentences": len(embeddings),
        "tokens": attributes.get("tokens"),
        "n_layers": embeddings.n_layers,
        "dim": embeddings.dim,
        "dtype": str(embeddings.stored_dtype or attributes.get("dtype")),
        "sentence_map": embeddings.reader.has_map,
        "checksums": "sentence_crc32" in embeddings.attributes,
        "sources": attributes.get("sources"),
        "attributes": attributes,
        "samples": [{"key": key, "shape": list(embeddings.shape(key))} for key in keys],
    }


def python_example(path: str | os.PathLike[str]) -> str:
    """Python that reads the first sentence into `array`: with h5py, and with `open_embeddings`.

    A blank line separates the two; a weight file has only the first.
    """
    path = Path(path)
    kind = kind_of_file(path)
    if kind in ("biLM", "softmax"):
        name = "char_embed" if kind == "biLM" else "softmax/W"
        return _with_h5py(path, [f'array = file["{name}"][()]'])
    with Embeddings(path) as embeddings:
        handle = next(iter(embeddings.reader.handles()), None)
        if handle is None:
            return _with_h5py(path, ["names = list(file)  # it has no sentences"])
        key = embeddings.reader.key(handle)
        axes = ["layer", "token", "dim"] if embeddings.unit == "tokens" else ["layer", "dim"]
        axes = axes[-len(embeddings.shape(key)) :]
        ours = [
            "from elmo_cli import open_embeddings",
            f"with open_embeddings({os.fspath(path)!r}) as embeddings:",
            f"    array = embeddings[{key!r}]  # axes: {', '.join(axes)}",
        ]
        if embeddings.tokens(key) is not None:
            ours.append(f"    tokens = embeddings.tokens({key!r})")
        plain = _with_h5py(path, embeddings.reader.python_example(handle))
        return "\n".join([plain, "", *ours])


def _with_h5py(path: Path, body: list[str]) -> str:
    opened = f"import h5py\nwith h5py.File({os.fspath(path)!r}, 'r') as file:"
    return "\n    ".join([opened, *body])
