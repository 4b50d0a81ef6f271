"""Damaged files of every kind: read or refused, never a crash, a hang or a grab for memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from targets import TARGETS

from elmo_cli import isolate

N_DAMAGES = int(os.environ.get("ELMO_DAMAGES", "7"))  # `make fuzz` asks for more


@pytest.fixture(autouse=True, scope="module")
def short_cpu_time() -> Iterator[None]:
    """HDF5 is known to go round in circles; no reader of these files needs a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isolate, "MIN_CPU_SECONDS", 3)
        yield


@pytest.mark.parametrize("name", TARGETS)
def test_the_sound_files_are_read(name: str, tmp_path: Path) -> None:
    """Without this the damage might be done to what nothing would read anyway."""
    target = TARGETS[name]
    found = {target.faces(tmp_path, seed) for seed in target.seeds()}
    # Some embeddings lack what another layout would need.
    assert found == {"read"} or (name == "convert" and found == {"read", "refused"})


@pytest.mark.parametrize("damage", range(N_DAMAGES))
@pytest.mark.parametrize("name", TARGETS)
def test_a_damaged_file_is_read_or_refused(name: str, damage: int, tmp_path: Path) -> None:
    """Anything but an ElmoError, a crash outside elmo's own child, or more memory fails here."""
    target = TARGETS[name]
    target.faces(tmp_path, target.damaged(Random(f"{name} {damage}")))
