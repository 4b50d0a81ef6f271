"""What the tests of the command share: sound files to copy from, and a place to run in."""

from __future__ import annotations

import shutil

import pytest
from command_line import elmo, only_tiny, refused
from situations import CommandScene, file

from elmo_cli.cli import console
from elmo_cli.embed import blocks
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import run_job
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.pretrained.model_files import write_parts
from elmo_cli.store.shard_number import ShardNumber

FORMER = b"what an earlier run made"


def stop(done: int, total: int | None) -> None:
    """Stop a run after its first block, as Ctrl-C would."""
    if done:
        raise KeyboardInterrupt


@pytest.fixture(scope="session")
def stock(tmp_path_factory, tiny, odd):
    """Sound files: models, embeddings, shards of 1,400 lines, an unfinished run of them."""
    folder = tmp_path_factory.mktemp("stock")
    for model in (tiny, odd):
        shutil.copytree(model, folder / model.name)
    (folder / "ok.txt").write_text("The cat sat .\nIt slept .\n")
    (folder / "long.txt").write_text("The cat .\n" * 1400)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        _embed("ok.txt", "ok.hdf5")
        for number in (1, 2):
            _embed("long.txt", f"part-{number}.hdf5", shard=ShardNumber(number, 2))
        _embed(
            "long.txt",
            "top-2.hdf5",
            shard=ShardNumber(2, 2),
            embedder=EmbedderSettings(layers="top"),
        )
        with pytest.raises(KeyboardInterrupt):
            _embed("long.txt", "long.hdf5", progress=stop)
    return folder


def _embed(name, out, progress=None, **settings):
    job = EmbedJob(inputs=(name,), output=out, model=ModelSource("./tiny"), **settings)
    run_job(job, progress=progress)


@pytest.fixture
def folder(tmp_path, tiny, monkeypatch):
    """An empty working directory, where $ELMO_MODEL is a small model and nothing else is set."""
    only_tiny(monkeypatch, tiny)
    monkeypatch.setenv("ELMO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def language_model(folder, tiny, golden):
    """A folder with `model`, a language model, and `text`; $ELMO_MODEL has no softmax."""
    shutil.copytree(tiny, folder / "model")
    for name in ("softmax.hdf5", "vocab.txt"):
        shutil.copy(golden / "lm" / name, folder / "model")
    write_parts(folder / "model")
    shutil.copy(golden / "lm" / "sentences.txt", folder / "text")


@pytest.fixture
def stop_run(monkeypatch):
    """From a command line to its run, stopped after a block of three lines as by Ctrl-C."""

    def stop_display(display, done, total):
        stop(done, total)

    def run(*words):
        monkeypatch.setattr(blocks, "SENTENCES", 3)
        with monkeypatch.context() as patch:
            patch.setattr(console.ProgressDisplay, "update", stop_display)
            refused(elmo(*words), 130, "interrupted", "`--resume`")

    return run


@pytest.fixture
def scene(tmp_path, stock, monkeypatch):
    """A working directory with a sound text and a former output, and a clean environment."""
    only_tiny(monkeypatch, stock / "tiny")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ELMO_HOME", str(folder / "home"))
    scene = CommandScene(folder, stock)
    for make in (file("out.hdf5", FORMER), file("a.txt")):
        make(scene)
    return scene
