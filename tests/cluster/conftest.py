"""What the tests of a cluster share: a text of six shards, and the file of one process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cluster_runs import LINES, end_all
from command_line import made


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24,000 lines: six shards."""
    path = tmp_path_factory.mktemp("cluster") / "text.txt"
    path.write_text("\n".join(LINES) + "\n")
    return path


@pytest.fixture(scope="session")
def whole(text: Path, tiny: Path) -> Callable[[str], Path]:
    """The file of one process, by its layout."""
    files: dict[str, Path] = {}

    def of(layout: str = "allennlp") -> Path:
        if layout not in files:
            files[layout] = text.with_name(f"{layout}.hdf5")
            words = ["-m", tiny, "-q", "--threads", "1", "--layout", layout]
            made("embed", text, "-o", files[layout], *words)
        return files[layout]

    return of


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """A run that hangs must not take the processor, and its cluster, from the tests after it."""
    yield
    end_all()
