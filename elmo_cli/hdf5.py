"""Open HDF5 files safely: refuse data that is not in the file, and translate the errors of h5py.

An HDF5 file can make its reader open other files (external links, external storage, virtual data
sets), and HDF5 fills in zeros for what was never written. `open_dataset` refuses both, so that what
is read is what the file holds.
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal, TypeVar

import h5py
import numpy as np
import numpy.typing as npt

from elmo_cli.errors import ElmoError
from elmo_cli.isolate import CORRUPT_HINT, MEMORY_PER_BYTE, MIN_MEMORY
from elmo_cli.regular_files import is_regular

_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)  # of a file system without locks
# What HDF5 says where this process has the file open already, without a lock.
_OPEN_WITHOUT_LOCK = "file locking flag"
_MAX_SOFT_LINKS = 16  # HDF5's own limit
_LOSSLESS = {
    h5py.h5z.FILTER_DEFLATE,
    h5py.h5z.FILTER_SHUFFLE,
    h5py.h5z.FILTER_FLETCHER32,
    h5py.h5z.FILTER_SZIP,
    h5py.h5z.FILTER_LZF,
}
_H5PY_ERRORS = (
    *(OSError, RuntimeError, KeyError, ValueError, TypeError),
    *(ArithmeticError, IndexError, AttributeError),
)

Id = TypeVar("Id")


class NoSuchNameError(KeyError):
    """A name that does not exist in a file; `reading` lets it pass."""

    def __str__(self) -> str:
        return str(self.args[0])


def open_hdf5(
    path: str | os.PathLike[str] | IO[bytes], mode: Literal["r", "r+"] = "r"
) -> h5py.File:
    """Open an existing HDF5 file.

    HDF5 reports a file system without locks as a file that another program has locked; such a file
    is opened without a lock.

    Raises:
        OSError: not a regular file, or an error of `h5py.File`; with an `errno` if it came from the
            system rather than from HDF5.
    """
    if isinstance(path, (str, os.PathLike)) and not is_regular(path):
        raise OSError("not a regular file")
    try:
        return h5py.File(path, mode)
    except OSError as error:
        if error.errno not in _NO_LOCKS and _OPEN_WITHOUT_LOCK not in str(error):
            raise
    return h5py.File(path, mode, locking=False)


@contextmanager
def reading(
    path: str | os.PathLike[str], error_class: type[ElmoError], hint: str = CORRUPT_HINT
) -> Iterator[None]:
    """Raise the errors of h5py as `error_class`; enclose calls of h5py and of this module only.

    `NoSuchNameError` passes, since only the caller knows what a missing name means; so does
    MemoryError.
    """
    try:
        yield
    except (ElmoError, NoSuchNameError):
        raise
    except _H5PY_ERRORS as error:
        raise error_class(f"{os.fspath(path)}: {reason_of(error, path)}", hint) from None


def reason_of(error: Exception, path: str | os.PathLike[str] = "") -> str:
    """The first line of an error of h5py, in words where it is known."""
    stored = re.search(r"truncated file: eof = (\d+).*stored_eof = (\d+)", str(error))
    if stored:
        return f"truncated: {stored[1]} of {stored[2]} bytes are left"
    if "signature not found" in str(error):
        return "not an HDF5 file"
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno)
    reason = str(error.args[0] if error.args else "") or type(error).__name__
    return reason.splitlines()[0].removeprefix(f"{os.fspath(path)}: ")


def open_dataset(group: h5py.Group, name: str) -> h5py.Dataset:
    """Open a data set whose values are in this file, all of them and as they were written.

    Args:
        group: where to begin; a file is a group too.
        name: a path below `group`, or from the root if it begins with `/`.
    Raises:
        NoSuchNameError: there is no such name, or it is not a data set.
        OSError: an external or dangling link, external or virtual storage, storage that was never
            or only partly written, a filter that is not known to be lossless, or corrupt.
    """
    dataset = _open(group, name, h5py.h5o.TYPE_DATASET, h5py.h5d.open)
    _check_storage(dataset, name)
    return h5py.Dataset(dataset, readonly=True)


def open_group(group: h5py.Group, name: str) -> h5py.Group:
    """Open a group by links inside this file.

    Raises:
        NoSuchNameError: there is no such name, or it is not a group.
        OSError: an external or dangling link, or corrupt.
    """
    return h5py.Group(_open(group, name, h5py.h5o.TYPE_GROUP, h5py.h5g.open))


def read_dataset(dataset: h5py.Dataset, selection: Any = ()) -> npt.NDArray[Any]:
    """Read a data set, or what `selection` names of it.

    Args:
        selection: what h5py takes between brackets.
    Raises:
        OSError: it claims more bytes than `max_plausible_bytes`, or is corrupt.
    """
    n_bytes = _n_bytes(dataset.id)
    if dataset.shape and selection != ():
        n_bytes = n_bytes // max(1, dataset.shape[0]) * _n_rows(dataset.shape[0], selection)
    if n_bytes > MIN_MEMORY and n_bytes > max_plausible_bytes(dataset.file):
        n_file = dataset.file.id.get_filesize()
        raise OSError(f"{dataset.name} claims {n_bytes} bytes, the file has {n_file}")
    try:
        values: npt.NDArray[Any] = dataset[selection]
    except _H5PY_ERRORS as error:
        raise OSError(f"{dataset.name} can't be read: {reason_of(error)}") from None
    return values


def max_plausible_bytes(file: h5py.File) -> int:
    """The most bytes that an array in a file can have, compressed as well as it may be."""
    return MIN_MEMORY + MEMORY_PER_BYTE * int(file.id.get_filesize())


def dataset_names(group: h5py.Group) -> Iterator[str]:
    """Yield the paths of all data sets below a group.

    Names are in the order of their creation where a group tracks it, otherwise in natural order. A
    group that has several names is entered by the first of them.

    Raises:
        OSError: an external or dangling link, a name that is not UTF-8, or corrupt.
    """
    for name, _ in _walk(group, _ordered_names):
        yield name


def sample_datasets(group: h5py.Group, n: int) -> list[tuple[str, h5py.Dataset]]:
    """Open up to `n` data sets below a group, in no order, from a few of its groups.

    Names are not sorted, which would take a second for a million of them.

    Raises:
        OSError: as `open_dataset` and `dataset_names`.
    """
    limit = n
    found: list[tuple[str, h5py.Dataset]] = []

    def some_names(group: h5py.Group, depth: int) -> list[str]:
        return _native_names(group, max(2, limit // 8**depth))

    for name, parent in _walk(group, some_names):
        found.append((name, open_dataset(parent, name.rpartition("/")[2])))
        if len(found) >= n:
            break
    return found


def tracks_creation_order(group: h5py.Group) -> bool:
    """Whether a group keeps the order in which its members were created; by default it does not."""
    # A file tells the flags of its root group only when that is opened as a group.
    flags = h5py.h5g.open(group.id, b".").get_create_plist().get_link_creation_order()
    return bool(flags & h5py.h5p.CRT_ORDER_TRACKED)


def natural_order(names: Iterable[str]) -> list[str]:
    """Sort names so that numbers at their ends count as numbers: `s2` before `s10`."""

    def parts(name: str) -> tuple[str, int, str]:
        number = re.search(r"[0-9]{1,18}$", name)
        return (name[: number.start()], int(number[0]), name) if number else (name, -1, name)

    return sorted(names, key=parts)


def _open(group: h5py.Group, name: str, kind: int, opener: Callable[[Any, bytes], Id]) -> Id:
    try:
        path = name.encode("utf-8")
    except UnicodeEncodeError:
        raise NoSuchNameError(f"no {name!r} in it") from None
    if b"\0" in path:
        raise NoSuchNameError(f"no {name!r} in it")
    parent, last = _resolve(group.id, path, name, _MAX_SOFT_LINKS)
    return _open_member(parent, last, name, kind, opener)


def _open_member(
    parent: Any, part: bytes, name: str, kind: int, opener: Callable[[Any, bytes], Id]
) -> Id:
    """Open a member of a group whose link has been checked."""
    try:
        return opener(parent, part)
    except _H5PY_ERRORS as error:
        if _kind(parent, part) not in (kind, None):
            raise NoSuchNameError(f"no {name!r} of this kind") from None
        raise OSError(f"{name!r} can't be read: {reason_of(error)}") from None


def _resolve(parent: Any, path: bytes, name: str, n_soft: int) -> tuple[Any, bytes]:
    """The group of the last component of a path, and that component; all links are checked."""
    if path.startswith(b"/"):
        parent = h5py.h5g.open(parent, b"/")
    *above, last = [part for part in path.split(b"/") if part not in (b"", b".")] or [b"."]
    for part in above:
        _check_link(parent, part, name, n_soft)
        parent = _open_member(parent, part, name, h5py.h5o.TYPE_GROUP, h5py.h5g.open)
    if last != b".":
        _check_link(parent, last, name, n_soft)
    return parent, last


def _check_link(parent: Any, part: bytes, name: str, n_soft: int) -> None:
    links = parent.links
    try:
        kind = links.get_info(part).type
    except _H5PY_ERRORS as error:
        if not links.exists(part):
            raise NoSuchNameError(f"no {name!r} in it") from None
        raise OSError(f"{name!r} can't be read: {reason_of(error)}") from None
    if kind == h5py.h5l.TYPE_HARD:
        return
    if kind != h5py.h5l.TYPE_SOFT:
        raise OSError(f"{name!r} is an external link: its data would come from another file")
    if not n_soft:
        raise OSError(f"{name!r} is a soft link that leads through too many others")
    try:
        _resolve(parent, links.get_val(part), name, n_soft - 1)
    except NoSuchNameError:
        raise OSError(f"{name!r} is a soft link to a name that does not exist") from None


def _kind(parent: Any, name: bytes) -> int | None:
    """What a name is; None where HDF5 can't tell."""
    try:
        kind: int = h5py.h5o.get_info(parent, name).type
    except _H5PY_ERRORS:
        return None
    return kind


def _check_storage(dataset: Any, name: str) -> None:
    n_bytes = _n_bytes(dataset)
    if not n_bytes:
        return
    # Most data sets are contiguous; HDF5 knows no offset for any other, nor for external storage.
    if dataset.get_offset() is not None:
        if dataset.get_storage_size() < n_bytes:
            raise OSError(f"{name!r} was not written in full")
        return
    properties = dataset.get_create_plist()
    layout = properties.get_layout()
    if layout == h5py.h5d.CHUNKED:
        _check_chunks(dataset, properties, name)
    elif layout != h5py.h5d.COMPACT and (layout != h5py.h5d.CONTIGUOUS or _is_external(properties)):
        kind = "external" if layout == h5py.h5d.CONTIGUOUS else "virtual"
        raise OSError(f"{name!r} has {kind} storage: its values would come from another file")
    elif dataset.get_storage_size() < n_bytes:
        raise OSError(f"{name!r} was never written")


def _is_external(properties: Any) -> bool:
    return bool(properties.get_external_count())


def _check_chunks(dataset: Any, properties: Any, name: str) -> None:
    for i in range(properties.get_nfilters()):
        code, *_, described = properties.get_filter(i)
        if code not in _LOSSLESS:
            which = described.decode(errors="replace") or code
            raise OSError(f"{name!r} is stored with filter {which}, which may not be lossless")
    sizes = zip(dataset.shape, properties.get_chunk(), strict=True)
    n_chunks = math.prod(-(-size // chunk) for size, chunk in sizes)
    if (n_written := dataset.get_num_chunks()) < n_chunks:
        raise OSError(f"{name!r} was not written in full: {n_written} of {n_chunks} chunks exist")


def _n_bytes(dataset: Any) -> int:
    return int(dataset.get_space().get_simple_extent_npoints()) * int(dataset.get_type().get_size())


def _n_rows(n: int, selection: Any) -> int:
    """How many of `n` rows a selection takes, at most."""
    rows = selection[0] if isinstance(selection, tuple) else selection
    if isinstance(rows, slice):
        return len(range(n)[rows])
    return 1 if isinstance(rows, (int, np.integer)) else n if rows is ... else len(rows)


def _walk(
    group: h5py.Group, names_of: Callable[[h5py.Group, int], list[str]]
) -> Iterator[tuple[str, h5py.Group]]:
    """The paths of data sets and the groups they are in; `names_of` takes a group and its depth."""
    entered = {_address(group)}
    # Not by recursion: a line with a thousand `/` as its name makes as many groups.
    stack = [("", group, iter(names_of(group, 0)))]
    while stack:
        above, group, names = stack[-1]
        name = next(names, None)
        if name is None:
            stack.pop()
            continue
        path, part = f"{above}{name}", name.encode("utf-8")
        _check_link(group.id, part, path, _MAX_SOFT_LINKS)
        info = h5py.h5o.get_info(group.id, part)
        if info.type == h5py.h5o.TYPE_DATASET:
            yield path, group
        elif info.type == h5py.h5o.TYPE_GROUP and (info.fileno, info.addr) not in entered:
            entered.add((info.fileno, info.addr))
            member = open_group(group, name)
            stack.append((f"{path}/", member, iter(names_of(member, len(stack)))))


def _address(group: h5py.Group) -> tuple[int, int]:
    info = h5py.h5o.get_info(group.id)
    return info.fileno, info.addr


def _ordered_names(group: h5py.Group, depth: int) -> list[str]:
    if not tracks_creation_order(group):
        return natural_order(_native_names(group))
    return _native_names(group, index=h5py.h5.INDEX_CRT_ORDER)


def _native_names(
    group: h5py.Group, limit: int | None = None, index: int = h5py.h5.INDEX_NAME
) -> list[str]:
    """Names of the members of a group, in the order that costs least or that of creation."""
    names: list[bytes] = []

    def take(name: bytes) -> bool | None:
        names.append(name)
        return len(names) == limit or None

    order = h5py.h5.ITER_INC if index == h5py.h5.INDEX_CRT_ORDER else h5py.h5.ITER_NATIVE
    group.id.links.iterate(take, idx_type=index, order=order)
    return [name.decode("utf-8") for name in names]
