"""A scene for the tests of clusters: a text of five shards, and a fake Ray."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import made
from embedders import cached_embedder
from fake_ray import FakeRay

from elmo_cli.cluster import pieces
from elmo_cli.embed import blocks
from elmo_cli.embed.job import EmbedJob
from elmo_cli.pretrained.load import ModelSource

LINES = [f"line {i} has {'some ' * (i % 4)}tokens ." for i in range(25)]


def ignore(done: int, total: int) -> None:
    """No progress is shown."""


class Scene:
    """A job in the working folder: nine blocks of three sentences in two files, five shards.

    Attributes:
        job: writes to shards/.
        ray: its fake Ray.
        cluster: `elmo_cli.cluster.run`, imported with the fake Ray.
    """

    cluster: Any

    def __init__(self, model: Path) -> None:
        Path("one.txt").write_text("\n".join(LINES[:10]) + "\n")
        Path("two.txt").write_text("\n".join(LINES[10:]) + "\n")
        self.job = EmbedJob(("one.txt", "two.txt"), "shards/", model=ModelSource(str(model)))
        self.ray = FakeRay()

    def run(
        self,
        job: EmbedJob | None = None,
        progress: Callable[[int, int], object] = ignore,
        **settings: Any,
    ) -> list[Any]:
        """Run a job with two workers, or other settings of the cluster; its pieces."""
        where = self.cluster.ClusterSettings(**{"workers": 2, **settings})
        return list(self.cluster.embed_on_cluster(job or self.job, where, progress).pieces)

    def check_merged(self, job: EmbedJob | None = None) -> None:
        """Check that the merged shards are the file of one process, byte for byte."""
        job = job or self.job
        words = ["--layout", job.file.layout, "--state", job.embedder.state, "--overwrite"]
        words += ["-m", job.model.name_or_path]
        made("embed", *job.inputs, "-o", "whole.hdf5", *words)
        made("merge", *Path(job.output).glob("part-*"), "-o", "merged.hdf5", "--overwrite")
        assert Path("merged.hdf5").read_bytes() == Path("whole.hdf5").read_bytes()


@pytest.fixture
def scene(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    scene = Scene(tiny)
    for name, module in scene.ray.modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    sys.modules.pop("elmo_cli.cluster.run", None)
    scene.cluster = importlib.import_module("elmo_cli.cluster.run")
    monkeypatch.setattr(scene.cluster, "make_embedder", cached_embedder)
    monkeypatch.setattr(pieces, "BLOCKS_PER_PIECE", 2)
    yield scene
    sys.modules.pop("elmo_cli.cluster.run", None)


@pytest.fixture
def job(scene: Scene) -> EmbedJob:
    return scene.job
