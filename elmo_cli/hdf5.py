"""Open HDF5 files safely: refuse data that is not in the file, and translate the errors of h5py.

An HDF5 file can make its reader open other files (links, external storage, virtual data sets), and
HDF5 fills in zeros for what was never written; `open_dataset` refuses both. What elmo writes is
contiguous, so that its values can be mapped into memory, and written without HDF5 (`ValueSink`).
"""

from __future__ import annotations

import math
import mmap
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import h5py
import numpy as np
from h5py import h5, h5d, h5g, h5l, h5o, h5p, h5s, h5t

from elmo_cli.arrays import AnyArray
from elmo_cli.errors import ElmoError
from elmo_cli.file_locks import NO_LOCKS
from elmo_cli.files import StrPath
from elmo_cli.isolate import MEMORY_PER_BYTE, MIN_MEMORY
from elmo_cli.messages import CORRUPT_HINT
from elmo_cli.regular_files import is_regular

# In files of elmo, the headers of data sets are in blocks of this size. HDF5 keeps a record in
# memory of the unused end of each block, so with its default of 2 KiB, memory would grow with the
# data sets.
METADATA_BLOCK_BYTES = 8 << 10
TRACKED = h5p.CRT_ORDER_TRACKED | h5p.CRT_ORDER_INDEXED
_LOSSLESS = {1, 2, 3, 4, 32000}  # deflate, shuffle, fletcher32, szip, lzf
_LAST_NUMBER = re.compile(r"[0-9]{1,18}$")
# h5py has as many kinds of error for a corrupt file as Python has.
_H5PY_ERRORS = (OSError, RuntimeError, LookupError, ValueError, TypeError, ArithmeticError)
_LOCKED = "another program has it open for writing"
_LOCKED_HINT = (
    "close it there, for example in a notebook; on a network file system, set the environment "
    "variable HDF5_USE_FILE_LOCKING=FALSE"
)
_REASONS = {  # of errors of h5py, and of pyarrow
    "signature not found": "not an HDF5 file",
    "truncated file": "truncated",
    "unable to lock file": _LOCKED,
    "No such file": "no such file",
    "Parquet file size is": "not a Parquet file",
    "Parquet magic bytes not found": "not a Parquet file, or truncated",
    "deserialize thrift": "its footer is corrupt",
}


class NoSuchNameError(KeyError):
    """A name that does not exist in a file; `reading` lets it pass."""


def open_hdf5(path: StrPath) -> h5py.File:
    """Open an HDF5 file for reading, without a lock on file systems that have none; or OSError."""
    if not is_regular(path):
        raise OSError("not a regular file")
    try:
        return h5py.File(path, "r")
    except OSError as error:
        # The second is what HDF5 says where this process has the file open without a lock.
        if error.errno not in NO_LOCKS and "file locking flag" not in str(error):
            raise
    return h5py.File(path, "r", locking=False)


def hint_of(error: Exception, default: str = CORRUPT_HINT) -> str:
    """What to do after an error of h5py; `default` unless another program has locked the file."""
    return _LOCKED_HINT if reason_of(error) == _LOCKED else default


@contextmanager
def reading(path: StrPath, error_class: type[ElmoError], part: str = "") -> Iterator[None]:
    """Raise errors of h5py as `error_class`, except NoSuchNameError; enclose h5py calls only.

    Args:
        part: what is read of the file, for the message.
    """
    try:
        yield
    except (ElmoError, NoSuchNameError):
        raise
    except _H5PY_ERRORS as error:
        problem = f"{part}: {reason_of(error)}" if part else reason_of(error)
        hint = "check the name" if isinstance(error, FileNotFoundError) else hint_of(error)
        raise error_class(problem, hint, where=str(path)) from None


def reason_of(error: Exception) -> str:
    """An error of h5py in one line."""
    text = str(error)
    for words, reason in _REASONS.items():
        if words in text:  # h5py gives no codes for its own errors
            return reason
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return text.splitlines()[0] if text else type(error).__name__


@dataclass(frozen=True, slots=True)
class StoredValues:
    """An open data set with its properties, for which HDF5 was asked once.

    Attributes:
        dataset_id, dtype_id: the data set and its dtype, as objects of h5py's low-level interface.
        offset: position of the values in the file, in bytes; None if there are none, or they are
            not contiguous.
    """

    dataset_id: Any
    shape: tuple[int, ...]
    dtype_id: Any
    offset: int | None

    @property
    def dataset(self) -> h5py.Dataset:
        """The data set as an object of h5py's high-level interface."""
        return h5py.Dataset(self.dataset_id, readonly=True)


def open_dataset(group: h5py.Group, name: str) -> h5py.Dataset:
    """Open a data set whose values are in this file, all of them and as they were written.

    Raises:
        NoSuchNameError, OSError: as `open_values`.
    """
    return open_values(group, name).dataset


def open_values(group: h5py.Group, name: str) -> StoredValues:
    """Open a data set as `open_dataset` does, in a fraction of the time.

    Raises:
        NoSuchNameError: there is no such name, or it is not a data set.
        OSError: the name is a link other than a hard one; the values are in other files, were
            never written, or went through a filter that may lose some; or the file is corrupt.
    """
    path = name.encode("utf-8", "surrogatepass")
    opened = h5g.open(group.id, b"/") if path.startswith(b"/") else group.id
    for part in path.split(b"/"):
        if not part:
            continue
        if not isinstance(opened, h5g.GroupID) or b"\0" in part:
            raise NoSuchNameError(name)
        _check_link(opened, part, name)
        opened = h5o.open(opened, part)
    if not isinstance(opened, h5d.DatasetID):
        raise NoSuchNameError(name)
    values = StoredValues(
        dataset_id=opened,
        shape=opened.get_space().get_simple_extent_dims() or (),
        dtype_id=opened.get_type(),
        offset=opened.get_offset(),
    )
    problem = _storage_problem(values)
    if problem:
        raise OSError(f"{name!r} {problem}")
    return values


def read_dataset(dataset: h5py.Dataset, selection: Any = ()) -> AnyArray:
    """Read `dataset[selection]`; OSError if the data set is corrupt or claims too many bytes."""
    if dataset.nbytes > max_content(dataset.file):
        raise OSError(f"{dataset.name} claims {dataset.nbytes} bytes, more than its file can hold")
    try:
        values: AnyArray = dataset[selection]
    except _H5PY_ERRORS as error:
        raise OSError(f"{dataset.name} can't be read: {reason_of(error)}") from None
    return values


def max_content(file: h5py.File) -> int:
    """The most bytes that a data set of a file may claim to have, also if it is compressed."""
    return MIN_MEMORY + MEMORY_PER_BYTE * int(file.id.get_filesize())


def mapped_values(dataset: h5py.Dataset) -> AnyArray | None:
    """The values as a memory map; None where they are not contiguous or cannot be mapped."""
    offset = dataset.id.get_offset()  # None where the values are not contiguous
    if offset is None or dataset.dtype.kind not in "fiu" or not dataset.size:
        return None
    content = _mapped(dataset.file, int(offset), dataset.nbytes)
    return None if content is None else content.view(dataset.dtype).reshape(dataset.shape)


def mapped_file(file: h5py.File) -> AnyArray | None:
    """The bytes of an open file as a memory map; None where it cannot be mapped."""
    return _mapped(file, 0, file.id.get_filesize())


def _mapped(file: h5py.File, begin: int, n_bytes: int) -> AnyArray | None:
    """Bytes of an open file as a memory map; None where they cannot be mapped.

    Nor are they mapped if the path of the file leads to another one by now. The descriptor of HDF5
    is not mapped, because the map would keep the lock of HDF5 after the file is closed.
    """
    start = begin - begin % mmap.ALLOCATIONGRANULARITY
    # A file system may not map files, and a corrupt file may state any position.
    with suppress(OSError, ValueError, OverflowError), open(file.filename, "rb") as opened:
        status = os.fstat(opened.fileno())
        if os.path.samestat(status, os.fstat(file.id.get_vfd_handle())):
            n_mapped = begin + n_bytes - start
            mapped = mmap.mmap(opened.fileno(), n_mapped, access=mmap.ACCESS_READ, offset=start)
            return np.frombuffer(mapped, np.uint8, n_bytes, begin - start)
    return None


def create_contiguous(
    file: h5py.File, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> h5py.Dataset:
    """Create a contiguous data set in the root, with space for its values and no values yet."""
    space = h5s.create_simple(shape)
    stored_type = h5t.py_create(dtype)
    encoded = name.encode("ascii")
    return h5py.Dataset(h5d.create(file.id, encoded, stored_type, space, contiguous()))


def contiguous() -> h5p.PropDCID:
    """Properties of a data set: contiguous, allocated at once, never filled, without times."""
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_layout(h5d.CONTIGUOUS)
    properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    properties.set_fill_time(h5d.FILL_TIME_NEVER)
    properties.set_obj_track_times(False)
    return properties


def dataset_names(group: h5py.Group, limit: int | None = None) -> Iterator[str]:
    """Yield the paths of all data sets below a group, or of `limit` members of each group.

    They are in the order of their creation where a group tracks it, otherwise in natural order. A
    link other than a hard one or a corrupt group is an OSError, a name not in UTF-8 a ValueError.
    """
    entered = set()  # addresses of groups; a corrupt file may have a circle of them
    pending = [""]
    while pending:  # not by recursion: a key with a thousand `/` makes as many groups
        path = pending.pop()
        encoded = path.encode()
        if encoded:
            try:
                _check_link(group.id, encoded, path)
            except NoSuchNameError:
                raise OSError(f"{path!r} is listed in a group that does not have it") from None
        info = h5o.get_info(group.id, encoded or b".")
        if info.type == h5o.TYPE_DATASET:
            yield path
        elif info.type == h5o.TYPE_GROUP and info.addr not in entered:
            entered.add(info.addr)
            members = _names(h5py.Group(h5g.open(group.id, encoded or b".")), limit)
            pending += [f"{path}/{member}" if path else member for member in reversed(members)]


def sample_datasets(group: h5py.Group, n: int) -> list[tuple[str, h5py.Dataset]]:
    """Open up to `n` data sets without listing millions; errors as those of `open_dataset`."""
    return [(name, open_dataset(group, name)) for name in islice(dataset_names(group, n), n)]


def _names(group: h5py.Group, limit: int | None) -> list[str]:
    """The names in a group, or up to `limit` of them."""
    names: list[bytes] = []
    order = group.id.get_create_plist().get_link_creation_order()

    def take(name: bytes) -> bool | None:
        names.append(name)
        is_enough = len(names) == limit
        return True if is_enough else None  # anything but None ends the iteration

    if limit is None and order & h5p.CRT_ORDER_TRACKED:
        group.id.links.iterate(take, idx_type=h5.INDEX_CRT_ORDER)
        return [name.decode() for name in names]
    group.id.links.iterate(take, order=h5.ITER_NATIVE)  # the order that costs least
    return sorted((name.decode() for name in names), key=_natural)


def _natural(name: str) -> tuple[str, str]:
    """Numbers at the ends of names count as numbers: `s2` is before `s10`."""
    return _LAST_NUMBER.sub(lambda number: number[0].zfill(18), name), name


def _check_link(group: Any, part: bytes, name: str) -> None:
    try:
        kind = group.links.get_info(part).type
    except _H5PY_ERRORS:
        if not group.links.exists(part):
            raise NoSuchNameError(name) from None
        raise
    if kind != h5l.TYPE_HARD:
        raise OSError(f"{name!r} is an external link or a soft link: it may lead out of the file")


def _storage_problem(values: StoredValues) -> str:
    """Why the values of a data set may not be what was written; "" if they are."""
    dataset = values.dataset_id
    n_values = math.prod(values.shape)
    if not values.shape:  # a single value, or none
        n_values = dataset.get_space().get_simple_extent_npoints()
    n_bytes = n_values * values.dtype_id.get_size()
    if n_bytes == 0:
        return ""
    # Most data sets are contiguous; HDF5 knows no offset for any other, nor for external storage.
    is_contiguous = values.offset is not None
    if is_contiguous and dataset.get_storage_size() >= n_bytes:
        return ""
    properties = dataset.get_create_plist()
    if properties.get_layout() == h5d.VIRTUAL or properties.get_external_count():
        return "has external or virtual storage: its values would come from another file"
    is_whole = dataset.get_storage_size() >= n_bytes
    if properties.get_layout() == h5d.CHUNKED:
        filters = {properties.get_filter(i)[0] for i in range(properties.get_nfilters())}
        if not filters <= _LOSSLESS:
            return "is stored with a filter that may not be lossless"
        is_whole = dataset.get_num_chunks() >= _count_chunks(values.shape, properties.get_chunk())
    return "" if is_whole else "was not written in full"


def _count_chunks(shape: tuple[int, ...], chunk_shape: tuple[int, ...]) -> int:
    """The number of chunks that cover a shape."""
    n_chunks = 1
    for size, chunk_size in zip(shape, chunk_shape, strict=True):
        n_chunks *= -(-size // chunk_size)  # rounded up
    return n_chunks
