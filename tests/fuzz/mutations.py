"""Damage done to the bytes of a sound file."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable
from functools import cache
from random import Random

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_HUGE = (
    b"-1",
    b"0",
    b"1e999",
    b"16777216",
    b"99999999999999999999",
    b"1.5",
    b"null",
    b"[]",
    b"NaN",
)
# Numbers at which sizes and offsets of a binary format go wrong.
_SIZES = (
    0,
    1,
    7,
    0x7F,
    0xFF,
    0xFFFF,
    0x7FFFFFFF,
    0xFFFFFFFF,
    1 << 40,
    (1 << 63) - 1,
    (1 << 64) - 1,
)
_LINE = 32
# What begins a part of an HDF5 file that ends in a check sum of its own.
_SIGNED = re.compile(rb"OHDR|OCHK|FRHP|FHDB|FHIB|BTHD|BTIN|BTLF|FAHD|FADB|EAHD|EAIB|EASB|EADB")
_LONGEST_PART = 160
_MASK = 0xFFFFFFFF


def mutated(content: bytes, random: Random, *, keep_length: bool = False) -> bytes:
    """`content` with one to four damages; with `keep_length` only such as leave all in place."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        line = random.choice(_lines(content))
        at = min(line + random.randrange(_LINE), len(made))
        random.choice(_IN_PLACE if keep_length else _ANY)(made, at, random)
    return bytes(made)


@cache
def _lines(content: bytes) -> tuple[int, ...]:
    """Where the content begins in a file that may be zeros for the most part."""
    starts = range(0, len(content), _LINE)
    return tuple(at for at in starts if any(content[at : at + _LINE])) or (0,)


def _flip(made: bytearray, at: int, random: Random) -> None:
    if at < len(made):
        made[at] ^= 1 << random.randrange(8)


def _byte(made: bytearray, at: int, random: Random) -> None:
    if at < len(made):
        made[at] = random.choice((0, 1, 0x7F, 0xFF, random.randrange(256)))


def _size(made: bytearray, at: int, random: Random) -> None:
    """A number of 1 to 8 bytes in little-endian order."""
    width = random.choice((1, 2, 4, 8))
    if at + width <= len(made):
        number = random.choice((*_SIZES, random.randrange(1, 4 * len(made))))
        made[at : at + width] = struct.pack("<Q", number & ((1 << 64) - 1))[:width]


def _copy_over(made: bytearray, at: int, random: Random) -> None:
    """A stretch from somewhere else."""
    length = random.choice((4, 8, 16, random.randrange(1, 600)))
    if at + length <= len(made):
        start = max(0, min(at + random.randrange(-2000, 2000), len(made) - length))
        made[at : at + length] = made[start : start + length]


def _cut(made: bytearray, at: int, random: Random) -> None:
    end = len(made) if random.random() < 0.3 else at + random.randrange(1, 64)
    del made[at:end]


def _insert(made: bytearray, at: int, random: Random) -> None:
    start = max(0, at - random.randrange(300))
    stretch = made[start : start + random.randrange(1, 300)]
    made[at:at] = random.choice((stretch, bytes(random.randrange(1, 40)), random.randbytes(8)))


def _number(made: bytearray, at: int, random: Random) -> None:
    """A decimal number by a huge or an odd one."""
    found = _NUMBER.search(made, max(0, at - 8))
    if found:
        made[found.start() : found.end()] = random.choice(_HUGE)


_IN_PLACE = (_flip, _byte, _size, _size, _copy_over)
_ANY = (*_IN_PLACE, _cut, _insert, _number, _number)


def signed_log(content: bytes, seed: bytes) -> bytes:
    """The log of an unfinished output with the right checksums, as an attacker would write it."""
    lines = (line.rpartition(b" ")[0] for line in content.splitlines())
    return b"".join(b"%s %08x\n" % (line, zlib.crc32(line)) for line in lines)


def signed_zip(content: bytes, seed: bytes) -> bytes:
    """A damaged zip of stored members in which the check sums are right again.

    Args:
        content: of the same length as `seed`.
        seed: the sound file.
    """
    made = bytearray(content)
    with zipfile.ZipFile(io.BytesIO(seed)) as archive:
        at_directory = archive.start_dir
        for member in archive.infolist():
            name, extra = struct.unpack_from("<HH", seed, member.header_offset + 26)
            start = member.header_offset + 30 + name + extra
            crc = zlib.crc32(made[start : start + member.compress_size])
            struct.pack_into("<I", made, member.header_offset + 14, crc)
            struct.pack_into("<I", made, at_directory + 16, crc)
            at_directory += 46 + sum(struct.unpack_from("<HHH", seed, at_directory + 28))
    return bytes(made)


def signed_hdf5(content: bytes, seed: bytes) -> bytes:
    """Damaged HDF5 in which the check sums are right again.

    Args:
        content: of the same length as `seed`.
        seed: the sound file.
    """
    made = bytearray(content)
    for start, end in _parts(seed):
        made[end : end + 4] = struct.pack("<I", lookup3(bytes(made[start:end])))
    return bytes(made)


@cache
def _parts(seed: bytes) -> tuple[tuple[int, int], ...]:
    """Begin and end of the parts of a file whose check sum follows them."""
    found = []
    for start in (0, *(match.start() for match in _SIGNED.finditer(seed))):
        for end in _ends(seed, start):
            if struct.pack("<I", lookup3(seed[start:end])) == seed[end : end + 4]:
                found.append((start, end))
                break
    return tuple(found)


def _ends(seed: bytes, start: int) -> Iterable[int]:
    """Where a part may end; an object header tells its own size, of the others most are short."""
    if seed[start : start + 4] != b"OHDR":
        return range(start + 8, min(start + _LONGEST_PART, len(seed) - 3))
    flags = seed[start + 5]
    at = start + 6 + (16 if flags & 0x20 else 0) + (4 if flags & 0x10 else 0)
    width = 1 << (flags & 3)
    return [at + width + int.from_bytes(seed[at : at + width], "little")]


def lookup3(content: bytes) -> int:
    """Check sum of HDF5 metadata: Bob Jenkins' lookup3 (2006, `hashlittle`), initial value 0.

    Args:
        content: at least one byte.
    """
    a = b = c = (0xDEADBEEF + len(content)) & _MASK
    *blocks, last = (content[start : start + 12] for start in range(0, len(content), 12))
    for block in blocks:
        x, y, z = struct.unpack("<III", block)
        a, b, c = _mix((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    x, y, z = struct.unpack("<III", last.ljust(12, b"\0"))
    return _final((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for turn in (4, 6, 8, 16, 19, 4):
        a = ((a - c) & _MASK) ^ _turned(c, turn)
        c = (c + b) & _MASK
        a, b, c = b, c, a
    return a, b, c


def _final(a: int, b: int, c: int) -> int:
    for turn in (14, 11, 25, 16, 4, 14, 24):
        c = ((c ^ b) - _turned(b, turn)) & _MASK
        a, b, c = b, c, a
    return b


def _turned(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (32 - bits))) & _MASK
