"""Shards in a store that fsspec leads to: the same as in a folder, whole or not at all.

No cluster: a worker's part is done here. fsspec's own file systems of this machine and of memory
are the stores; those that fail do it where the network would.
"""

from __future__ import annotations

import pickle
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cluster_runs import begun, check_whole, ended
from command_line import elmo, made
from far_stores import Bucket, Store
from fsspec.core import url_to_fs
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.registry import _registry, known_implementations

from elmo_cli.cli.clustering import _fetching
from elmo_cli.cluster import source, unfinished
from elmo_cli.cluster.actor import EmbedActor, Row
from elmo_cli.cluster.folder import folder_of
from elmo_cli.cluster.source import pieces, survey_of
from elmo_cli.cluster.unfinished import UNFINISHED
from elmo_cli.embed import blocks
from elmo_cli.embed.job import EmbedderSettings, EmbedJob, ModelSource
from elmo_cli.errors import OutputError

LINES = [f"line {i} has {'some ' * (i % 4)}tokens ." for i in range(15)]


@pytest.fixture(autouse=True)
def stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Empty ones, known to fsspec by their protocols."""
    for kind in (Store, Bucket, MemoryFileSystem):
        monkeypatch.setattr(kind, "store", {})
        monkeypatch.setattr(kind, "pseudo_dirs", [""])
    for kind in (Store, Bucket):
        monkeypatch.setitem(_registry, kind.protocol, kind)
    monkeypatch.setattr(blocks, "SENTENCES", 3)
    monkeypatch.setattr(source, "BLOCKS_PER_SHARD", 2)
    yield
    Store.clear_instance_cache()
    Bucket.clear_instance_cache()


@pytest.fixture
def job(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> EmbedJob:
    """Into a folder of this machine."""
    monkeypatch.chdir(tmp_path)  # to which a worker comes back
    (tmp_path / "text.txt").write_text("\n".join(LINES) + "\n")
    return EmbedJob(inputs=("text.txt",), output=f"{tmp_path}/near/", model=ModelSource(str(tiny)))


def worked(job: EmbedJob) -> list[Row]:
    """What a worker says of each piece."""
    found, _ = survey_of(job)
    folder_of(job, ".").make()
    actor = EmbedActor(job, found, ".", 1)
    batch = actor({"piece": [pickle.dumps(piece) for piece in pieces(job, found)]})
    return [dict(zip(batch, row, strict=True)) for row in zip(*batch.values(), strict=True)]


def names(rows: list[Row]) -> list[str]:
    assert [row["error"] for row in rows] == [""] * 3
    return [str(row["name"]) for row in rows]


def kept(url: str) -> dict[str, bytes]:
    """Every file of a store's folder."""
    if url.startswith("file://"):
        folder = Path(url.removeprefix("file://"))
        return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    kind = next(kind for kind in (Bucket, Store, MemoryFileSystem) if url.startswith(kind.protocol))
    return {path.rpartition("/")[2]: file.getvalue() for path, file in kind.store.items()}


def breaking(monkeypatch: pytest.MonkeyPatch, error: BaseException, *at: str) -> None:
    """Let a store fail at some of its works."""

    def wrong(what: str) -> None:
        if what in at:
            raise error

    monkeypatch.setattr(Store, "wrong", staticmethod(wrong))


@pytest.fixture(
    params=["file://{}/far/", "memory://far/a/", "store://u:secret@far/a/", "s3://b/a/"]
)
def far(request: pytest.FixtureRequest, job: EmbedJob, tmp_path: Path) -> EmbedJob:
    """The same job into each store."""
    return replace(job, output=request.param.format(tmp_path))


def test_shards_are_those_of_a_folder(job: EmbedJob, far: EmbedJob, tmp_path: Path) -> None:
    """Byte for byte; the second time there is nothing to do, and nothing else stays there."""
    near = names(worked(job))
    rows = worked(far)
    assert names(rows) == near
    assert all(row["computed"] == row["tokens"] for row in rows)
    assert folder_of(far, ".").absent(["part-9.hdf5", *near]) == {"part-9.hdf5"}
    assert folder_of(far, ".").others(near[1:]) == near[:1]
    assert [row["computed"] for row in worked(far)] == [0, 0, 0]
    folder_of(far, ".").clean_up()
    assert kept(far.output) == {name: (tmp_path / "near" / name).read_bytes() for name in near}
    assert not any(b"secret" in content for content in kept(far.output).values())


def test_shards_of_a_mended_text_are_renewed(job: EmbedJob, far: EmbedJob, tmp_path: Path) -> None:
    """They hold a checksum of the whole text, and are not computed again for it."""
    text, good = tmp_path / "text.txt", "\n".join(LINES) + "\n"
    text.write_text(good.replace("line 14 ", "line fourteen "))
    before = names(worked(far))
    text.write_text(good)
    rows = worked(far)
    assert [name in before for name in names(rows)] == [True, True, False]
    assert [row["computed"] > 0 for row in rows] == [False, False, True]
    worked(job)
    for name in names(rows):
        near = folder_of(job, ".").facts(name)
        assert near["text_sha256"] == survey_of(job)[0].text_sha256
        np.testing.assert_equal(folder_of(far, ".").facts(name), near)


@pytest.mark.parametrize("at", [("put",), ("put", "remove")])
def test_an_upload_that_breaks_leaves_nothing_under_the_name(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch, at: tuple[str, ...]
) -> None:
    """Half a shard would be taken for a whole one; and the next command makes what is missing."""
    far = replace(job, output="store://u:secret@far/a/")
    with monkeypatch.context() as patch:
        breaking(patch, ConnectionResetError(104, "reset by u:secret,\nsecret"), *at)
        rows = worked(far)
    for row in rows:
        place = f"store://***@far/a/{row['name']}"
        assert row["error"] == f"{place}: reset by ***, *** (ConnectionResetError)"
        assert row["hint"] == "see to the store and the network"
    left = {path for path in Store.store if not path.endswith("/trial")}
    assert all(f"/{UNFINISHED}/" in path for path in left)
    assert len(left) == (3 if "remove" in at else 0)
    rows = worked(far)
    assert all(row["computed"] == row["tokens"] for row in rows)
    folder_of(far, ".").clean_up()
    assert sorted(kept(far.output)) == names(rows)


@pytest.mark.parametrize(
    "output",
    ["{}/near/", "file://{}/far/", "memory://far/a/", "store://u:secret@far/a/", "s3://b/a/"],
)
def test_a_run_leaves_what_another_works_at(
    job: EmbedJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    """Two runs may write into one folder; the first to end took the other's files from it."""
    job = replace(job, output=output.format(tmp_path))
    store, root = url_to_fs(job.output)

    def begun(job: EmbedJob) -> str:
        place_of = folder_of(job, ".")
        place_of.make()
        with place_of.working() as working:
            place = f"{root.rstrip('/')}/{UNFINISHED}/{working.name}"
            store.pipe_file(f"{place}.part", b"half a shard")
        return f"{place}.part"

    own, other = begun(job), begun(replace(job, embedder=EmbedderSettings(dtype="float16")))
    folder_of(job, ".").clean_up()
    assert (store.exists(own), store.exists(other)) == (False, True)
    monkeypatch.setattr(unfinished, "_LEFT_S", -1.0)  # as if a day had passed
    folder_of(job, ".").clean_up()
    assert not store.exists(f"{root.rstrip('/')}/{UNFINISHED}")


def test_a_shard_that_was_not_moved_is_missing(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WebHDFS says nothing where it could not."""
    monkeypatch.setattr(Store, "mv", lambda *_, **__: None)
    for row in worked(replace(job, output="store://far/a/")):
        assert row["error"].endswith("was not moved to its name (OSError)")
    assert {path.rpartition("/")[2] for path in Store.store} <= {"trial"}


def test_a_shard_that_cannot_be_asked_for_is_not_computed(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that is closed for a moment would cost hours of work that is done already."""
    far = replace(job, output="s3://b/a/")
    names(worked(far))
    breaking(monkeypatch, PermissionError("Forbidden"), "ask")
    for row in worked(far):
        assert row["error"] == f"s3://b/a/{row['name']}: no permission (Forbidden)"
        assert row["computed"] == 0


def test_a_foreign_file_is_told_from_a_silent_store(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who believed that a sound shard is damaged would remove it."""
    far = replace(job, output="s3://b/a/")
    first, *_ = names(worked(far))
    Bucket().pipe_file(f"b/a/{first}", b"not HDF5")
    row, *_ = worked(far)
    assert row["error"].startswith(f"s3://b/a/{first}: exists and is not an embeddings file")
    assert row["hint"] == "remove it"
    breaking(monkeypatch, TimeoutError("no answer"), "read")
    row, *_ = worked(far)
    assert row["error"] == f"s3://b/a/{first}: no answer (TimeoutError)"


class NoCredentialsError(Exception):
    """As drivers have them: of no kind that Python knows."""


@pytest.mark.parametrize(
    ("error", "says", "hint"),
    [
        (FileNotFoundError("bucket b"), "there is no such bucket or folder (bucket b)", "make it"),
        (PermissionError("Forbidden"), "no permission (Forbidden)", "every machine needs keys"),
        (NoCredentialsError("no keys"), "no permission (no keys)", "every machine needs keys"),
        (NotImplementedError(), "NotImplementedError (NotImplementedError)", "see to the store"),
    ],
)
def test_a_store_that_takes_nothing_is_found_before_work(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str, hint: str
) -> None:
    """Or hours would be computed for nothing."""

    def refuse(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(Bucket, "pipe_file", refuse)
    with pytest.raises(OutputError) as caught:
        folder_of(EmbedJob(("text.txt",), "s3://b/a/"), ".").make()
    assert caught.value.message == f"s3://b/a/: {says}"
    assert caught.value.hint.startswith(hint)


def test_no_folder_of_this_machine_needs_fsspec(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    names(worked(job))


@pytest.mark.parametrize(
    ("output", "says", "hint", "code"),
    [
        ("nope://b/", "nope://b/: fsspec knows no nope://", "`-o s3://BUCKET/shards/`", 2),
        ("gone://k:s/e@b/", "gone://***@b/: the driver of gone:// is not installed (get it)",
         "install it beside elmo, on every machine of the cluster", 1),
        ("s3://k:s/e@b/", "s3://***@b/: s3:// takes no keys", "its driver finds them", 2),
        ("memory://b", "--ray: memory://b is to be a folder", "`-o s3://BUCKET/shards/`", 2),
        ("memory://b*/", "memory://b*/: `*`, `?` and `[` stand for", "name a folder without", 2),
        ("zip::memory://b/", "zip::memory://b/: `::` leads through", "name the store alone", 2),
    ],
)  # fmt: skip
def test_urls_that_are_refused(
    job: EmbedJob, monkeypatch: pytest.MonkeyPatch, output: str, says: str, hint: str, code: int
) -> None:
    """In two lines, before a cluster is made, and without a folder of that name."""
    monkeypatch.setitem(known_implementations, "gone", {"class": "gone_fs.Gone", "err": "get it"})
    check_refused(["text.txt", "-o", output, "--ray"], says, hint, code)


def test_fsspec_is_not_installed(job: EmbedJob, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra."""
    monkeypatch.setitem(sys.modules, "fsspec", None)
    words = ["text.txt", "-o", "sftp://k:s@b/", "--ray"]
    check_refused(words, "sftp://***@b/: fsspec is not", "`pip install 'elmo-cli[stores]'`", 1)


@pytest.mark.parametrize("output", ["s3://b/", "s3://b/x.hdf5"])
def test_one_process_makes_no_folder_called_s3(job: EmbedJob, output: str) -> None:
    """`s3:` in the working folder is nobody's bucket."""
    check_refused(["text.txt", "-o", output], f"{output}: only --ray", "`-o FILE`", 2)


def check_refused(words: list[str], says: str, hint: str, code: int) -> None:
    done = elmo("embed", *words)
    error, advice = done.err.splitlines()
    assert (done.code, error[: 7 + len(says)]) == (code, f"error: {says}")
    assert advice.startswith(f"hint: {hint}")
    assert [path.name for path in Path().iterdir()] == ["text.txt"]


def test_the_command_that_is_named_fetches_the_shards(job: EmbedJob, tmp_path: Path) -> None:
    """`elmo merge` reads files of this machine alone."""
    far = replace(job, output=f"file://{tmp_path}/far/")
    found = names(worked(far))
    python, c, code = shlex.split(_fetching(far.output, "shards/"))
    assert (python, c) == ("python", "-c")
    exec(code, {})
    assert sorted(path.name for path in Path("shards").glob("part-*.hdf5")) == found
    made("merge", *sorted(Path("shards").glob("part-*.hdf5")), "-o", "whole.hdf5", "-q")
    assert _fetching("s3://b/a/", "shards/") == "aws s3 cp --recursive s3://b/a/ shards/"


@pytest.mark.ray
def test_a_cluster_writes_to_a_url(
    text: Path, whole: Callable[[str], Path], tiny: Path, tmp_path: Path
) -> None:
    """And the same command again computes nothing; what no other process sees is missing."""
    out = tmp_path / "shards"
    facts, _ = ended(begun(text, f"file://{out}", tiny))
    assert facts["computed_tokens"] == facts["tokens"]
    check_whole(out, whole("allennlp"), facts)
    again, _ = ended(begun(text, f"file://{out}", tiny))
    assert (again["computed_tokens"], again["shards"]) == (0, facts["shards"])
    lost, said = ended(begun(text, "memory://shards", tiny), code=1)
    assert lost["shards"] == []
    assert "name a folder that all machines see; then the same command" in said
