"""A text of five shards, a fake Ray, and the comparison with the file of one process."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import made
from fake_ray import FakeRay

from elmo_cli.cluster import pieces, worker
from elmo_cli.embed import blocks
from elmo_cli.embed.embedder import Embedder
from elmo_cli.embed.job import EmbedJob
from elmo_cli.embed.run import embedder_of

LINES = [f"line {i} has {'some ' * (i % 4)}tokens ." for i in range(25)]


@pytest.fixture
def job(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> EmbedJob:
    """Two files, whose nine blocks of three sentences make five shards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    monkeypatch.setattr(pieces, "BLOCKS_PER_PIECE", 2)
    Path("one.txt").write_text("\n".join(LINES[:10]) + "\n")
    Path("two.txt").write_text("\n".join(LINES[10:]) + "\n")
    return EmbedJob(inputs=("one.txt", "two.txt"), output="shards/", model=str(tiny))


@functools.cache
def embedder_for(job: EmbedJob) -> Embedder:
    return embedder_of(job)


@pytest.fixture
def use_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[FakeRay], Any]]:
    """Replaces Ray, and returns the module `elmo_cli.cluster.run`, which imports it."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(worker, "embedder_of", lambda job: embedder_for(replace(job, output="")))

    def use(ray: FakeRay) -> Any:
        for name, module in ray.modules.items():
            monkeypatch.setitem(sys.modules, name, module)
        sys.modules.pop("elmo_cli.cluster.run", None)
        return importlib.import_module("elmo_cli.cluster.run")

    yield use
    sys.modules.pop("elmo_cli.cluster.run", None)


@pytest.fixture
def check_merged(tmp_path: Path) -> Callable[[EmbedJob], None]:
    """Checks that the shards of a job, merged, are the file of one process, byte for byte."""

    def check(job: EmbedJob) -> None:
        words = ["--layout", job.layout, "--state", job.state, "-m", job.model, "--overwrite"]
        made("embed", *job.inputs, "-o", tmp_path / "whole.hdf5", *words)
        shards = sorted(Path(job.output).glob("part-*"))
        made("merge", *shards, "-o", tmp_path / "merged.hdf5", "--overwrite")
        assert (tmp_path / "merged.hdf5").read_bytes() == (tmp_path / "whole.hdf5").read_bytes()

    return check
