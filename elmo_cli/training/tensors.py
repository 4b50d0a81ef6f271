"""Files of tensors and plain values, written atomically and read without running code."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_cli.errors import ModelError, ResumeError
from elmo_cli.files import new_file
from elmo_cli.isolate import run_isolated
from elmo_cli.zip_files import check_zip, max_content

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

    A child process with limited memory and CPU time loads it first: its pickle may ask for any
    amount of both. The tensors together have at most `max_content` bytes; torch also stores views
    of a few values that have any shape.

    Raises:
        Exception: torch and zipfile raise a dozen types on corrupt files.
    """
    check_zip(path, methods=[zipfile.ZIP_STORED])  # as torch writes it
    run_isolated(partial(_try_to_load, path), [path], ModelError)
    return _Copies(max_content(path)).copy(_load(path))


def _try_to_load(path: Path) -> None:
    _load(path)


def _load(path: Path) -> Any:
    """Load the file with tensors that are parts of it, where torch checks that they are inside.

    In memory of their own, it would not compare the size of a tensor with the bytes in the file.
    """
    return torch.load(path, weights_only=True, map_location="cpu", mmap=True)


class _Copies:
    """Copies of nested values, each in memory of its own and made once.

    Args:
        max_bytes: of all tensors.
    """

    def __init__(self, max_bytes: int) -> None:
        self._n_bytes_left = max_bytes
        self._originals: list[Any] = []  # kept, since an identity is valid as long as its value
        self._by_identity: dict[int, Any] = {}

    def copy(self, value: Any) -> Any:
        """Copy a value; ValueError for what `write_tensors` is never given."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if id(value) not in self._by_identity:
            self._originals.append(value)
            self._by_identity[id(value)] = self._copied(value)
        return self._by_identity[id(value)]

    def _copied(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            return self._copied_tensor(value)
        if isinstance(value, dict):
            return {self.copy(key): self.copy(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self.copy(member) for member in value]
        if isinstance(value, tuple):
            return tuple(self.copy(member) for member in value)
        raise ValueError(f"a value of type {type(value).__name__}")

    def _copied_tensor(self, tensor: Tensor) -> Tensor:
        is_plain = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not is_plain or tensor.is_quantized:
            raise ValueError("a tensor is not a plain array of numbers")
        self._n_bytes_left -= tensor.nbytes
        if self._n_bytes_left < 0:
            raise ValueError("the tensors are far larger than the file")
        return tensor.detach().clone()


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
