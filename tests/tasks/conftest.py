"""Data files in the suite's own words, a tiny biLM, and its embeddings."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import made, only_tiny
from data_files import NER_DATA


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiny biLM, and the data of a small task in the working directory."""
    only_tiny(monkeypatch, tiny)
    for name, text in NER_DATA.items():
        Path(name).write_text(text)


@pytest.fixture(scope="session")
def embedded_data(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the data of `folder`, and with their vectors in `vectors`."""
    path = tmp_path_factory.mktemp("embedded")
    for name, text in NER_DATA.items():
        (path / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        only_tiny(patch, tiny)
        patch.chdir(path)
        made("embed", "train.conll", "dev.conll", "-o", "vectors/", "--layout", "flat")
    return path


@pytest.fixture
def embedded(folder: None, embedded_data: Path) -> None:
    """The same files in the working directory."""
    shutil.copytree(embedded_data / "vectors", "vectors")
