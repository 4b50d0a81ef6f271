"""The cache of models: its folders in $ELMO_HOME, its lock, and which models are installed.

models/NAME/        options.json and weights.hdf5, downloaded or put there by hand
archives/STEM-HASH/ model files extracted from an archive with this SHA-256
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from elmo_cli.errors import ElmoError, OutputError
from elmo_cli.files import FileLock
from elmo_cli.pretrained.catalogue import BUNDLED, WEIGHTS_FILE, Model

_PACKAGE = Path(__file__).resolve().parents[1]
_HINT = "set ELMO_HOME to a folder that you can write to and that has enough space"


def elmo_home() -> Path:
    """$ELMO_HOME, else $XDG_CACHE_HOME/elmo, else ~/.cache/elmo; or OutputError."""
    home, xdg = os.environ.get("ELMO_HOME"), os.environ.get("XDG_CACHE_HOME", "")
    try:
        if home:
            return Path(home).expanduser().absolute()
        # The XDG specification says that a relative path is to be ignored.
        return (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "elmo"
    except RuntimeError:
        raise OutputError("$ELMO_HOME: no home directory is known", _HINT) from None


def model_dir(model: Model) -> Path:
    """The folder that a published model is downloaded to; it need not exist."""
    return elmo_home() / "models" / model.name


def bundled_dir() -> Path | None:
    """The folder of the bundled model: in the package, or next to it in a clone."""
    folders = (_PACKAGE / "bundled" / BUNDLED, _PACKAGE.parent / "weights" / BUNDLED)
    return next((folder for folder in folders if (folder / WEIGHTS_FILE).is_file()), None)


def installed_dir(model: Model) -> Path | None:
    """The folder that contains all files of a named model, None if it is not on this machine."""
    if not model.files:
        return bundled_dir()
    folder = model_dir(model)
    return folder if all((folder / file.name).is_file() for file in model.files) else None


@contextmanager
def os_errors_as(error_class: type[ElmoError], path: Path, what: str, hint: str) -> Iterator[None]:
    """Turn an error of the system into one of ours about PATH; `what` says what cannot be done."""
    try:
        yield
    except ElmoError:
        raise  # some are OSErrors too
    except OSError as error:
        if not error.strerror:  # a library has raised it about the content of a file
            raise
        raise error_class(f"{path}: {what} ({error.strerror})", hint) from None


def writing(path: Path) -> AbstractContextManager[None]:
    """Turn an OSError into an OutputError about PATH in the cache."""
    return os_errors_as(OutputError, path, "cannot be written", _HINT)


@contextmanager
def locked(folder: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Create a folder of the cache and lock it, where the file system has locks; or OutputError.

    ON_WAIT is called once if another process has the lock.
    """
    lock = FileLock(folder / ".lock")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire(wait=True, on_wait=on_wait)
    try:
        yield
    finally:
        lock.release()
