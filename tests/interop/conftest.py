"""The files of a model, as AllenNLP takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from allennlp_calls import Files


@pytest.fixture
def files(tiny: Path) -> Files:
    return tiny / "options.json", tiny / "weights.hdf5"
