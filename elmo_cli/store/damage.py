"""Damage: what h5py finds wrong with a file, as an error of ours, and claims that can't be true."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from traceback import walk_tb

import h5py

from elmo_cli.errors import ElmoError, EmbeddingsFileError
from elmo_cli.hdf5 import max_plausible_bytes

DAMAGED = "the file is damaged: copy it again, or make it anew with `elmo embed`"


@contextmanager
def damage_as_error(path: str | os.PathLike[str], *, keys_of_file: bool = False) -> Iterator[None]:
    """Turn what h5py raises on a damaged file into an EmbeddingsFileError.

    Args:
        path: the file.
        keys_of_file: whether only keys are asked for that the file itself names, so that one which
            is not there is damage too.
    """
    try:
        yield
    except (ElmoError, MemoryError):
        raise
    except Exception as error:
        if not is_from_hdf5(error) and not (keys_of_file and isinstance(error, KeyError)):
            raise
        reason = str(error.args[0] if error.args else type(error).__name__)
        raise EmbeddingsFileError(
            f"{os.fspath(path)}: {reason.removeprefix(f'{os.fspath(path)}: ')}", DAMAGED
        ) from None


def check_bytes(file: h5py.File, what: str, n_bytes: int) -> None:
    """Refuse an array that can't come out of its file, before memory is taken.

    Raises:
        EmbeddingsFileError: it has more than `max_plausible_bytes`.
    """
    if n_bytes > max_plausible_bytes(file):
        there = file.id.get_filesize()
        raise EmbeddingsFileError(
            f"{file.filename}: {what} would have {n_bytes} bytes, the file has {there}", DAMAGED
        )


def is_from_hdf5(error: BaseException) -> bool:
    """Whether an error came out of h5py, which has as many kinds for damage as Python has.

    What h5py called may have raised it, but for what it called back here.
    """
    inside = False
    for frame, _ in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        inside = package == "h5py" or (inside and package != "elmo_cli")
    return inside


@contextmanager
def hdf5_errors(as_error: Callable[[Exception], ElmoError]) -> Iterator[None]:
    """Raise what h5py raises as what `as_error` makes of it, but for MemoryError."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        if not is_from_hdf5(error):
            raise
        raise as_error(error) from None


def cut_off(error: BaseException) -> str:
    """How much of a file is there, if h5py could not open it because the rest is missing."""
    stored = re.search(r"truncated file: eof = (\d+).*stored_eof = (\d+)", str(error))
    return f"{stored[1]} bytes of {stored[2]} are there" if stored else ""
