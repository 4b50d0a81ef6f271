"""Jobs on a fake Ray: whichever workers live, the merged shards are the file of one process."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from disks import disk_of
from fake_ray import Deaths
from fsspec.implementations.memory import MemoryFileSystem

from elmo_cli.cluster.shard_folder import LocalFolder
from elmo_cli.embed import blocks
from elmo_cli.embed.settings import EmbedderSettings
from elmo_cli.errors import ElmoError, InputError, ModelError, UsageError
from elmo_cli.pretrained.load import ModelSource
from elmo_cli.store.spec import FileSpec
from elmo_cli.text.input import InputSettings


def contents(folder: str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def computed(pieces: list[Any]) -> list[int]:
    """Numbers of the pieces that were computed; all shards exist."""
    assert not any(piece.error for piece in pieces)
    return [piece.number for piece in pieces if piece.worker]


@pytest.mark.parametrize(
    ("layout", "state", "n_lines"),
    [("allennlp", "zero", 10), ("flat", "zero", 10), ("allennlp", "document", 18)],
)
def test_merged_shards_are_the_file_of_one_process(
    scene: Any, monkeypatch: pytest.MonkeyPatch, layout: str, state: str, n_lines: int
) -> None:
    """Also if a long document leaves shards empty."""
    monkeypatch.setattr(blocks, "_OPEN_DOCUMENT", 1)
    Path("one.txt").write_text("a line .\n" * n_lines)
    scene.ray.order = random.Random(n_lines)
    job = replace(scene.job, file=FileSpec(layout), embedder=EmbedderSettings(state))
    done: list[tuple[int, int]] = []

    def note(n_done: int, n_tokens: int) -> None:
        done.append((n_done, n_tokens))

    pieces = scene.run(job, note, workers=3)
    scene.check_merged(job)
    assert sorted(os.listdir("shards")) == [piece.name for piece in pieces]
    n_tokens = sum(len(Path(name).read_text().split()) for name in job.inputs)
    assert (done[0], done[-1], len(done)) == ((0, n_tokens), (n_tokens, n_tokens), len(pieces) + 1)
    assert (0 in [piece.n_sentences for piece in pieces]) == (state == "document")


def test_the_same_command_computes_what_is_missing(scene: Any) -> None:
    """And removes what killed workers left of its shards, but not of another run's."""
    first = scene.run()
    before = contents("shards")
    Path("shards", first[2].name).unlink()
    Path("shards", f".{first[1].name}.5e.part").touch()
    other = f".{first[1].name.replace('of', 'OF')}.5e"
    Path("shards", other).touch()
    counts: list[tuple[int, ...]] = []
    assert computed(scene.run(progress=lambda *done: counts.append(done))) == [3]
    assert counts == [(161 - 39, 161), (161, 161)]
    assert contents("shards") == {**before, other: b""}
    assert computed(scene.run()) == []
    half = replace(scene.job, embedder=EmbedderSettings(dtype="float16"))
    assert computed(scene.run(half)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("url", ["memory://far/a/", "file://{}/far/"])
def test_shards_behind_a_url_are_those_of_a_local_folder(
    scene: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setattr(MemoryFileSystem, "store", {})
    monkeypatch.setattr(MemoryFileSystem, "pseudo_dirs", [""])
    far = replace(scene.job, output=url.format(tmp_path))
    assert [len(computed(scene.run(job))) for job in (scene.job, far, far)] == [5, 5, 0]
    files = MemoryFileSystem.store
    stored = {path.rpartition("/")[2]: file.getvalue() for path, file in files.items()}
    assert (stored or contents("far")) == contents("shards")


@pytest.mark.parametrize(
    ("number", "n_times", "workers"), [(1, 2, 1), (1, 2, 2), (5, 2, 2), (3, 1, 9), (None, 1, 2)]
)
def test_the_piece_of_a_dead_worker_is_computed(
    scene: Any, number: int | None, n_times: int, workers: int
) -> None:
    scene.ray.dies = Deaths(number, n_times)
    assert computed(scene.run(workers=workers)) == [1, 2, 3, 4, 5]
    scene.check_merged()


def fail_at_4(embed: Callable[..., Any]) -> Callable[..., Any]:
    def embed_or_fail(worker: Any, work: Any) -> Any:
        if work.piece.number == 4:
            raise ZeroDivisionError("integer division or modulo by zero")
        return embed(worker, work)

    return embed_or_fail


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
    scene: Any, monkeypatch: pytest.MonkeyPatch, how: str, missing: Any, error: str, hint: str
) -> None:
    """They leave nothing, and the same command computes them."""
    scene.ray.dies = Deaths(4, 3 if how == "dies" else 0)
    with monkeypatch.context() as patch, disk_of(1000 if how == "full disk" else 1 << 30):
        if how == "raises":
            patch.setattr(
                scene.cluster.EmbedWorker, "embed", fail_at_4(scene.cluster.EmbedWorker.embed)
            )
        if how == "elsewhere":
            patch.setattr(LocalFolder, "names", lambda folder: set())
        pieces = scene.run()
    assert [piece.number for piece in pieces if piece.error] == missing
    assert error in pieces[3].error
    assert hint in pieces[3].hint
    n_left = 5 if how == "elsewhere" else 5 - len(missing)
    assert len(os.listdir("shards")) == n_left
    assert len(computed(scene.run())) == 5 - n_left


@pytest.mark.parametrize(
    ("change", "deaths", "kind", "says"),
    [
        ({"model": ModelSource("nosuch/")}, 0, ModelError, "nosuch: no such file"),
        ({"text": InputSettings(max_tokens=4)}, 0, InputError, "one.txt, line 1: "),
        ({}, 2, ModelError, "no worker could start: killed"),
    ],
)
def test_what_no_worker_can_do_is_refused_before_work(
    scene: Any, change: Any, deaths: int, kind: type[ElmoError], says: str
) -> None:
    scene.ray.dies = Deaths(None, deaths)
    with pytest.raises(kind, match=says):
        scene.run(replace(scene.job, **change))
    assert os.listdir("shards") == []


def without_its_end(text: str) -> str:
    return text[:-9]


def twice(text: str) -> str:
    return text + text


@pytest.mark.parametrize(
    ("change", "missing"),
    [(without_its_end, [5]), (twice, [5]), (str.upper, [3, 4, 5])],
)
def test_a_text_that_changes_after_the_scan_is_refused(
    scene: Any, change: Callable[[str], str], missing: list[int]
) -> None:
    """Otherwise shards would be named after a text that they do not hold."""
    text = Path("two.txt")
    before = text.read_text()

    def change_text(done: int, total: int) -> None:
        text.write_text(change(before))

    pieces = scene.run(progress=change_text)
    assert [piece.number for piece in pieces if piece.error] == missing
    assert "changed while it was read" in pieces[4].error
    assert len(os.listdir("shards")) == 5 - len(missing)


def test_machines_with_different_models_are_refused(
    scene: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their shards could not be merged."""
    load = scene.cluster.EmbedWorker.load
    hashes = ["a", "b"]

    def load_another_model(worker: Any, beginning: Any) -> Any:
        model = load(worker, beginning)
        return replace(model, attributes={**model.attributes, "model_sha256": hashes.pop()})

    monkeypatch.setattr(scene.cluster.EmbedWorker, "load", load_another_model)
    with pytest.raises(ModelError, match=r"model_sha256 is '.' on one machine, '.' on another"):
        scene.run()


def test_workers_do_not_depend_on_the_working_folder(scene: Any, tmp_path: Path) -> None:
    """Ray starts them elsewhere; the model keeps its name in the attributes."""
    Path("model").symlink_to(str(scene.job.model.name_or_path))
    inputs = tuple(os.path.abspath(name) for name in scene.job.inputs)
    scene.ray.folder = "/"
    job = replace(scene.job, inputs=inputs, model=ModelSource("model"))
    scene.run(job)
    assert os.getcwd() == str(tmp_path)
    scene.check_merged(job)


def test_ray_reserves_what_the_workers_need(scene: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with a GPU has as many threads as torch starts."""
    n_threads: list[int | None] = []
    monkeypatch.setattr(scene.cluster, "set_num_threads", n_threads.append)
    with pytest.raises(UsageError, match=r"`gpus_per_worker=0.5`: this machine has 0 GPUs"):
        scene.run(gpus=0.5)
    scene.ray.has["GPU"] = 1.0
    scene.run(workers=3, threads=2, gpus=0.5)
    assert (scene.ray.options["num_cpus"], scene.ray.options["num_gpus"]) == (2, 0.5)
    assert scene.ray.options["max_restarts"] > 0
    assert set(n_threads) == {None}
    n_threads.clear()
    scene.run(address="10.0.0.1:6379", threads=2)
    assert set(n_threads) == {2}
    assert [options["address"] for options in scene.ray.started[1:]] == ["local", "10.0.0.1:6379"]
    assert [options.get("num_cpus") for options in scene.ray.started[1:]] == [6, None]
