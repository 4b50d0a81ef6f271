"""CRC-32C against published values and against one byte after the other."""

from __future__ import annotations

from random import Random

import pytest

from elmo_cli.families import crc32c as module
from elmo_cli.families.crc32c import masked

ROW = 4 << 14  # bytes that are read at once


def byte_by_byte(data: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


# RFC 3720, appendix B.4, and the usual check value.
PUBLISHED = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
]


@pytest.mark.parametrize(("data", "expected"), PUBLISHED)
def test_published_values(data: bytes, expected: int) -> None:
    assert module._crc_in_numpy(memoryview(data)) == expected


@pytest.mark.parametrize("n_bytes", [1, 3, 4, 1001, ROW - 1, ROW, ROW + 1, 2 * ROW + 7])
def test_any_length(n_bytes: int) -> None:
    data = Random(n_bytes).randbytes(n_bytes)
    expected = byte_by_byte(data)
    assert module._crc_in_numpy(memoryview(data)) == expected
    assert module.crc32c(memoryview(data)) == expected  # in C, if the library is installed


def test_mask() -> None:
    """LevelDB, `crc32c_test.cc`: another number, and another one if it is applied twice."""
    crc = byte_by_byte(b"foo")
    assert len({crc, masked(crc), masked(masked(crc))}) == 3
    rotated = masked(crc) - 0xA282EAD8 & 0xFFFFFFFF
    assert (rotated >> 17 | rotated << 15) & 0xFFFFFFFF == crc
