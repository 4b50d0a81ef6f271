"""Damage in files with checksums: a model is refused, or it is the same model."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from families.checkpoint_files import DATA, INDEX
from fuzz import seeds
from fuzz.mutations import mutated

from elmo_cli.errors import ElmoError
from elmo_cli.pretrained.load import load

N_DAMAGES = int(os.environ.get("ELMO_DAMAGES", "6"))
ARCHIVE = "model.tar.gz"
STATE = "weights.th"


def state_files() -> dict[str, bytes]:
    """The weights are in the newer file format of PyTorch; the older one has no checksums."""
    return {**seeds.allennlp_files(), STATE: seeds.state_dictionaries()[0]}


def archive_files() -> dict[str, bytes]:
    return {ARCHIVE: seeds.allennlp_archive()}


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (seeds.checkpoint_files, INDEX),
        (seeds.checkpoint_files, DATA),
        (seeds.saved_model_files, "variables/variables.index"),
        (seeds.saved_model_files, "variables/variables.data-00000-of-00002"),
        (state_files, STATE),
        (archive_files, ARCHIVE),
    ],
)
def test_no_damage_gives_other_vectors(
    files: Callable[[], dict[str, bytes]],
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The changed bytes may be those of an accumulator or of padding, which embedding ignores."""
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    for path, content in files().items():
        (tmp_path / "model" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / path).write_bytes(content)
    model = tmp_path / "model"
    options = None
    if name == ARCHIVE:
        model = model / ARCHIVE
        options = tmp_path / "options.json"
        options.write_bytes(seeds.allennlp_files()["options.json"])
    expected = load(model, options=options).sha256
    valid = files()[name]
    n_refused = 0
    for damage in range(N_DAMAGES):
        (tmp_path / "model" / name).write_bytes(mutated(valid, Random(damage)))
        try:
            found = load(model, options=options).sha256
        except ElmoError:
            n_refused += 1
        else:
            assert found == expected
    assert n_refused > N_DAMAGES // 5
