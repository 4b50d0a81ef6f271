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
    """Replace a file of tensors and plain values atomically.

    Raises:
        OutputError: the file cannot be written.
    """
    with new_file(path, durable=True, resumable=path.exists()) as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # raised by torch's zip writer on a full disk or Ctrl-C
            if isinstance(error.__context__, (OSError, KeyboardInterrupt)):
                raise error.__context__ from None
            raise


def read_tensors(path: Path) -> Any:
    """Load a file of tensors and plain values on the CPU without running code in it.

    Raises:
        Exception: torch and zipfile raise a dozen types on corrupt files.
    """
    check_zip(path)
    return torch.load(path, weights_only=True, map_location="cpu")


def check_zip(path: Path) -> None:
    """Verify the checksums of a zip file, which is what torch and NumPy write.

    torch ignores them when it reads, and NumPy does not always reach them.

    Raises:
        ValueError: a member is corrupt.
        Exception: zipfile raises several types on files that are no zip files.
    """
    with zipfile.ZipFile(path) as archive:
        corrupt_member = archive.testzip()
    if corrupt_member is not None:
        raise ValueError(f"{corrupt_member} is corrupt")


@contextmanager
def as_resume_error(path: Path) -> Iterator[None]:
    """Turn any error of reading a file of a run into a ResumeError that names the file.

    Args:
        path: the file that is read inside; readers raise a dozen types on corrupt files.
    """
    try:
        yield
    except ResumeError:
        raise
    except FileNotFoundError as error:
        raise ResumeError("missing", _START_OVER, where=path) from error
    except Exception as error:
        problem = "corrupt, or written by another version of elmo"
        raise ResumeError(problem, _START_OVER, where=path) from error
