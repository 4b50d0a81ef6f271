"""Files of tensors and plain values, written atomically and read without running code."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from elmo_cli.errors import ResumeError
from elmo_cli.files import new_file

_START_OVER = "start over with `overwrite=True`, or restore the file from a backup"


def write_tensors(path: Path, content: Any) -> None:
    """Replace a file of tensors and plain values atomically; raises OutputError."""
    with new_file(path, durable=True, resumable=path.exists()) as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # raised by torch's zip writer on a full disk or Ctrl-C
            if isinstance(error.__context__, (OSError, KeyboardInterrupt)):
                raise error.__context__ from None
            raise


def read_tensors(path: Path) -> Any:
    """Load such a file on the CPU without running code in it.

    Raises:
        Exception: torch and zipfile raise a dozen types on corrupt files.
    """
    check_zip(path)
    return torch.load(path, weights_only=True, map_location="cpu")


def check_zip(path: Path) -> None:
    """Verify the checksums, which torch ignores and NumPy does not always reach."""
    with zipfile.ZipFile(path) as archive:
        if corrupt := archive.testzip():
            raise ValueError(f"{corrupt} is corrupt")


@contextmanager
def as_resume_error(path: Path) -> Iterator[None]:
    """Raise any error as a ResumeError: readers raise a dozen types on corrupt files."""
    try:
        yield
    except ResumeError:
        raise
    except Exception as error:
        what = "corrupt, or written by another version of elmo"
        if isinstance(error, FileNotFoundError):
            what = "missing"
        raise ResumeError(f"{path}: {what}", _START_OVER) from error
