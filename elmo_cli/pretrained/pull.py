"""Download a published model into the cache, verified."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from elmo_cli.errors import ElmoError, ModelError
from elmo_cli.pretrained.cache import locked, model_dir
from elmo_cli.pretrained.catalogue import OPTIONS_FILE, Model, RemoteFile
from elmo_cli.pretrained.download import download
from elmo_cli.pretrained.load import installed_files
from elmo_cli.pretrained.model_files import ModelFiles


def pull(
    model: Model,
    *,
    overwrite: bool = False,
    on_bytes: Callable[[int, int], None] = lambda done, total: None,
    on_wait: Callable[[], None] | None = None,
) -> ModelFiles:
    """Download the files of a model that are missing or not the published ones.

    Args:
        overwrite: download all of them; an old file stays until the new one is verified.
        on_bytes: called with the bytes of all files received so far and in total (0 if unknown).
        on_wait: called once if another process is downloading the same model.
    Raises:
        DownloadError, OutputError: no address provides a file; $ELMO_HOME cannot be written to.
        ModelError: ELMO_OFFLINE is set and there is something to download.
    """
    if not _files_to_fetch(model, overwrite):
        return installed_files(model)
    folder, total, received = model_dir(model), model.expected_bytes, 0
    if os.environ.get("ELMO_OFFLINE"):
        raise ModelError(
            f"ELMO_OFFLINE is set, so the model `{model.name}` is not downloaded",
            f"unset ELMO_OFFLINE, or put its files into {folder}",
        )

    def on_file_bytes(n_bytes: int) -> None:
        on_bytes(received + n_bytes, total)

    with locked(folder, on_wait):
        for file in _files_to_fetch(model, overwrite):  # another process may have downloaded it
            target = folder / file.name
            download(file, target, partial(_problem, file), on_file_bytes)
            received += target.stat().st_size
    return installed_files(model)


def _files_to_fetch(model: Model, overwrite: bool) -> list[RemoteFile]:
    paths = [(file, model_dir(model) / file.name) for file in model.files]
    return [f for f, path in paths if overwrite or not path.is_file() or f.problem(path)]


def _problem(file: RemoteFile, path: Path) -> str:
    """What is wrong with the content of a file that was just downloaded, "" for nothing."""
    from elmo_cli.model.options import Options
    from elmo_cli.weightfile.describe import holds_bilm, probe_hdf5

    try:
        if file.name == OPTIONS_FILE:
            Options.from_file(path)
            return ""
        probe_hdf5([path])
        return "" if holds_bilm(path) else "is an HDF5 file without char_embed"
    except (OSError, RuntimeError) as error:  # as h5py reports them
        return f"is not a complete HDF5 file ({str(error).splitlines()[0]})"
    except ElmoError as error:
        return error.message.removeprefix(f"{path}: ")
