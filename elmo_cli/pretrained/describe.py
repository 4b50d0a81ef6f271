"""What `elmo models` tells of a model, as plain values for tables and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from elmo_cli.errors import ElmoError
from elmo_cli.pretrained.cache import model_folder, sha256_of
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, WEIGHTS_FILE, Model
from elmo_cli.pretrained.folder import ModelFiles
from elmo_cli.pretrained.pull import where_is


def summary(model: Model) -> dict[str, Any]:
    """One row of the list: name, title, language, bytes, dim, where, path; None for unknown.

    `where` is "bundled", "cached", "damaged" or "not here"; `bytes` is computed from the shapes of
    the tensors where `bytes_are_exact` is false.
    """
    folder = where_is(model)
    size = _size_of(folder, model) if folder else model.expected_bytes
    stated = [file.bytes for file in model.files if file.name == WEIGHTS_FILE]
    return {
        "name": model.name,
        "title": model.title,
        "language": model.language,
        "bytes": size or None,
        "bytes_are_exact": folder is not None or all(stated),
        "dim": _dim(folder, model),
        "where": _where(folder, model),
        "path": str(folder) if folder else None,
    }


def describe(model: Model) -> dict[str, Any]:
    """All that is known of a model, with its files and what is published beside them."""
    folder = where_is(model)
    return {
        **summary(model),
        "aliases": list(model.aliases),
        "corpus": model.corpus,
        "parameters": model.n_parameters or (_count_parameters(folder) if folder else None),
        "licence": model.licence,
        "citation": model.citation,
        "note": model.note,
        "put_by_hand_into": None if model.is_bundled else str(model_folder(model.name)),
        "files": [
            {
                "name": file.name,
                "bytes": file.bytes,
                "sha256": file.sha256,
                "addresses": list(file.addresses),
            }
            for file in model.files
        ],
        "beside": [
            {"what": item.what, "address": item.address or None, "note": item.note}
            for item in model.beside
        ],
    }


def describe_files(files: ModelFiles) -> dict[str, Any]:
    """All that a model's files tell: the keys of `describe`, None where only a catalogue knows.

    Beside them: layers (of vectors, the token layer among them), options (as an options.json says
    them), sha256 (as `model_sha256` in an embeddings file), and which of softmax, vocabulary and
    warm_state lie beside the weights.

    Raises:
        OptionsError, WeightFileError: it is no model that `load` takes.
    """
    from elmo_cli.pretrained.load import load_files

    bilm = load_files(files)
    folder = files.weights.parent
    return {
        "name": files.name,
        **dict.fromkeys(("title", "language")),
        "bytes": sum(path.stat().st_size for path in (files.options, files.weights)),
        "bytes_are_exact": True,
        "dim": bilm.options.dim,
        "where": files.origin,
        "path": str(files.archive or folder),
        "aliases": [],
        "corpus": None,
        "parameters": sum(values.numel() for values in bilm.parameters()),
        **dict.fromkeys(("licence", "citation", "note", "put_by_hand_into")),
        "files": [
            {
                "name": path.name,
                "bytes": path.stat().st_size,
                "sha256": files.weights_sha256 if path == files.weights else sha256_of(path),
                "addresses": [],
            }
            for path in files.paths
        ],
        "beside": [],
        "layers": 1 + bilm.options.n_layers,
        "options": bilm.options.to_dict(),
        "sha256": bilm.sha256,
        "softmax": files.softmax is not None,
        "vocabulary": files.vocabulary is not None,
        "warm_state": files.warm_state is not None,
    }


def _where(folder: Path | None, model: Model) -> str:
    """By the sizes of the files; their sha256 is looked at when they are read."""
    if folder is None:
        return "not here"
    if model.is_bundled:
        return "bundled"
    stated = [file for file in model.files if file.bytes is not None]
    is_whole = all((folder / file.name).stat().st_size == file.bytes for file in stated)
    return "cached" if is_whole else "damaged"


def _size_of(folder: Path, model: Model) -> int:
    names = [file.name for file in model.files] or [OPTIONS_FILE, WEIGHTS_FILE]
    return sum((folder / name).stat().st_size for name in names if (folder / name).is_file())


def _dim(folder: Path | None, model: Model) -> int | None:
    from elmo_cli.model.options import Options

    if model.sizes or folder is None:
        return model.sizes.dim if model.sizes else None
    try:
        return Options.from_file(folder / OPTIONS_FILE).dim
    except ElmoError:
        return None


def _count_parameters(folder: Path) -> int | None:
    import h5py

    from elmo_cli.hdf5 import open_hdf5

    sizes: list[int] = []

    def add(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith("softmax/"):
            sizes.append(item.size)

    try:
        with open_hdf5(folder / WEIGHTS_FILE) as file:
            file.visititems(add)
    except (OSError, RuntimeError):
        return None
    return sum(sizes)
