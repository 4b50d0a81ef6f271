"""What `elmo models` reports about a model, as plain values for tables and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from elmo_cli.pretrained.cache import installed_dir, model_dir
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE, Model, find_model
from elmo_cli.pretrained.load import load_files, locate
from elmo_cli.pretrained.model_files import sha256_of


def summary(model: Model) -> dict[str, Any]:
    """One row of the list of named models; None stands for unknown.

    `where` is "bundled", "cached" or "not downloaded". `bytes` is computed from the shapes of the
    tensors if `bytes_are_exact` is false.
    """
    folder = installed_dir(model)
    where, n_bytes = "not downloaded", model.expected_bytes
    is_exact = any(file.bytes for file in model.files)
    if folder is not None:
        where, is_exact = "cached" if model.files else "bundled", True
        n_bytes = sum((folder / name).stat().st_size for name in (OPTIONS_FILE, WEIGHTS_FILE))
    return {
        "name": model.name,
        "language": model.language,
        "bytes": n_bytes or None,
        "bytes_are_exact": is_exact,
        "dim": model.dim,
        "where": where,
        "path": str(model_dir(model) if folder is None else folder),
    }


def describe_model(name: str) -> dict[str, Any]:
    """Describe a model that `load` takes; or its ElmoError.

    Returns:
        for a named model `summary` and what the catalogue states; for others name, bytes, dim,
        where ("path"), path, parameters, files, layers (of vectors, with the token layer), options
        (as in options.json), sha256 (as `model_sha256` in an embeddings file) and whether softmax,
        vocabulary and warm_state are next to the weights.
    """
    model = find_model(name)
    if model is None:
        return _describe_files(name)
    facts = {**asdict(model), **summary(model)}
    facts["parameters"] = facts.pop("n_parameters")
    return facts


def _describe_files(name: str) -> dict[str, Any]:
    files = locate(name)
    bilm = load_files(files)
    return {
        "name": files.name,
        "bytes": sum(path.stat().st_size for path in (files.options, files.weights)),
        "bytes_are_exact": True,
        "dim": bilm.options.dim,
        "where": files.origin,
        "path": str(files.weights.parent),
        "parameters": sum(values.numel() for values in bilm.parameters()),
        "files": [
            {"name": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in files.paths
        ],
        "layers": 1 + bilm.options.n_layers,
        "options": bilm.options.to_dict(),
        "sha256": bilm.sha256,
        "softmax": files.softmax is not None,
        "vocabulary": files.vocabulary is not None,
        "warm_state": files.warm_state is not None,
    }
