"""A local server that answers as the Hugging Face hub does, or as a plain mirror of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from local_server import LocalServer, redirect

REPOSITORY = "ann/elmo-de"
NAME = f"hf:{REPOSITORY}"
COMMIT = "1" * 40
NEXT_COMMIT = "2" * 40


def files_of(folder: Path) -> dict[str, bytes]:
    """The content of the files of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class HubServer:
    """A server with one repository.

    Args:
        is_hub: it states the commit and, of HDF5 files, size and SHA-256, and redirects to another
            host for their content. A plain mirror has the files and nothing else.
    """

    def __init__(self, server: LocalServer, *, is_hub: bool = True) -> None:
        self.server = server
        self._is_hub = is_hub
        self._other_host = server.address("").replace("127.0.0.1", "localhost")

    def publish(
        self, files: dict[str, bytes], *, revision: str = "main", commit: str = COMMIT
    ) -> None:
        """Serve files as those of a revision, and of its commit."""
        for name, content in files.items():
            for served in (revision, commit):
                self._serve(self.path(name, served), content, commit)

    def path(self, name: str, revision: str = "main") -> str:
        """The path of a file on the server."""
        return f"{REPOSITORY}/resolve/{revision}/{name}"

    def content_path(self, content: bytes) -> str:
        """The path of the content of an HDF5 file on the other host."""
        return f"content/{hashlib.sha256(content).hexdigest()}"

    def requested(self) -> list[str]:
        """The paths in the repository that were requested so far."""
        begin = f"{REPOSITORY}/resolve/"
        return [path.removeprefix(begin) for path, _ in self.server.seen if path.startswith(begin)]

    def _serve(self, path: str, content: bytes, commit: str) -> None:
        if not self._is_hub:
            self.server.files[path] = content
            return
        if not path.endswith(".hdf5"):
            self.server.files[path] = content
            self.server.headers[path] = {"X_Repo_Commit": commit}
            return
        stored = self.content_path(content)
        self.server.files[stored] = content
        self.server.always[path] = redirect(
            f"{self._other_host}{stored}",
            X_Repo_Commit=commit,
            X_Linked_Etag=f'"{hashlib.sha256(content).hexdigest()}"',
            X_Linked_Size=len(content),
        )


def use(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server be the hub."""
    monkeypatch.setenv("HF_ENDPOINT", server.address(""))
