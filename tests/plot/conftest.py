"""Figures as matplotlib gets them, and an embeddings file with labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import made
from matplotlib.figure import Figure

LINES = """the/DT play/NN began/VBD at/IN eight/CD o'clock/CD
They/PRP play/VB ball/NN
a/DT Play/NNP in/IN three/CD acts/NNS
play/NN on/IN ,/, said/VBD the/DT play/VB director/NN

he/PRP began/VBD play/NN at/IN noon/NN
""".splitlines()
TEXT = [*LINES, " ".join(["long/JJ"] * 81)]


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that a test writes, in order."""
    written: list[Figure] = []
    save = Figure.savefig

    def recording(self: Figure, *args: Any, **kwargs: Any) -> None:
        written.append(self)
        save(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", recording)
    return written


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory: pytest.TempPathFactory, tiny: Path) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    for name, column, n in (("text.txt", 0, 7), ("text.tags", 1, 7), ("short.tags", 1, 6)):
        lines = [" ".join(word.split("/")[column] for word in line.split()) for line in TEXT[:n]]
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    (folder / "senses.txt").write_text("drama\nsport\ndrama\ndrama\n\ndrama\nother\n")
    made("embed", folder / "text.txt", "-o", folder / "text.hdf5", "-m", tiny, "-q")
    return folder


@pytest.fixture
def corpus(corpus_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An embeddings file in the working directory, next to its text and labels."""
    monkeypatch.chdir(corpus_folder)
    return Path("text.hdf5")
