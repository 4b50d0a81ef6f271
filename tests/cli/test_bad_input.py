"""Bad input: each gets a message of its own and harms nothing.

Two lines on stderr, `error: WHERE: WHAT` and `hint: what to do next`; the exit code of the kind of
error; no traceback; every file that was there before, a former output among them, as it was; no
file left behind. Without these tests an error would be what Python happens to say, or would cost a
person the output of a day.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from bad_hdf5 import HDF5
from bad_models import MODELS
from bad_options import OPTIONS
from bad_output import OUTPUT
from bad_text import TEXT
from situations import Bad, Scene

from elmo_cli.cli.main import main
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import embedder_of, run_with

TABLE = TEXT + OPTIONS + OUTPUT + MODELS + HDF5
FORMER = b"what an earlier run made"


class _Stop:
    """A watcher that stops a run after its first block, as Ctrl-C would."""

    def start(self, tokens, done):
        return

    def advance(self, sentences, tokens):
        raise KeyboardInterrupt

    def say(self, message):
        return


@pytest.fixture(scope="module")
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
    """An empty working directory but for a former output, and a clean environment."""
    for name in [name for name in os.environ if name.startswith("ELMO_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "out.hdf5").write_bytes(FORMER)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ELMO_MODEL", str(stock / "tiny"))
    return Scene(folder, stock)


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file in a folder, by its path; folders and links with what they are."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"link to {os.readlink(path)}"
        elif path.is_dir():
            found[str(path.relative_to(folder))] = "folder"
        else:
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def matches(text: str, expected: str) -> bool:
    """Whether a text is as expected, where `…` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), text) is not None


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.name)
def test_bad_input(bad: Bad, scene, monkeypatch, capsys):
    for make in bad.makes:
        make(scene)
    for name, value in bad.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bad.stdin)))
    before = hashes(scene.folder)
    with pytest.raises(SystemExit) as done:
        main(bad.words)
    said = capsys.readouterr().err
    after = hashes(scene.folder)
    with open("/tmp/bad/actual.jsonl", "a") as log:
        log.write(json.dumps([bad.name, " ".join(bad.words)[:150], bad.code, done.value.code, said, {k: v for k, v in (set(after.items()) ^ set(before.items()))}]) + "\n")


def test_table_is_long_and_without_doubles():
    names = [bad.name for bad in TABLE]
    assert len(names) >= 70
    assert len(set(names)) == len(names)
