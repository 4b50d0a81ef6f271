"""`elmo models pull`, killed before any call that changes a file, then repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from killed_commands import KilledCommand
from local_server import LocalServer

from elmo_cli.pretrained.catalogue import Model


def pulled(folder: Path) -> dict[str, bytes]:
    paths = (folder / "home/models/tiny").iterdir()
    return {path.name: path.read_bytes() for path in paths}


@pytest.mark.parametrize("option", [(), ("--overwrite",)])
def test_killed_download_ends_as_if_undisturbed(
    option: tuple[str, ...],
    server: LocalServer,
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """All points: a download of a tiny model is short."""
    monkeypatch.setenv("ELMO_HOME", "home")  # in the folder of each run
    words = ("models", "pull", model.name, "-q", *option)
    command = KilledCommand(words, lambda folder: None, pulled)
    n_runs = command.check(tmp_path, is_exhaustive=True)
    print(f"models pull: {n_runs} runs killed")
