"""Zip files of NumPy, torch and models from anywhere: limits of their size, and the arrays in them.

A member is read only if NumPy or torch can have written it: stored or deflated, so that no
dictionary is allocated before its size can be checked. An array is read only if its header states
as many bytes as the member has.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections import Counter
from collections.abc import Collection
from typing import Any, BinaryIO, Self

import numpy as np

from elmo_cli.arrays import AnyArray
from elmo_cli.files import StrPath
from elmo_cli.messages import format_bytes

MAX_RATIO = 100  # of what a zip file contains to its size; weights and tokens hardly compress
MAX_DEFLATE_RATIO = 1032  # deflate cannot compress further
MIN_LIMIT = 64 << 20  # bytes; a small file may have any ratio
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAX_MEMBERS = 10_000
_ARRAY_SUFFIX = ".npy"


def max_content(path: StrPath, max_ratio: int = MAX_RATIO) -> int:
    """The most bytes that the members of a compressed file may have together."""
    return max(MIN_LIMIT, max_ratio * os.path.getsize(path))


def check_zip(
    path: StrPath, methods: Collection[int] = _METHODS, *, max_ratio: int = MAX_RATIO
) -> None:
    """Verify the size, the names and the checksums of all members of a zip file.

    torch ignores checksums, and NumPy does not always reach them.

    Args:
        methods: the methods of compression that are accepted.
        max_ratio: the largest ratio of the content to the size of the file; see `max_content`.
    Raises:
        ValueError: a member is corrupt, occurs twice or is compressed by another method, there are
            too many members, or the content is larger than `max_content`.
        Exception: zipfile raises several types on files that are no zip files.
    """
    limit = max_content(path, max_ratio)
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        n_bytes = sum(member.file_size for member in members)
        if n_bytes > limit:
            size = format_bytes(n_bytes)
            raise ValueError(f"its content has {size}, more than {format_bytes(limit)}")
        if len(members) > _MAX_MEMBERS:
            raise ValueError(f"it has {len(members):,} members, more than {_MAX_MEMBERS:,}")
        names = Counter(member.filename for member in members)
        for name, count in names.items():
            if count > 1:
                raise ValueError(f"{name!r} occurs {count} times")
        for member in members:
            if member.compress_type not in methods:
                raise ValueError(f"{member.filename} is compressed by a method that is not used")
        corrupt_member = archive.testzip()
    if corrupt_member is not None:
        raise ValueError(f"{corrupt_member} is corrupt")


def read_npz(path: StrPath) -> dict[str, AnyArray]:
    """Read all arrays of a .npz file by name, without objects and without running code in it.

    Raises:
        ValueError: as of `check_zip` and of `NpzReader`, or a member is no array of the size that
            its header states.
        Exception: zipfile raises several types on files that are no zip files.
    """
    check_zip(path)
    with NpzReader(path) as arrays:
        return {name: arrays.read(name) for name in arrays.names}


class NpzReader:
    """The arrays of a .npz file that passed `check_zip`, read one at a time.

    Attributes:
        names: names of the arrays, in the order of the file.
        comment: that of the archive.
    Raises:
        ValueError: two members are an array of the same name.
    """

    def __init__(self, path: StrPath) -> None:
        self._archive = zipfile.ZipFile(path)
        try:
            self._members = _members_by_name(self._archive)
        except ValueError:
            self._archive.close()
            raise
        self.names = tuple(self._members)
        self.comment = self._archive.comment

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._archive.close()

    def read(self, name: str) -> AnyArray:
        """Read an array; a ValueError if its size is not the one that its header states."""
        member = self._members[name]
        with self._archive.open(member) as file:
            return _read_array(file, member)


def _members_by_name(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members of a .npz file by the names of the arrays; a ValueError if two have one name."""
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        name = member.filename.removesuffix(_ARRAY_SUFFIX)
        if name in members:
            raise ValueError(f"the array {name!r} occurs as {name} and as {name}{_ARRAY_SUFFIX}")
        members[name] = member
    return members


def _read_array(file: Any, member: zipfile.ZipInfo) -> AnyArray:
    """Read a member in the format .npy."""
    shape, is_fortran, dtype = _read_header(file)
    if dtype.hasobject:
        raise ValueError(f"{member.filename} contains Python objects")
    n_bytes = math.prod(shape) * dtype.itemsize
    n_stored = member.file_size - file.tell()
    if min(shape, default=0) < 0 or n_bytes != n_stored:
        raise ValueError(f"{member.filename} has {n_stored} bytes, its header states {n_bytes}")
    values: AnyArray = np.frombuffer(file.read(), dtype)
    if is_fortran:
        return values.reshape(shape[::-1]).T
    return values.reshape(shape)


def _read_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and dtype at the beginning of an array in the format .npy."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"an array in version {version} of the format .npy")
