"""From a name, a folder, an archive or a pair of files to a biLM.

A name without a separator is looked up in the catalogue first; `./original` is the folder of that
name, `original` the published model. A `Path` is always a path. Nothing here uses the network.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_cli.errors import ElmoError, ModelError, UsageError
from elmo_cli.pretrained.archive import SUFFIXES as ARCHIVE_SUFFIXES
from elmo_cli.pretrained.archive import is_archive, unpack
from elmo_cli.pretrained.catalogue import BUNDLED, look_up, no_such_model
from elmo_cli.pretrained.folder import (
    HDF5_SUFFIXES,
    ModelFiles,
    files_in_folder,
    files_of_weights,
    named,
    refuse_foreign,
    with_what_lies_beside,
)
from elmo_cli.pretrained.parts import check_parts
from elmo_cli.pretrained.pull import files_of_model, where_is
from elmo_cli.regular_files import check_regular

if TYPE_CHECKING:
    from elmo_cli.model.bilm import BiLM

Place = str | os.PathLike[str]


def load(
    name_or_path: Place | None = None,
    *,
    options: Place | None = None,
    weights: Place | None = None,
) -> BiLM:
    """A biLM, with its name, its sha256 and its warm state if one is stored with it.

    Args:
        name_or_path: a name of `elmo models list`, a folder, a weight file with its options
            beside it, a zip or tar file; None for the bundled model. A `Path` is no name.
        options: an options.json, together with `weights` and without a name.
        weights: an HDF5 file of weights.
    Returns:
        The biLM in float32 on the CPU, ready for inference.
    Raises:
        ModelError: no such model, not on this machine, or of another family.
        OptionsError, WeightFileError: its files are damaged or do not go together.
        UsageError: a name and a pair of files, or half a pair.
        OutputError: an archive can't be unpacked into $ELMO_HOME.
    """
    return load_files(locate(name_or_path, options=options, weights=weights))


def load_files(files: ModelFiles) -> BiLM:
    """The biLM of files that `locate` has found, as `load` gives it.

    Raises:
        ModelError, OptionsError, WeightFileError: as `load`.
    """
    from elmo_cli.weightfile.read import read_bilm, read_state

    with files.named():
        bilm = read_bilm(files.options, files.weights)
        bilm.name, bilm.sha256 = files.name, files.sha256
        bilm.files = tuple(map(str, files.paths))
        if files.warm_state is not None:
            bilm.warm_state = read_state(files.warm_state, bilm.options)
            try:
                bilm.warm_state_warning = check_parts(files, {"state": files.warm_state})
            except ModelError as error:
                bilm.warm_state_error = error
    return bilm


def locate(
    name_or_path: Place | None = None,
    *,
    options: Place | None = None,
    weights: Place | None = None,
) -> ModelFiles:
    """The files of a model, as `load` finds them, without reading the weights or importing torch.

    Raises:
        ModelError, UsageError, OutputError: as `load`.
        WeightFileError: HDF5 crashes on one of them.
    """
    files = _located(name_or_path, options, weights)
    if files.origin != "bundled":
        from elmo_cli.weightfile.describe import probe_hdf5

        model = look_up(files.name) if files.origin == "cached" else None
        known = {file.name for file in model.files if file.sha256} if model else set()
        given = (files.weights, files.warm_state, files.softmax)
        with files.named():
            probe_hdf5([path for path in given if path is not None and path.name not in known])
    return files


def is_name(model: str) -> bool:
    """Whether `locate` takes this for a name of the catalogue, whatever folder is called so."""
    return os.sep not in model and look_up(model) is not None


def _located(
    name_or_path: Place | None, options: Place | None, weights: Place | None
) -> ModelFiles:
    if options is None and weights is None:
        if isinstance(name_or_path, os.PathLike):
            return _at_path(_path(os.fspath(name_or_path)))
        return _named(name_or_path if name_or_path is not None else BUNDLED)
    if name_or_path is not None:
        raise UsageError(
            f"`{os.fspath(name_or_path)}` and a pair of files: two models are named",
            "give either the model or its options and weights",
        )
    if options is None or weights is None:
        missing, given = ("options", weights) if options is None else ("weights", options)
        raise UsageError(
            f"{given}: given without its {missing}",
            "give both: `--options-file FILE --weight-file FILE`",
        )
    return _pair(Path(options), Path(weights))


def _named(name: str) -> ModelFiles:
    if not name:  # as a path it would be the working folder
        raise ModelError("the name of the model is empty", "leave it out for the bundled model")
    if "://" in name:
        raise ModelError(
            f"{name}: an address, not a file",
            "download it, then give its path; `elmo models pull` fetches published models",
        )
    model = look_up(name) if is_name(name) else None
    path = _path(name)
    if model is not None:
        if path.is_dir() and where_is(model) is None:
            raise ModelError(
                f"the published model `{model.name}` is not on this machine",
                f"`./{name}` for the folder here, `elmo models pull {model.name}` for that model",
            )
        return files_of_model(model)
    is_path = os.sep in name or path.name.endswith((*ARCHIVE_SUFFIXES, *HDF5_SUFFIXES))
    if is_path or os.path.exists(path):
        return _at_path(path)
    raise no_such_model(
        name, "`elmo models list` shows all names; a path to a folder, a zip or a tar.gz works too"
    )


def _path(name: str) -> Path:
    """The path as it stands if there is one, else with a home folder for `~`."""
    return Path(name if os.path.exists(name) else os.path.expanduser(name))


def _at_path(path: Path) -> ModelFiles:
    with _reading(path):
        if not path.exists():
            raise ModelError(
                f"{path}: no such file or folder",
                "check the path; `elmo models list` shows the models that have a name",
            )
        check_regular(path, ModelError)
        if path.is_dir():
            return files_in_folder(path, path.resolve().name)
        refuse_foreign(path)
        if is_archive(path):
            folder = unpack(path)
            with named(folder, path):
                return replace(files_in_folder(folder, _without_suffix(path)), archive=path)
        return _at_weights(path)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except ElmoError:
        raise  # some of them are OSErrors too
    except OSError as error:
        raise ModelError(
            f"{path}: can't be read ({error.strerror or error})", "check the path and its rights"
        ) from None


def _at_weights(path: Path) -> ModelFiles:
    if path.suffix not in HDF5_SUFFIXES:
        raise ModelError(
            f"{path}: not a model, nor a file of weights by its name",
            "a model is a folder, a zip or a tar.gz with options.json and weights.hdf5",
        )
    return files_of_weights(path, _name_of_weights(path))


def _pair(options: Path, weights: Path) -> ModelFiles:
    with _reading(weights):
        refuse_foreign(weights)
        files = ModelFiles(name=_name_of_weights(weights), options=options, weights=weights)
        return with_what_lies_beside(files)


def _name_of_weights(path: Path) -> str:
    """The name of a weight file, or of its folder where every weight file has that name."""
    return path.resolve().parent.name if path.stem in ("weights", "model") else path.stem


def _without_suffix(path: Path) -> str:
    suffix = next((s for s in ARCHIVE_SUFFIXES if path.name.endswith(s)), path.suffix)
    return path.name.removesuffix(suffix)
