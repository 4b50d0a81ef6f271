"""TensorBundle: the tensors in a checkpoint of TensorFlow, PREFIX.index and PREFIX.data-*-of-*.

The index maps the name of each tensor to its type, its shape and the range of its bytes in one of
the data files. A partitioned tensor has no bytes of its own, but a list of slices, each an entry
under a key that encodes its name and its extent. `tensor_bundle.proto` of TensorFlow describes the
format.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from elmo_cli.arrays import AnyArray, Float32Array
from elmo_cli.errors import WeightFileError
from elmo_cli.families.bundle_entries import (
    BundleEntry,
    Extent,
    parse_entry,
    parse_header,
    slice_key,
)
from elmo_cli.families.crc32c import as_bytes, crc32c, masked
from elmo_cli.families.sorted_table import read_table
from elmo_cli.regular_files import check_regular
from elmo_cli.weightfile.named_arrays import LARGEST_SUM, LARGEST_WEIGHT, check_values

INDEX_SUFFIX = ".index"
_DTYPES = {1: "<f4", 2: "<f8", 19: "<f2"}  # of tensors that can be weights
_MAX_INDEX_BYTES = 1 << 24
_MAX_SLICES = 2000  # of one tensor
_HINT = "the checkpoint is corrupt or incomplete: copy all of its files again"


@dataclass(frozen=True)
class _ByteRange:
    """A range of bytes in a data file."""

    shard: int
    start: int
    end: int


class TensorBundle:
    """The tensors of a checkpoint, as `NamedArrays` by the names of the variables.

    Args:
        index: PREFIX.index.
        verify: compare each tensor that is read with its checksum.
    Raises:
        WeightFileError: the index is corrupt, or a tensor is not within the data files.
    """

    def __init__(self, index: Path, *, verify: bool = True) -> None:
        self.where = str(index)
        self._prefix = self.where.removesuffix(INDEX_SUFFIX)
        self._verify = verify
        self._largest = LARGEST_WEIGHT
        content = self._read_index(index)
        try:
            table = read_table(content)
            self._n_shards = parse_header(table.pop(b"", b""))
            self._entries = {key: parse_entry(value) for key, value in table.items()}
        except ValueError as error:
            raise self._error(str(error)) from None
        self._shard_bytes: dict[int, int] = {}
        self._check_ranges()

    def _read_index(self, index: Path) -> bytes:
        check_regular(index, WeightFileError)
        try:
            with open(index, "rb") as file:
                content = file.read(_MAX_INDEX_BYTES + 1)
        except OSError as error:
            raise self._error(f"cannot be read ({error.strerror})") from None
        if len(content) > _MAX_INDEX_BYTES:
            raise self._error(f"has more than {_MAX_INDEX_BYTES} bytes, so it is no index")
        return content

    def _error(self, problem: str, where: str = "") -> WeightFileError:
        return WeightFileError(problem, _HINT, where=where or self.where)

    @property
    def names(self) -> list[str]:
        """The names of all variables."""
        return [
            key.decode("utf-8", "replace") for key in self._entries if not key.startswith(b"\0")
        ]

    def stored_name(self, name: str) -> str:
        """The name itself."""
        return name

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a variable; None if there is none of this name."""
        entry = self._entries.get(name.encode())
        return None if entry is None else entry.shape

    def read(self, name: str) -> Float32Array:
        """Read a variable that exists; or WeightFileError."""
        array = self._read(name, self._entries[name.encode()])
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused
            values: Float32Array = array.astype(np.float32, copy=False)
        check_values(values, name, self.where, largest=self._largest)
        return values

    def of_any_size(self) -> TensorBundle:
        """The same tensors, of which any finite value is accepted, such as a sum of squares."""
        others = copy(self)
        others._largest = LARGEST_SUM
        return others

    def _read(self, name: str, entry: BundleEntry) -> AnyArray:
        if not entry.slices:
            return self._read_stored(name, entry)
        slices = list(self._slices(name, entry))  # checked before memory is taken
        array: AnyArray = np.empty(entry.shape, self._dtype(name, entry))
        for extents, stored in slices:
            region = tuple(slice(extent.start, extent.end) for extent in extents)
            array[region] = self._read_stored(name, stored)
        return array

    def _slices(
        self, name: str, entry: BundleEntry
    ) -> Iterator[tuple[tuple[Extent, ...], BundleEntry]]:
        """Yield the extents of each slice and its entry; WeightFileError if they do not cover the
        variable, each value once."""
        resolved = []
        for extents in entry.slices:
            if len(extents) != len(entry.shape):
                raise self._error(f"a slice of {name} has another number of axes")
            sizes = zip(extents, entry.shape, strict=True)
            resolved.append(tuple(extent.within(size) for extent, size in sizes))
        if not _is_partition(resolved, entry.shape):
            raise self._error(f"the slices of {name} do not cover each of its values once")
        for extents, whole in zip(entry.slices, resolved, strict=True):
            stored = self._entries.get(slice_key(name, extents))
            lengths = tuple(extent.end - extent.start for extent in whole)
            if stored is None or stored.shape != lengths or stored.dtype != entry.dtype:
                raise self._error(f"a slice of {name} is missing or has another shape or type")
            yield whole, stored

    def _dtype(self, name: str, entry: BundleEntry) -> np.dtype[Any]:
        if entry.dtype not in _DTYPES:
            problem = f"{name} is of type {entry.dtype} of TensorFlow, not a float"
            raise self._error(problem)
        return np.dtype(_DTYPES[entry.dtype])

    def _read_stored(self, name: str, entry: BundleEntry) -> AnyArray:
        """Read a tensor or a slice that has bytes of its own."""
        array: AnyArray = np.empty(entry.shape, self._dtype(name, entry))
        content = as_bytes(array)
        path = self._shard_path(entry.shard)
        try:
            with open(path, "rb") as file:
                file.seek(entry.offset)
                n_read = file.readinto(content)
        except OSError as error:
            raise self._error(f"cannot be read ({error.strerror})", path) from None
        if n_read != entry.size:
            raise self._error(f"{name} is cut off", path)
        if self._verify and masked(crc32c(content)) != entry.checksum:
            raise self._error(f"the checksum of {name} is wrong: its values have changed", path)
        return array

    def _shard_path(self, shard: int) -> str:
        return f"{self._prefix}.data-{shard:05d}-of-{self._n_shards:05d}"

    def _size_of_shard(self, shard: int) -> int:
        if shard not in self._shard_bytes:
            path = self._shard_path(shard)
            check_regular(path, WeightFileError)
            try:
                self._shard_bytes[shard] = os.path.getsize(path)
            except OSError as error:
                raise self._error(f"cannot be read ({error.strerror})", path) from None
        return self._shard_bytes[shard]

    def _check_ranges(self) -> None:
        """Check that all tensors are within the data files and do not overlap, so that together
        they take no more memory than the files have bytes."""
        ranges = []
        for key, entry in self._entries.items():
            name = key.decode("utf-8", "replace").strip("\0")
            if len(entry.slices) > _MAX_SLICES:
                raise self._error(f"{name} has more than {_MAX_SLICES} slices")
            if entry.slices:
                continue
            if entry.shard >= self._n_shards:
                raise self._error(f"{name} is in data file {entry.shard} of {self._n_shards}")
            self._check_size(name, entry)
            end = entry.offset + entry.size
            if end > self._size_of_shard(entry.shard):
                problem = f"ends before {name}, which is at bytes {entry.offset} to {end}"
                raise self._error(problem, self._shard_path(entry.shard))
            if entry.size:
                ranges.append(_ByteRange(entry.shard, entry.offset, end))
        ranges.sort(key=lambda item: (item.shard, item.start))
        for first, second in pairwise(ranges):
            if first.shard == second.shard and first.end > second.start:
                raise self._error("two of its tensors are in the same place")

    def _check_size(self, name: str, entry: BundleEntry) -> None:
        """Compare the bytes of a tensor with its shape, if it is of a type that is read."""
        if entry.dtype not in _DTYPES:
            return
        n_bytes = math.prod(entry.shape) * self._dtype(name, entry).itemsize
        if n_bytes != entry.size:
            problem = f"{name} has {entry.size} bytes, shape {entry.shape} needs {n_bytes}"
            raise self._error(problem)


def _is_partition(slices: Sequence[Sequence[Extent]], shape: tuple[int, ...]) -> bool:
    """Whether slices, each with an extent per axis, cover each value of an array once."""
    starts = np.array([[extent.start for extent in extents] for extents in slices])
    ends = np.array([[extent.end for extent in extents] for extents in slices])
    are_inside = (starts >= 0) & (starts <= ends) & (ends <= np.array(shape))
    if not are_inside.all():
        return False
    n_values = sum(math.prod(extent.end - extent.start for extent in row) for row in slices)
    if n_values != math.prod(shape):
        return False
    for number in range(len(slices)):  # each with those after it: (slice, axis)
        overlaps = (starts[number] < ends[number + 1 :]) & (starts[number + 1 :] < ends[number])
        if overlaps.all(axis=1).any():
            return False
    return True
