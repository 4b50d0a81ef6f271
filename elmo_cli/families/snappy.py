"""Decompress blocks in the raw format of Snappy, in plain Python: they are a few kilobytes long."""

from __future__ import annotations

_MAX_RATIO = 22  # a copy of 64 bytes takes at least three
_LITERAL = 0


def decompress(data: bytes) -> bytes:
    """Decompress a block; ValueError for any other data, before much memory is taken."""
    n_bytes, position = read_varint(data, 0)
    if n_bytes > _MAX_RATIO * len(data):
        raise ValueError(f"a snappy block of {len(data)} bytes claims {n_bytes}")
    result = bytearray()
    while position < len(data):
        tag = data[position]
        if tag & 3 == _LITERAL:
            length, position = _literal_length(data, position)
            if position + length > len(data):
                raise ValueError("a snappy block is cut off")
            result += data[position : position + length]
            position += length
        else:
            length, offset, position = _copy(data, position)
            if not 0 < offset <= len(result):
                raise ValueError("a snappy block copies from before its beginning")
            _append_copy(result, offset, length)
        if len(result) > n_bytes:
            break
    if len(result) != n_bytes:
        raise ValueError(f"a snappy block claims {n_bytes} bytes and has {len(result)}")
    return bytes(result)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Read a number of up to 64 bits, seven in each byte.

    Returns the number and the position after it; ValueError if it is cut off or too long.
    """
    number = 0
    for n_bits in range(0, 70, 7):
        if position >= len(data):
            raise ValueError("a number is cut off")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << n_bits
        if byte < 0x80:
            if number >> 64:
                break
            return number, position
    raise ValueError("a number has more than 64 bits")


def _literal_length(data: bytes, position: int) -> tuple[int, int]:
    """The length of a literal and the position of its first byte."""
    length = data[position] >> 2
    position += 1
    if length < 60:
        return 1 + length, position
    n_bytes = length - 59
    if position + n_bytes > len(data):
        raise ValueError("a snappy block is cut off")
    return 1 + int.from_bytes(data[position : position + n_bytes], "little"), position + n_bytes


def _copy(data: bytes, position: int) -> tuple[int, int, int]:
    """The length and the offset of a copy, and the position after it."""
    tag = data[position]
    kind = tag & 3
    n_bytes = {1: 1, 2: 2, 3: 4}[kind]  # of the offset
    end = position + 1 + n_bytes
    if end > len(data):
        raise ValueError("a snappy block is cut off")
    offset = int.from_bytes(data[position + 1 : end], "little")
    if kind == 1:
        return 4 + (tag >> 2 & 7), offset | (tag >> 5) << 8, end
    return 1 + (tag >> 2), offset, end


def _append_copy(result: bytearray, offset: int, length: int) -> None:
    """Append bytes that begin `offset` before the end; they may overlap what is appended."""
    start = len(result) - offset
    source = result[start : start + length]
    n_times = -(-length // len(source))  # rounded up
    result += (source[:length] * n_times)[:length]
