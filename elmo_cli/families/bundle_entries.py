"""The header and the entries in the index of a TensorFlow checkpoint, and the keys of slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

from elmo_cli.families.snappy import read_varint

_VARINT = 0  # wire types of protocol buffers
_FIXED64 = 1
_BYTES = 2
_FIXED32 = 5
_FIXED_SIZES = {_FIXED64: 8, _FIXED32: 4}
_MAX_AXES = 8
_MAX_SIZE = 1 << 48  # bytes and values; larger numbers are negative ones or corrupt
_WHOLE_AXIS = -1

ProtoField = tuple[int, int | bytes]  # its number and its value


class _HeaderField(IntEnum):
    """The numbers of fields of `BundleHeaderProto` in `tensor_bundle.proto` of TensorFlow."""

    N_SHARDS = 1
    ENDIANNESS = 2


class _EntryField(IntEnum):
    """Those of `BundleEntryProto`."""

    DTYPE = 1
    SHAPE = 2
    SHARD = 3
    OFFSET = 4
    SIZE = 5
    CHECKSUM = 6
    SLICES = 7


class _ShapeField(IntEnum):
    """Those of `TensorShapeProto` in `tensor_shape.proto`."""

    AXES = 2


class _AxisField(IntEnum):
    """Those of its `Dim`."""

    SIZE = 1


class _SliceField(IntEnum):
    """Those of `TensorSliceProto` in `tensor_slice.proto`."""

    EXTENTS = 1


class _ExtentField(IntEnum):
    """Those of its `Extent`."""

    START = 1
    LENGTH = 2


@dataclass(frozen=True)
class Extent:
    """The part of an axis that a slice has; a length of -1 means the whole axis."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """The first index after it."""
        return self.start + self.length

    def within(self, size: int) -> Extent:
        """The extent with its length, on an axis of this size."""
        return Extent(0, size) if self.length == _WHOLE_AXIS else self


@dataclass(frozen=True, kw_only=True)
class BundleEntry:
    """A tensor, or a slice of one.

    Attributes:
        dtype: a number of TensorFlow's `DataType`.
        shard, offset, size: where its bytes are: in which data file, from where, and how many.
        checksum: masked CRC-32C of its bytes.
        slices: extents of the slices of a partitioned tensor, which has no bytes of its own.
    """

    dtype: int = 0
    shape: tuple[int, ...] = ()
    shard: int = 0
    offset: int = 0
    size: int = 0
    checksum: int = 0
    slices: tuple[tuple[Extent, ...], ...] = ()


def parse_header(content: bytes) -> int:
    """Return the number of data files; ValueError for anything but a little-endian bundle."""
    numbers = {}
    for number, value in _fields(content):
        if isinstance(value, int):
            numbers[number] = value
    n_shards = numbers.get(_HeaderField.N_SHARDS, 0)
    if not 0 < n_shards < 100_000:
        raise ValueError(f"it states {n_shards} data files")
    if numbers.get(_HeaderField.ENDIANNESS, 0):
        raise ValueError("its numbers are big-endian")
    return n_shards


def parse_entry(content: bytes) -> BundleEntry:
    """Parse an entry; ValueError if it is corrupt."""
    numbers: dict[int, int] = {}
    shape: tuple[int, ...] = ()
    slices = []
    for number, value in _fields(content):
        if isinstance(value, int):
            numbers[number] = value
        elif number == _EntryField.SHAPE:
            shape = _shape(value)
        elif number == _EntryField.SLICES:
            slices.append(tuple(_extents(value)))
    if any(value >= _MAX_SIZE for value in numbers.values()):
        raise ValueError("an entry has a number that is negative or too large")
    return BundleEntry(
        dtype=numbers.get(_EntryField.DTYPE, 0),
        shape=shape,
        shard=numbers.get(_EntryField.SHARD, 0),
        offset=numbers.get(_EntryField.OFFSET, 0),
        size=numbers.get(_EntryField.SIZE, 0),
        checksum=numbers.get(_EntryField.CHECKSUM, 0),
        slices=tuple(slices),
    )


def slice_key(name: str, extents: Sequence[Extent]) -> bytes:
    """The key of a slice in the index: its name and its extents in TensorFlow's OrderedCode."""
    escaped = name.encode().replace(b"\0", b"\0\xff")  # UTF-8 has no other byte to escape
    key = b"\0" + escaped + b"\0\1" + bytes([1, len(extents)])
    for extent in extents:
        key += _ordered(extent.start) + _ordered(extent.length)
    return key


def _ordered(number: int) -> bytes:
    """A number of which the first bits state how many bytes it takes."""
    n_bytes = 1
    while not -(1 << (7 * n_bytes - 1)) <= number < 1 << (7 * n_bytes - 1):
        n_bytes += 1
    # As many ones as bytes, which the sign inverts.
    length_bits = ((1 << n_bytes) - 1) << (7 * n_bytes)
    all_bits = (1 << (8 * n_bytes)) - 1
    twos_complement = number & all_bits
    return (twos_complement ^ length_bits).to_bytes(n_bytes, "big")


def _shape(content: bytes) -> tuple[int, ...]:
    sizes = []
    for number, value in _fields(content):
        if number == _ShapeField.AXES and isinstance(value, bytes):
            size = _number(value, _AxisField.SIZE)
            if size >= _MAX_SIZE:
                raise ValueError("a shape has a size that is negative or too large")
            sizes.append(size)
    if len(sizes) > _MAX_AXES:
        raise ValueError(f"a shape has {len(sizes)} axes")
    return tuple(sizes)


def _extents(content: bytes) -> Iterator[Extent]:
    for number, value in _fields(content):
        if number == _SliceField.EXTENTS and isinstance(value, bytes):
            start = _number(value, _ExtentField.START)
            length = _number(value, _ExtentField.LENGTH, default=_WHOLE_AXIS)
            if start >= _MAX_SIZE or length >= _MAX_SIZE:
                raise ValueError("a slice has a number that is negative or too large")
            yield Extent(start, length)


def _number(content: bytes, wanted: int, default: int = 0) -> int:
    """The number in a field of a message that has only numbers."""
    found = default
    for number, value in _fields(content):
        if number == wanted and isinstance(value, int):
            found = value
    return found


def _fields(content: bytes) -> Iterator[ProtoField]:
    """Yield the fields of a protocol buffer; ValueError if it is corrupt."""
    position = 0
    while position < len(content):
        key, position = read_varint(content, position)
        number, wire_type = divmod(key, 8)
        if wire_type == _VARINT:
            value, position = read_varint(content, position)
            yield number, value
            continue
        if wire_type == _BYTES:
            n_bytes, position = read_varint(content, position)
        elif wire_type in _FIXED_SIZES:
            n_bytes = _FIXED_SIZES[wire_type]
        else:
            raise ValueError("an entry is no protocol buffer")
        end = position + n_bytes
        if end > len(content):
            raise ValueError("an entry is cut off")
        field = content[position:end]
        yield number, field if wire_type == _BYTES else int.from_bytes(field, "little")
        position = end
