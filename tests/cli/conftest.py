"""What the tests of the command share: sound files to copy from, and a place to run in."""

from __future__ import annotations

import os
import shutil

import pytest
from situations import Scene, file

from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import embedder_of, run_with

FORMER = b"what an earlier run made"


class _Stop:
    """A watcher that stops a run after its first block, as Ctrl-C would."""

    def start(self, tokens, done):
        return

    def advance(self, tokens):
        raise KeyboardInterrupt


@pytest.fixture(scope="session")
def stock(tmp_path_factory, tiny, odd):
    """Sound files: models, embeddings, shards of 1,400 lines, an unfinished run of them."""
    folder = tmp_path_factory.mktemp("stock")
    for model in (tiny, odd):
        shutil.copytree(model, folder / model.name)
    (folder / "ok.txt").write_text("The cat sat .\nIt slept .\n")
    (folder / "long.txt").write_text("The cat .\n" * 1400)
    (folder / "other.txt").write_text("The dog .\n" * 1400)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _embed("ok.txt", "ok.hdf5")
        _embed("ok.txt", "bilm.hdf5", layout="bilm")
        for i in (1, 2):
            _embed("long.txt", f"part-{i}.hdf5", shard=(i, 2))
        _embed("long.txt", "top-2.hdf5", shard=(2, 2), layers="top")
        _embed("other.txt", "text-2.hdf5", shard=(2, 2))
        with pytest.raises(KeyboardInterrupt):
            _embed("long.txt", "long.hdf5", watcher=_Stop())
    return folder


def _embed(name, out, watcher=None, **settings):
    job = EmbedJob(inputs=(name,), output=out, model="./tiny", **settings)
    run_with(job, embedder_of(job), watcher)


@pytest.fixture
def scene(tmp_path, stock, monkeypatch):
    """A working directory with a sound text and a former output, and a clean environment."""
    for name in [name for name in os.environ if name.startswith("ELMO_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ELMO_HOME", str(folder / "home"))
    monkeypatch.setenv("ELMO_MODEL", str(stock / "tiny"))
    made = Scene(folder, stock)
    file("out.hdf5", FORMER)(made)
    file("a.txt")(made)
    return made
