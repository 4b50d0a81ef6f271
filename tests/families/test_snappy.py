"""Snappy blocks: what they contain, and what no compressor writes."""

from __future__ import annotations

import pytest

from elmo_cli.families.snappy import decompress, read_varint

LONG = bytes(range(256)) * 2
BLOCKS = {
    "nothing": (b"\x00", b""),
    "a literal": (b"\x03\x08abc", b"abc"),
    "a literal with a length of one byte": (b"\x46\xf0\x45" + LONG[:70], LONG[:70]),
    "a literal with a length of two bytes": (b"\x80\x04\xf4\xff\x01" + LONG, LONG),
    "a copy with an offset of one byte": (b"\x09\x0cabcd\x05\x04", b"abcdabcda"),
    "a copy with an offset of two bytes": (b"\x08\x0cabcd\x0e\x04\x00", b"abcdabcd"),
    "a copy with an offset of four bytes": (b"\x08\x0cabcd\x0f\x04\x00\x00\x00", b"abcdabcd"),
    "a copy of itself": (b"\x09\x00a\x1e\x01\x00", b"a" * 9),
}
CORRUPT = [
    (b"", "a number is cut off"),
    (b"\x03\x08ab", "a snappy block is cut off"),
    (b"\x09\x0cabcd\x05", "a snappy block is cut off"),
    (b"\x09\x0cabcd\x05\x05", "copies from before its beginning"),
    (b"\x09\x0cabcd\x05\x00", "copies from before its beginning"),
    (b"\x04\x08abc", "claims 4 bytes and has 3"),
    (b"\x02\x08abc", "claims 2 bytes and has 3"),
    (b"\x03\xf4", "a snappy block is cut off"),
    (b"\xff\xff\xff\xff\x0f\x08abc", "a snappy block of 9 bytes claims 4294967295"),
    (b"\xff" * 9 + b"\x7f", "more than 64 bits"),
]


@pytest.mark.parametrize(("block", "content"), BLOCKS.values(), ids=BLOCKS)
def test_blocks(block: bytes, content: bytes) -> None:
    assert decompress(block) == content


@pytest.mark.parametrize(("block", "problem"), CORRUPT)
def test_corrupt_blocks_are_refused(block: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        decompress(block)


def test_numbers() -> None:
    assert read_varint(b"\xac\x02\x05", 0) == (300, 2)
    assert read_varint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)
