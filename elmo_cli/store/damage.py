"""Damage: what h5py finds wrong with a file, as an error of ours, and claims that can't be true."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import h5py

from elmo_cli.errors import ElmoError, EmbeddingsFileError
from elmo_cli.hdf5 import is_from_hdf5, most_bytes

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
        EmbeddingsFileError: it has more than `most_bytes`.
    """
    if n_bytes > most_bytes(file):
        there = file.id.get_filesize()
        raise EmbeddingsFileError(
            f"{file.filename}: {what} would have {n_bytes} bytes, the file has {there}", DAMAGED
        )
