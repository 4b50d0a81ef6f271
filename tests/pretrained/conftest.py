"""An empty $ELMO_HOME, short waits, a local HTTP server, and a tiny model that it serves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_server import LocalServer

from elmo_cli.pretrained import catalogue, download
from elmo_cli.pretrained.catalogue import CATALOGUE, Model, RemoteFile


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty $ELMO_HOME, whatever the machine has set."""
    for name in ("ELMO_OFFLINE", "http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr(download, "TIMEOUT_S", 5.0)  # of a busy machine
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def server() -> Iterator[LocalServer]:
    local = LocalServer()
    yield local
    local.close()


@pytest.fixture
def model(tiny: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model of the catalogue that the local server has, with the SHA-256 of its weights."""
    server.files = {name: (tiny / name).read_bytes() for name in ("options.json", "weights.hdf5")}
    content = server.files["weights.hdf5"]
    options = RemoteFile("options.json", (server.address("options.json"),))
    weights = RemoteFile(
        name="weights.hdf5",
        addresses=(server.address("weights.hdf5"),),
        bytes=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    model = Model("tiny", files=(options, weights), dim=16)
    monkeypatch.setitem(catalogue._BY_NAME, "tiny", model)
    monkeypatch.setattr(catalogue, "CATALOGUE", (*CATALOGUE, model))
    return model
