"""Damage in files with checksums: a model is refused, or it is the same model."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from families.checkpoint_files import DATA, INDEX, checkpoint
from fuzz.mutations import mutated

from elmo_cli.errors import ElmoError
from elmo_cli.pretrained.load import load

N_DAMAGES = int(os.environ.get("ELMO_DAMAGES", "8"))


@pytest.mark.parametrize("name", [INDEX, DATA])
def test_no_damage_gives_other_vectors(name: str, tmp_path: Path) -> None:
    """What is damaged may be an accumulator, which embedding does not read."""
    folder = checkpoint("full", tmp_path / "full")
    expected = load(folder).sha256
    content = (folder / name).read_bytes()
    n_refused = 0
    for damage in range(N_DAMAGES):
        (folder / name).write_bytes(mutated(content, Random(damage)))
        try:
            found = load(folder).sha256
        except ElmoError:
            n_refused += 1
        else:
            assert found == expected
    assert n_refused > N_DAMAGES // 5
