"""The published models in the cache: checked when they are used, fetched when that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from elmo_cli.errors import ElmoError, ModelError, WeightFileError
from elmo_cli.pretrained.bundled import bundled_path
from elmo_cli.pretrained.cache import (
    is_offline,
    locked,
    model_folder,
    remember_sha256,
    sha256_of,
)
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, Model, RemoteFile
from elmo_cli.pretrained.download import OnBytes, Patience, download
from elmo_cli.pretrained.folder import ModelFiles, files_in_folder


def where_is(model: Model) -> Path | None:
    """The folder that holds all files of a model of the catalogue, None if it is not here."""
    if model.is_bundled:
        return bundled_path()
    folder = model_folder(model.name)
    return folder if all((folder / file.name).is_file() for file in model.files) else None


def files_of_model(model: Model) -> ModelFiles:
    """The files of a model of the catalogue, without the network.

    Raises:
        ModelError: it is not here, or a file is not the published one.
    """
    folder = where_is(model)
    if folder is None:
        raise _not_here(model)
    for file in model.files:
        if wrong := _difference(folder / file.name, file):
            raise ModelError(
                f"{folder / file.name}: {wrong}",
                f"`elmo models pull {model.name} --overwrite` fetches it again",
            )
    origin = "bundled" if model.is_bundled else "cached"
    return files_in_folder(folder, model.name, origin=origin)


def pull(
    model: Model,
    *,
    force: bool = False,
    on_bytes: OnBytes = lambda done, total: None,
    on_wait: Callable[[], None] | None = None,
    patience: Patience | None = None,
) -> ModelFiles:
    """Fetch what is missing of a model of the catalogue; without the network if nothing is.

    Args:
        force: fetch it even if it is here; the old files stay until the new ones are checked.
        on_bytes: called with the bytes of all files so far and in the end (0 if unknown).
        on_wait: called once if another process is fetching the same model.
    Raises:
        ModelError: ELMO_OFFLINE is set and something is to be fetched.
        DownloadError: no address gives a file that is the published one.
        OutputError: $ELMO_HOME can't be written to, or is full.
    """
    if model.is_bundled:
        return files_of_model(model)
    folder = model_folder(model.name)
    if not force and not _missing(model, folder):
        return files_of_model(model)
    if is_offline():
        raise _offline(model, folder) if _missing(model, folder) else _not_again(model)
    with locked(folder, on_wait):
        before = 0
        for file in model.files if force else _missing(model, folder):
            _fetch(model, file, folder, _shifted(on_bytes, before, model.expected_bytes), patience)
            before += (folder / file.name).stat().st_size
    return files_of_model(model)


def _fetch(
    model: Model, file: RemoteFile, folder: Path, on_bytes: OnBytes, patience: Patience | None
) -> None:
    target = folder / file.name
    digest = download(
        file,
        target,
        check=lambda path: _unlike(path, file, model),
        on_bytes=on_bytes,
        patience=patience,
    )
    remember_sha256(target, digest)


def _shifted(on_bytes: OnBytes, before: int, total: int) -> OnBytes:
    return lambda done, of_file: on_bytes(before + done, total or before + of_file)


def _missing(model: Model, folder: Path) -> list[RemoteFile]:
    """The files that are not there, or not the published ones."""
    return [
        file
        for file in model.files
        if not (folder / file.name).is_file() or _difference(folder / file.name, file)
    ]


def _difference(path: Path, file: RemoteFile) -> str:
    """How a file differs from the published one, "" if it does not."""
    return file.difference(path.stat().st_size, lambda: sha256_of(path))


def _unlike(path: Path, file: RemoteFile, model: Model) -> str:
    """What is wrong with the content of a file that was just fetched, "" if nothing is."""
    if file.name == OPTIONS_FILE:
        return _unlike_options(path, model)
    from elmo_cli.weightfile.describe import holds_bilm, probe_hdf5

    try:
        probe_hdf5([path])
        return "" if holds_bilm(path) else "is HDF5, but holds no char_embed"
    except (OSError, RuntimeError, WeightFileError) as error:
        return f"is not a whole HDF5 file ({str(error).splitlines()[0]})"


def _unlike_options(path: Path, model: Model) -> str:
    from elmo_cli.model.options import Options

    try:
        options = Options.from_file(path)
    except ElmoError as error:
        return error.message.removeprefix(f"{path}: ")
    if model.sizes is None:
        return ""
    for name in ("lstm_dim", "projection_dim", "n_layers", "n_highway"):
        found, wanted = getattr(options, name), getattr(model.sizes, name)
        if found != wanted:
            return f"says {name} {found}, the catalogue says {wanted}"
    return ""


def _not_here(model: Model) -> ModelError:
    if model.is_bundled:
        return ModelError(
            f"`{model.name}` is not in this installation",
            "install elmo-cli from its wheel, or give another model with `--model`",
        )
    if is_offline():
        return _offline(model, model_folder(model.name))
    return ModelError(
        f"the model `{model.name}` is not on this machine", f"`elmo models pull {model.name}`"
    )


def _not_again(model: Model) -> ModelError:
    return ModelError(
        f"the model `{model.name}` is not fetched again, since ELMO_OFFLINE is set",
        "leave out `--overwrite`, or unset ELMO_OFFLINE",
    )


def _offline(model: Model, folder: Path) -> ModelError:
    names = " and ".join(file.name for file in model.files)
    what = "is damaged" if where_is(model) else "is not on this machine"
    return ModelError(
        f"the model `{model.name}` {what}, and ELMO_OFFLINE is set",
        f"put its {names} into {folder}, or unset ELMO_OFFLINE and `elmo models pull {model.name}`",
    )
