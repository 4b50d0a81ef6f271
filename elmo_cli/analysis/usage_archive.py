"""UsageArchive: the vectors of the usages of each target, in an untrusted .npz file."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple, Self

import numpy as np

from elmo_cli.analysis.usage_settings import UsageSettings
from elmo_cli.arrays import AnyArray, Float32Array
from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.isolate import run_isolated
from elmo_cli.messages import shortened
from elmo_cli.regular_files import check_regular
from elmo_cli.zip_files import MAX_DEFLATE_RATIO, NpzReader, check_zip

_HINT = (
    "give a .npz file with a float32 array (usage, dim) for each target; "
    "`elmo usages TEXT --words FILE -o OUT.npz` writes one"
)


class UsageArchive:
    """The arrays of a .npz file, one per target; one at a time is in memory.

    The constructor reads and checks all of them in a child process.

    Attributes:
        path: path of the file.
        counts: the number of usages of each target, in the order of the file.
        dim: number of values of a vector; 0 if there is no target.
        settings: which vectors they are; None if the file does not record it.
    Raises:
        EmbeddingsFileError: it can't be read, or an array is not float32, does not have the shape
            (usage, dim) with one dim for all, or has a value that is not finite.
    """

    def __init__(self, path: str) -> None:
        check_regular(path, EmbeddingsFileError)
        self.path = path
        shapes = run_isolated(partial(_check, path), [path], EmbeddingsFileError)
        self.counts = {target: shape.n_usages for target, shape in shapes.items()}
        self.dim = max((shape.dim for shape in shapes.values()), default=0)  # all are equal
        self._arrays = NpzReader(path)
        self.settings = UsageSettings.parse(self._arrays.comment)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._arrays.close()

    def read(self, target: str) -> Float32Array:
        """Read the vectors of a target, (usage, dim); no rows if the file lacks the target."""
        if target not in self.counts:
            return np.zeros((0, self.dim), np.float32)
        return self._arrays.read(target)


class _Shape(NamedTuple):
    """The shape of the array of a target."""

    n_usages: int
    dim: int


def _check(path: str) -> dict[str, _Shape]:
    """Read all arrays of a file; return the shape of each, or raise an EmbeddingsFileError."""
    shapes: dict[str, _Shape] = {}
    try:
        # Vectors of layer 0 are equal for equal tokens, so that they compress very well. The limits
        # of the child process bound what a small file may contain.
        check_zip(path, max_ratio=MAX_DEFLATE_RATIO)
        with NpzReader(path) as arrays:
            for target in arrays.names:
                shapes[target] = _shape_of(target, arrays.read(target))
        dims = {shape.dim for shape in shapes.values()}
        if len(dims) > 1:
            smallest = min(dims)
            largest = max(dims)
            raise ValueError(f"its vectors have {smallest} and {largest} values")
    except MemoryError:
        raise
    except FileNotFoundError:
        hint = "check the name and the working directory"
        raise EmbeddingsFileError("no such file", hint, where=path) from None
    except Exception as error:  # zipfile and NumPy raise a dozen types on corrupt files
        message = str(getattr(error, "strerror", None) or error)
        reason = " ".join(message.split()) or type(error).__name__  # in one line
        problem = f"cannot be read as usages ({reason})"
        raise EmbeddingsFileError(problem, _HINT, where=path) from None
    return shapes


def _shape_of(target: str, array: AnyArray) -> _Shape:
    """Return the shape of the array of a target; a ValueError unless it has finite vectors."""
    name = repr(shortened(target))
    if array.dtype.kind != "f" or array.dtype.itemsize != 4:
        raise ValueError(f"the array {name} has the type {array.dtype}, not float32: convert it")
    if array.ndim != 2 or array.shape[1] == 0:
        raise ValueError(f"the array {name} has the shape {array.shape}, not (usage, dim)")
    if not np.isfinite(array).all():
        raise ValueError(f"the array {name} has a value that is not finite")
    n_usages, dim = array.shape
    return _Shape(n_usages=n_usages, dim=dim)
