"""write_numbers: numbers from a spool as an attribute, in a third of the memory that HDF5 takes.

HDF5 takes the values of an attribute as a whole, and copies them twice. When it creates a large
attribute, it appends zeros to the file, after a header with the name. The values are written over
these zeros, without HDF5. The file has the bytes that HDF5 would have written.
"""

from __future__ import annotations

import struct
from typing import IO

import h5py
from h5py import h5a, h5s, h5t

from elmo_cli.store.layouts.spool import Spool

_MIN_BYTES = 1 << 18  # a smaller attribute may be anywhere in the file
_SEARCHED_BYTES = 1 << 16  # before and after the former end of the file
# Version of the format, flags, sizes of the name, the type and the extent, encoding of the name.
_HEADER = struct.Struct("<BBHHHB")
_HEADER_VERSION = 3


def write_numbers(file: h5py.File, name: str, numbers: Spool) -> None:
    """Write an attribute of the root, (number,)."""
    if len(numbers) * numbers.dtype.itemsize < _MIN_BYTES:
        file.attrs.create(name, numbers.array())
        return
    former_end = file.id.get_filesize()
    space = h5s.create_simple((len(numbers),))
    attribute = h5a.create(file["/"].id, name.encode(), h5t.py_create(numbers.dtype), space)
    with open(file.filename, "r+b") as opened:
        address = _address_of_values(opened, name, former_end)
        if address is None:
            attribute.write(numbers.array())
            return
        opened.seek(address)
        for chunk in numbers.chunks():
            opened.write(chunk.data)


def _address_of_values(opened: IO[bytes], name: str, former_end: int) -> int | None:
    """Where the zeros of a new attribute are in the file; None if they are not found."""
    begin = max(0, former_end - _SEARCHED_BYTES)
    opened.seek(begin)
    content = opened.read(2 * _SEARCHED_BYTES)
    encoded = name.encode() + b"\0"
    position = content.find(encoded, _HEADER.size)
    if position < 0:
        return None
    header = _HEADER.unpack_from(content, position - _HEADER.size)
    version, _, name_size, type_size, space_size, _ = header
    values: int = position + name_size + type_size + space_size
    is_header = version == _HEADER_VERSION and name_size == len(encoded)
    has_zeros = bool(content[values:]) and not any(content[values:])
    if not (is_header and has_zeros):
        return None
    return begin + values
