"""A file of torch's: whole or not at all, and read with its checksums looked at."""

from __future__ import annotations

import pickle
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from elmo_cli.errors import ResumeError
from elmo_cli.files import new_file

# What zipfile and torch find a file damaged with, and what is met in one of other content.
_STRANGE = (
    OSError,
    RuntimeError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    zipfile.BadZipFile,
    zlib.error,
    pickle.UnpicklingError,
)
_ANEW = "start anew with `--overwrite`; a copy of the file from before would do too"


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a file; one that is there is replaced when the new one is whole.

    Raises:
        OutputError: it can't be written.
    """
    with new_file(path, durable=True, resumable=path.exists()) as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # of torch's own, about the zip that it could not go on with
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise


def read(path: Path) -> dict[str, Any]:
    """The content of a file, on the CPU; no code in it is run.

    Raises:
        ResumeError: it is not there, or damaged, or something else.
    """
    with told(path, "not a checkpoint"):
        # torch itself does not look at the checksums that it writes.
        try:
            with zipfile.ZipFile(path) as archive:
                damaged = archive.testzip()
        except FileNotFoundError:
            raise ResumeError(f"{path}: no such checkpoint", "start without `--resume`") from None
        if damaged is not None:
            raise ResumeError(f"{path}: damaged at {damaged}", _ANEW)
        content = torch.load(path, weights_only=True, map_location="cpu")
    if not isinstance(content, dict):
        raise ResumeError(f"{path}: not a checkpoint", _ANEW)
    return content


@contextmanager
def told(path: Path, what: str = "not a checkpoint of this run") -> Iterator[None]:
    """Turn what is found wrong with a file or within it into a ResumeError that says `what`."""
    try:
        yield
    except ResumeError:
        raise
    except _STRANGE as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise ResumeError(f"{path}: {what} ({reason})", _ANEW) from None
