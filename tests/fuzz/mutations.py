"""Damage done to the bytes of a valid file."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from functools import cache
from random import Random

from families.checkpoint_files import table_bytes

from elmo_cli.families.sorted_table import read_table

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_HUGE = (b"-1", b"0", b"1e999", b"16777216", b"9" * 20, b"1.5", b"null", b"[]", b"NaN")
# Numbers at which sizes and offsets of a binary format go wrong.
_SIZES = (
    0,
    1,
    7,
    2**7 - 1,
    2**8 - 1,
    2**16 - 1,
    2**31 - 1,
    2**32 - 1,
    2**63 - 1,
    2**64 - 1,
    2**40,
)
_LINE = 32  # bytes


def mutated(content: bytes, random: Random) -> bytes:
    """`content` with one to four damages."""
    made = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        line = random.choice(_lines(content))
        at = min(line + random.randrange(_LINE), len(made))
        random.choice(_DAMAGES)(made, at, random)
    return bytes(made)


@cache
def _lines(content: bytes) -> tuple[int, ...]:
    """Where the content begins in a file that may be zeros for the most part."""
    starts = []
    for start in range(0, len(content), _LINE):
        if any(content[start : start + _LINE]):
            starts.append(start)
    return tuple(starts) if starts else (0,)


def _byte(made: bytearray, at: int, random: Random) -> None:
    if at < len(made):
        flipped = made[at] ^ 1 << random.randrange(8)
        made[at] = random.choice((flipped, flipped, 0, 1, 0x7F, 0xFF, random.randrange(256)))


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
    number = _NUMBER.search(made, max(0, at - 8))
    if number:
        made[number.start() : number.end()] = random.choice(_HUGE)


_DAMAGES = (_byte, _byte, _size, _size, _copy_over, _cut, _insert, _number, _number)


def reordered(seed: bytes, random: Random) -> bytes:
    """The content with two stretches of equal length exchanged, which leaves its size as it is."""
    made = bytearray(seed)
    length = random.randrange(1, max(2, len(made) // 4))
    first = random.randrange(max(1, len(made) // 2 - length))
    second = random.randrange(len(made) // 2, max(len(made) // 2 + 1, len(made) - length))
    stretch = made[first : first + length]
    made[first : first + length] = made[second : second + length]
    made[second : second + length] = stretch
    return bytes(made)


def mutated_log(seed: bytes, random: Random) -> bytes:
    """The log of an unfinished output, damaged, with the right checksums, as an attacker has it."""
    signed = b""
    for line in mutated(seed, random).splitlines():
        content, _, _ = line.rpartition(b" ")
        signed += b"%s %08x\n" % (content, zlib.crc32(content))
    return signed


def mutated_table(seed: bytes, random: Random) -> bytes:
    """An index of a checkpoint with one damaged entry, and the right checksums."""
    made = {}
    entries = read_table(seed)
    chosen = random.choice(list(entries))
    for key, value in entries.items():
        if key != chosen:
            made[key] = value
        elif random.random() < 0.8:
            made[key] = mutated(value, random)
        else:
            made[mutated(key, random)] = value
    return table_bytes(made)


def mutated_zip(seed: bytes, random: Random) -> bytes:
    """A zip file with one damaged member, and the right checksums."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(seed)) as old, zipfile.ZipFile(made, "w") as new:
        chosen = random.choice(old.namelist())
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, mutated(content, random) if name == chosen else content)
    return made.getvalue()
