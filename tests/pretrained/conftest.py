"""What the tests of the room share: a home of their own, and a server on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_server import LocalServer
from tiny_model import CELL, LAYERS, PROJECTION, write_tiny_model

from elmo_cli.pretrained.catalogue import Model, RemoteFile, Sizes


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty $ELMO_HOME, no proxy and no ELMO_OFFLINE, whatever the machine has set."""
    for name in ("ELMO_OFFLINE", "http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def server() -> Iterator[LocalServer]:
    local = LocalServer()
    yield local
    local.close()


@pytest.fixture
def model(tmp_path: Path, server: LocalServer) -> Model:
    """A tiny model as it could stand in the catalogue, on the local server."""
    source = write_tiny_model(tmp_path / "source")
    for name in ("options.json", "weights.hdf5"):
        server.files[name] = (source / name).read_bytes()
    weights = server.files["weights.hdf5"]
    return Model(
        "tiny",
        "tiny",
        "English",
        "none",
        "none",
        files=(
            RemoteFile("options.json", (server.address("options.json"),)),
            RemoteFile(
                "weights.hdf5",
                (server.address("weights.hdf5"),),
                bytes=len(weights),
                sha256=hashlib.sha256(weights).hexdigest(),
            ),
        ),
        sizes=Sizes(CELL, PROJECTION, LAYERS, 1),
    )
