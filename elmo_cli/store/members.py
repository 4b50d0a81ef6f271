"""What is in a group of an HDF5 file: numbers, kinds, and all datasets below it."""

from __future__ import annotations

from collections.abc import Iterator

import h5py

from elmo_cli.errors import EmbeddingsFileError
from elmo_cli.store.damage import DAMAGED, is_from_hdf5
from elmo_cli.store.naming import MOST_DIGITS, in_order
from elmo_cli.store.recognise import group_number
from elmo_cli.store.schema import MAP


def numbers(group: h5py.Group) -> list[int]:
    """All names of a group that are numbers, sorted.

    Raises:
        EmbeddingsFileError: one is too great for any sentence.
    """
    digits = [name for name in _names(group) if name.isdigit()]
    longest = max(digits, key=len, default=b"0")
    if len(longest) > MOST_DIGITS:
        what = f"a name of {len(longest)} digits is no number of a sentence"
        raise EmbeddingsFileError(f"{group.file.filename}: {what}", DAMAGED)
    return sorted(map(int, digits))


def others(group: h5py.Group) -> list[str]:
    """All names of a group but those that are numbers, and the sentence map."""
    names = [name.decode("utf-8", "backslashreplace") for name in _names(group)]
    return [
        name for name in in_order(names) if name != MAP and not (name.isascii() and name.isdigit())
    ]


def _names(group: h5py.Group) -> list[bytes]:
    names: list[bytes] = []
    group.id.links.iterate(names.append, order=h5py.h5.ITER_NATIVE)
    return names


def kind(group: h5py.Group, path: str) -> int | None:
    """What `path` is, `h5o.TYPE_DATASET` or another; None where there is nothing.

    Raises:
        EmbeddingsFileError: something is there and can't be read.
    """
    try:
        name = path.encode("utf-8")
    except UnicodeEncodeError:
        return None
    if b"\0" in name:  # no name that HDF5 could hold
        return None
    try:
        found: int = h5py.h5o.get_info(group.id, name).type
    except Exception as error:
        if not is_from_hdf5(error):
            raise
        if _is_linked(group, path):
            raise unreadable(str(group.file.filename), repr(path), error) from None
        return None
    return found


def _is_linked(group: h5py.Group, path: str) -> bool:
    try:
        return path in group
    except KeyError:  # a group on the way there can't be opened
        return True


def unreadable(file: str, what: str, error: Exception) -> EmbeddingsFileError:
    """The error for a part of a file that is there and can't be read."""
    return EmbeddingsFileError(
        f"{file}: {what} can't be read: {error}", "the file is damaged: `elmo inspect` says where"
    )


def walk(group: h5py.Group) -> Iterator[str]:
    """The paths of all datasets below `group` but the sentence map.

    In order of creation where the group keeps it, else by name, with numbers at the end of a name
    as numbers. A group that has several names is entered by the first of them.
    """
    entered = {group_number(group)}
    entering = [("", group, iter(_members(group)))]  # not by recursion, see `some_datasets`
    while entering:
        above, group, names = entering[-1]
        name = next(names, None)
        if name is None:
            entering.pop()
            continue
        path = f"{above}{name}"
        what = kind(group, name)
        if what == h5py.h5o.TYPE_GROUP:
            member = group[name]
            if (number := group_number(member)) not in entered:
                entered.add(number)
                entering.append((f"{path}/", member, iter(_members(member))))
        elif what == h5py.h5o.TYPE_DATASET and path != MAP:
            yield path


def keeps_creation(group: h5py.Group) -> bool:
    """Whether a group keeps the order in which its members were made; h5py's own do not."""
    # The root of a file gives away the flags of its creation only when it is opened as a group.
    flags = h5py.h5g.open(group.id, b".").get_create_plist().get_link_creation_order()
    return bool(flags & h5py.h5p.CRT_ORDER_TRACKED)


def _members(group: h5py.Group) -> list[str]:
    names = list(group)
    for name in names:
        if not isinstance(name, str):  # h5py gives bytes for a name that is no UTF-8
            raise unreadable(str(group.file.filename), repr(name), ValueError("no UTF-8"))
    return names if keeps_creation(group) else in_order(names)
