"""Data files in the suite's own words, a tiny biLM, and its embeddings."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import only_tiny

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


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny biLM, and the data of a small task in the working directory."""
    only_tiny(monkeypatch, tiny)
    for name, text in (("train.conll", TRAIN), ("dev.conll", DEV), ("words.txt", WORDS)):
        Path(name).write_text(text)
