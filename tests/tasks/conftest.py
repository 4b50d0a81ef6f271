"""Data files in the suite's own words, a tiny biLM, and its embeddings."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import made, only_tiny

TRAIN = """\
Anna B-PER
Berg I-PER
lives O
in O
Oslo B-LOC

Oslo B-LOC
is O
cold O

Anna B-PER
likes O
Bergen B-LOC

it O
rains O
"""
DEV = """\
Anna B-PER
Berg I-PER
likes O
Oslo B-LOC

it O
is O
cold O
"""
WORDS = "the 1 0 0\nanna 0 1 0\noslo 0 0 1\nrains 1 1 0\n"


@pytest.fixture
def folder(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with the data of a small task."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.conll").write_text(TRAIN)
    (tmp_path / "dev.conll").write_text(DEV)
    (tmp_path / "words.txt").write_text(WORDS)
    return tmp_path


def embed(text: str, output: str, *words: object) -> None:
    """Embed a data file of the folder."""
    made("embed", text, "-o", output, *words)
