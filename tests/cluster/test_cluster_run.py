"""Jobs on a fake Ray: whichever workers live, the merged shards are the file of one process."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from disks import disk_of
from fake_ray import FakeRay
from fsspec.implementations.memory import MemoryFileSystem

from elmo_cli.cluster.shard_folder import LocalFolder
from elmo_cli.cluster.worker import EmbedWorker
from elmo_cli.embed import blocks
from elmo_cli.embed.job import EmbedJob
from elmo_cli.errors import ElmoError, InputError, ModelError
from elmo_cli.text.input import InputSettings

UseRay = Callable[[FakeRay], Any]
CheckMerged = Callable[[EmbedJob], None]


def run_on(use_ray: UseRay, job: EmbedJob, workers: int = 2, **fake: Any) -> list[Any]:
    """The pieces of a run."""
    cluster = use_ray(FakeRay(**fake))
    result = cluster.embed_on_cluster(job, cluster.ClusterSettings(workers=workers))
    return list(result.pieces)


def computed(pieces: list[Any]) -> list[int]:
    """Numbers of the pieces that were computed; all shards exist."""
    assert not any(piece.error for piece in pieces)
    return [piece.number for piece in pieces if piece.worker]


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@pytest.mark.parametrize(
    ("layout", "state", "n_lines", "seed"),
    [
        ("allennlp", "zero", 10, 1),
        ("flat", "zero", 10, 2),
        ("allennlp", "document", 18, 3),  # whose second and third shard are empty
    ],
)
def test_merged_shards_are_the_file_of_one_process(
    use_ray: UseRay,
    job: EmbedJob,
    check_merged: CheckMerged,
    monkeypatch: pytest.MonkeyPatch,
    layout: str,
    state: str,
    n_lines: int,
    seed: int,
) -> None:
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 1)
    Path("one.txt").write_text("a line .\n" * n_lines)
    job = replace(job, layout=layout, state=state)
    done: list[tuple[int, int]] = []
    cluster = use_ray(FakeRay(seed=seed))
    settings = cluster.ClusterSettings(workers=3)
    pieces = cluster.embed_on_cluster(job, settings, lambda *n: done.append(n)).pieces
    check_merged(job)
    assert sorted(contents("shards")) == [piece.name for piece in pieces]
    n_tokens = sum(len(Path(name).read_text().split()) for name in job.inputs)
    assert (done[0], done[-1], len(done)) == ((0, n_tokens), (n_tokens, n_tokens), len(pieces) + 1)
    assert (0 in [piece.n_sentences for piece in pieces]) == (state == "document")


def test_the_same_command_computes_what_is_missing(use_ray: UseRay, job: EmbedJob) -> None:
    """And removes what killed workers left of its shards, but not of another run's."""
    first = run_on(use_ray, job)
    before = contents("shards")
    Path("shards", first[2].name).unlink()
    Path("shards", f".{first[1].name}.5e.part").touch()
    Path("shards", other := f".{first[1].name.replace('of', 'OF')}.5e").touch()
    assert computed(run_on(use_ray, job)) == [3]
    assert contents("shards") == {**before, other: b""}
    assert computed(run_on(use_ray, job)) == []
    assert computed(run_on(use_ray, replace(job, dtype="float16"))) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("url", ["memory://far/a/", "file://{}/far/"])
def test_shards_behind_a_url_are_those_of_a_local_folder(
    use_ray: UseRay, job: EmbedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    far = replace(job, output=url.format(tmp_path))
    assert [len(computed(run_on(use_ray, one))) for one in (job, far, far)] == [5, 5, 0]
    files = MemoryFileSystem.store
    found = {path.rpartition("/")[2]: file.getvalue() for path, file in files.items()}
    assert (found or contents("far")) == contents("shards")


class Deaths:
    """Workers die so many times: at a piece, or when they load the model (None)."""

    def __init__(self, number: int | None, n_times: int) -> None:
        self.number, self.n_left = number, n_times

    def __call__(self, method: str, args: tuple[Any, ...]) -> bool:
        dies = self.number == (args[0].number if method == "embed" else None) and self.n_left > 0
        self.n_left -= dies
        return dies


@pytest.mark.parametrize(
    ("number", "n_times", "workers"), [(1, 2, 1), (1, 2, 2), (5, 2, 2), (3, 1, 9), (None, 1, 2)]
)
def test_the_piece_of_a_dead_worker_is_computed(
    use_ray: UseRay,
    job: EmbedJob,
    check_merged: CheckMerged,
    number: int | None,
    n_times: int,
    workers: int,
) -> None:
    pieces = run_on(use_ray, job, workers, dies=Deaths(number, n_times), seed=workers)
    assert computed(pieces) == [1, 2, 3, 4, 5]
    check_merged(job)


def fail_at_4(embed: Callable[..., Any]) -> Callable[..., Any]:
    return lambda worker, piece, text: 1 // 0 if piece.number == 4 else embed(worker, piece, text)


@pytest.mark.parametrize(
    ("how", "missing", "error", "hint"),
    [
        ("dies", [4], "given up after 3 workers died", "`batch_size`"),
        ("raises", [4], "ZeroDivisionError: integer", "internal error"),
        ("full disk", [1, 2, 3, 4, 5], "no space left", "free some space"),
        ("elsewhere", [1, 2, 3, 4, 5], "missing here", "that all machines share"),
    ],
)
def test_missing_shards_do_not_stop_the_others(
    use_ray: UseRay,
    job: EmbedJob,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
    missing: list[int],
    error: str,
    hint: str,
) -> None:
    """They leave nothing, and the same command computes them."""
    with monkeypatch.context() as patch, disk_of(1000 if how == "full disk" else 1 << 30):
        if how == "raises":
            patch.setattr(EmbedWorker, "embed", fail_at_4(EmbedWorker.embed))
        if how == "elsewhere":
            patch.setattr(LocalFolder, "names", lambda folder: set())
        pieces = run_on(use_ray, job, dies=Deaths(4, 3 if how == "dies" else 0))
    assert [piece.number for piece in pieces if piece.error] == missing
    assert error in pieces[3].error
    assert hint in pieces[3].hint
    n_left = 5 if how == "elsewhere" else 5 - len(missing)
    assert len(contents("shards")) == n_left
    assert len(computed(run_on(use_ray, job))) == 5 - n_left


@pytest.mark.parametrize(
    ("change", "deaths", "kind", "says"),
    [
        ({"model": "nosuch/"}, 0, ModelError, "nosuch: no such file"),
        ({"layers": "0,7"}, 0, ElmoError, "the model has layers 0, 1, 2"),
        ({"text": InputSettings(max_tokens=4)}, 0, InputError, "one.txt, line 1: "),
        ({}, 2, ModelError, "no worker could start: killed"),
    ],
)
def test_what_no_worker_can_do_is_refused_before_work(
    use_ray: UseRay, job: EmbedJob, change: Any, deaths: int, kind: type[ElmoError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        run_on(use_ray, replace(job, **change), dies=Deaths(None, deaths))
    assert contents("shards") == {}


def test_machines_with_different_models_are_refused(
    use_ray: UseRay, job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their shards could not be merged."""
    load, hashes = EmbedWorker.load, ["a", "b"]
    monkeypatch.setattr(EmbedWorker, "load", lambda w: {**load(w), "model_sha256": hashes.pop()})
    with pytest.raises(ModelError, match=r"model_sha256 is '.' on one machine, '.' on another"):
        run_on(use_ray, job)


def test_workers_do_not_depend_on_the_working_folder(
    use_ray: UseRay, job: EmbedJob, check_merged: CheckMerged, tmp_path: Path
) -> None:
    """Ray starts them elsewhere; the model keeps its name in the attributes."""
    inputs = tuple(os.path.abspath(name) for name in job.inputs)
    Path("model").symlink_to(str(job.model))
    job = replace(job, inputs=inputs, model="model")
    run_on(use_ray, job, dies=lambda method, args: os.chdir("/") is not None)
    os.chdir(tmp_path)
    check_merged(job)


def test_ray_reserves_what_the_workers_need(use_ray: UseRay, job: EmbedJob) -> None:
    started: list[dict[str, Any]] = []
    ray = FakeRay(init=lambda **options: started.append(options))
    cluster = use_ray(ray)
    cluster.embed_on_cluster(job, cluster.ClusterSettings(workers=3, threads=2, gpus=0.5))
    assert (ray.options["num_cpus"], ray.options["num_gpus"]) == (2, 0.5)
    assert ray.options["max_restarts"] > 0
    cluster.embed_on_cluster(job, cluster.ClusterSettings(address="10.0.0.1:6379"))
    assert [one["address"] for one in started] == ["local", "10.0.0.1:6379"]
    assert [one.get("num_cpus") for one in started] == [6, None]
