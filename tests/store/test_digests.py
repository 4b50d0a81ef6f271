"""Checksums and digests: the same values with every implementation."""

from __future__ import annotations

import importlib
import sys
import zlib
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from elmo_cli.store import digests


@pytest.fixture
def isal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """An isal that counts the bytes it was given."""
    n_bytes: list[int] = []

    def crc32(content: bytes, value: int = 0) -> int:
        n_bytes.append(memoryview(content).nbytes)
        return zlib.crc32(content, value)

    with monkeypatch.context() as patch:
        package = ModuleType("isal")
        module = ModuleType("isal.isal_zlib")
        module.crc32 = crc32  # type: ignore[attr-defined]
        patch.setitem(sys.modules, "isal", package)
        patch.setitem(sys.modules, "isal.isal_zlib", module)
        importlib.reload(digests)
        yield n_bytes
    importlib.reload(digests)


def test_checksums_are_computed_by_isal_where_it_is_installed(isal: list[int]) -> None:
    values = np.arange(12, dtype="f2").reshape(3, 4)
    scales = np.ones(3, "f4")
    expected = zlib.crc32(b"name" + values.tobytes() + scales.tobytes())
    assert digests.checksum(b"name", values, scales) == expected
    assert isal == [4, 24, 12]


def test_isal_has_the_checksums_of_zlib() -> None:
    from isal import isal_zlib

    for n in (0, 1, 7, 100_003):
        content = np.random.default_rng(n).bytes(n)
        assert isal_zlib.crc32(content, 5) == zlib.crc32(content, 5)
