"""An empty $ELMO_HOME, a local HTTP server, and a tiny model that it serves."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_server import LocalServer

from elmo_cli.pretrained import catalogue
from elmo_cli.pretrained.catalogue import CATALOGUE, Model, RemoteFile


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
def model(tiny: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A published model that the local server has, with the SHA-256 of its weights."""
    for name in ("options.json", "weights.hdf5"):
        server.files[name] = (tiny / name).read_bytes()
    options, weights = (server.address(name) for name in server.files)
    content = server.files["weights.hdf5"]
    sha256 = hashlib.sha256(content).hexdigest()
    files = (
        RemoteFile("options.json", (options,)),
        RemoteFile("weights.hdf5", (weights,), bytes=len(content), sha256=sha256),
    )
    made = Model("tiny", "a tiny model", "none", files=files, dim=16)
    monkeypatch.setitem(catalogue._BY_NAME, made.name, made)
    monkeypatch.setattr(catalogue, "CATALOGUE", (*CATALOGUE, made))
    return made
