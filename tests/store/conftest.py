"""The paths of an output and of its unfinished part."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.hdf5"


@pytest.fixture
def part(out: Path) -> Path:
    return Path(f"{out}.part")
