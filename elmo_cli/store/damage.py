"""Damage: what h5py finds wrong with a file, as an error of ours, and claims that can't be true."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import h5py

from elmo_cli.child import FACTOR, FLOOR
from elmo_cli.errors import ElmoError, EmbeddingsFileError

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


def is_from_hdf5(error: BaseException) -> bool:
    """Whether an error began inside h5py, which has as many kinds for damage as Python has."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] == "h5py"


def most_bytes(file: h5py.File) -> int:
    """The bytes that an array in a file can have at most, by `FLOOR` and `FACTOR`."""
    return FLOOR + FACTOR * int(file.id.get_filesize())


def check_bytes(file: h5py.File, what: str, n_bytes: int) -> None:
    """Refuse an array that can't come out of its file, before memory is taken.

    Raises:
        EmbeddingsFileError: it has more than `most_bytes`.
    """
    if n_bytes > most_bytes(file):
        there = file.id.get_filesize()
        raise EmbeddingsFileError(
            f"{file.filename}: {what} would have {n_bytes} bytes, the file has {there}", DAMAGED
        )
