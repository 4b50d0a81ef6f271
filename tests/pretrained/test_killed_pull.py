"""`elmo models pull`, killed before any call that changes a file, then repeated."""

from __future__ import annotations

from pathlib import Path

import pytest
from hub_server import NAME, HubServer, files_of, use
from killed_commands import KilledCommand
from local_server import LocalServer

from elmo_cli.pretrained.catalogue import Model


def pulled(folder: Path) -> dict[str, bytes]:
    paths = (folder / "home/models/tiny").iterdir()
    return {path.name: path.read_bytes() for path in paths}


@pytest.mark.parametrize(
    ("option", "is_exhaustive"),
    [
        ((), True),
        (("--overwrite",), False),
        pytest.param(("--overwrite",), True, marks=pytest.mark.slow),
    ],
)
def test_killed_download_ends_as_if_undisturbed(
    option: tuple[str, ...],
    is_exhaustive: bool,
    server: LocalServer,
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """All points of a download into an empty home; with the option it goes the same way."""
    monkeypatch.setenv("ELMO_HOME", "home")  # in the folder of each run
    words = ("models", "pull", model.name, "-q", *option)
    command = KilledCommand(words, lambda folder: None, pulled)
    n_runs = command.check(tmp_path, is_exhaustive=is_exhaustive)
    print(f"models pull: {n_runs} runs killed")


@pytest.mark.parametrize("is_hub", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_killed_download_from_a_hub_ends_as_if_undisturbed(
    is_hub: bool,
    server: LocalServer,
    tiny: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """An older model is replaced; nothing of either is left in hidden folders."""
    use(server, monkeypatch)
    HubServer(server, is_hub=is_hub).publish({**files_of(tiny), "README.md": b"# A model\n"})
    monkeypatch.setenv("ELMO_HOME", "home")  # in the folder of each run
    words = ("models", "pull", NAME, "-q", "--overwrite")
    command = KilledCommand(words, an_older_model, pulled_from_hub)
    n_runs = command.check(tmp_path, is_exhaustive=False)
    print(f"models pull {NAME}: {n_runs} runs killed")


def an_older_model(folder: Path) -> None:
    main = folder / "home/hub/ann/elmo-de/main"
    main.mkdir(parents=True)
    (main / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")


def pulled_from_hub(folder: Path) -> dict[str, bytes]:
    return files_of(folder / "home/hub/ann/elmo-de/main")
