"""pull(): published models in the cache, downloaded once, verified, never without being asked."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
from local_server import LocalServer, answer, cut, status

from elmo_cli.errors import DownloadError, ElmoError, ModelError, OutputError
from elmo_cli.hdf5 import open_hdf5
from elmo_cli.pretrained import cache
from elmo_cli.pretrained.cache import bundled_dir, installed_dir, model_dir
from elmo_cli.pretrained.catalogue import CATALOGUE, Model, find_model, no_such_model
from elmo_cli.pretrained.download import RetryPolicy
from elmo_cli.pretrained.load import ModelSource, installed_files, load, locate
from elmo_cli.pretrained.pull import pull
from elmo_cli.weightfile.describe import describe_weights

FAST = RetryPolicy(timeout_s=0.2, attempts=2, backoff_s=0.001)


def without_hash(model: Model) -> Model:
    return replace(model, files=tuple(replace(f, bytes=None, sha256=None) for f in model.files))


def flip_last_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_a_pulled_model_is_in_the_cache(server: LocalServer, model: Model, home: Path) -> None:
    progress: list[tuple[int, int]] = []
    files = pull(model, on_bytes=lambda *n: progress.append(n), retry=FAST)
    assert files.weights == home / "models" / "tiny" / "weights.hdf5"
    assert files.weights.read_bytes() == server.files["weights.hdf5"]
    assert (files.name, files.origin) == ("tiny", "cached")
    done, total = zip(*progress, strict=True)
    assert list(done) == sorted(done)
    assert done[-1] == sum(map(len, server.files.values()))
    assert set(total) == {model.expected_bytes}


@pytest.mark.parametrize("offline", ["", "1"])
def test_nothing_is_requested_once_it_is_installed(
    server: LocalServer, model: Model, monkeypatch: pytest.MonkeyPatch, offline: str, tiny: Path
) -> None:
    """Whether it was downloaded or put there by hand."""
    shutil.copytree(tiny, model_dir(model))
    monkeypatch.setenv("ELMO_OFFLINE", offline)
    assert pull(model, retry=FAST) == installed_files(model)
    assert load("tiny").name == "tiny"
    assert server.seen == []


def test_without_a_pull_nothing_is_downloaded(server: LocalServer, model: Model) -> None:
    for find in (installed_files, lambda model: locate(model.name), lambda m: load(m.name)):
        with pytest.raises(ModelError, match="the model `tiny` is not on this machine") as caught:
            find(model)
        assert caught.value.hint.startswith("`elmo models pull tiny`")
        assert str(model_dir(model)) in caught.value.hint
    assert server.seen == []


@pytest.mark.parametrize("state", ["missing", "corrupt", "overwrite"])
def test_offline(
    server: LocalServer, model: Model, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    if state != "missing":
        weights = pull(model, retry=FAST).weights
        if state == "corrupt":
            flip_last_byte(weights)
        server.seen.clear()
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    with pytest.raises(ModelError, match="ELMO_OFFLINE is set") as caught:
        pull(model, overwrite=state == "overwrite")
    assert str(model_dir(model)) in caught.value.hint
    assert server.seen == []


def test_only_missing_files_are_downloaded(server: LocalServer, model: Model) -> None:
    server.acts["weights.hdf5"] = [status(404)]
    with pytest.raises(DownloadError):
        pull(model, retry=FAST)
    assert installed_dir(model) is None
    pull(model, retry=FAST)
    assert [path for path, _ in server.seen] == ["/options.json", "/weights.hdf5", "/weights.hdf5"]


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_corrupt_file_is_refused_and_downloaded_again(
    server: LocalServer, model: Model, damage: str
) -> None:
    """A size is refused by `locate`, the SHA-256 by `load`, which reads the file anyway."""
    weights = pull(model, retry=FAST).weights
    if damage == "cut":
        os.truncate(weights, 100)
        with pytest.raises(ModelError, match=f"{weights}: has 100 bytes, expected"):
            locate("tiny")
    else:
        flip_last_byte(weights)
    with pytest.raises(ElmoError, match=rf"{weights}: .*expected") as caught:
        load("tiny")
    assert caught.value.hint == "`elmo models pull tiny` downloads it again"
    pull(model, retry=FAST)
    assert weights.read_bytes() == server.files["weights.hdf5"]
    assert load("tiny").name == "tiny"


def test_overwrite_keeps_the_old_files_until_the_new_ones_are_verified(
    server: LocalServer, model: Model
) -> None:
    weights = pull(model, retry=FAST).weights
    before = weights.read_bytes()
    server.acts["weights.hdf5"] = [cut(10)] * 5
    with pytest.raises(DownloadError):
        pull(model, overwrite=True, retry=FAST)
    assert weights.read_bytes() == before
    server.acts.clear()
    pull(model, overwrite=True, retry=FAST)
    assert server.ranges[-1] == "10-"


WRONG_CONTENT = [
    ("weights.hdf5", answer(b"AccessDenied"), "is not a complete HDF5 file"),
    ("weights.hdf5", lambda h, content: answer(content[:3000])(h, b""), "is not a complete HDF5"),
    ("options.json", answer(b"AccessDenied"), ": not JSON"),
    ("options.json", answer(b'{"lstm": {}}'), ": char_cnn is missing"),
]


@pytest.mark.parametrize(("name", "act", "said"), WRONG_CONTENT)
def test_content_without_a_known_hash_is_checked(
    server: LocalServer, model: Model, name: str, act: object, said: str
) -> None:
    server.acts[name] = [act]
    with pytest.raises(DownloadError, match=f"{name}: {said.removeprefix(': ')}"):
        pull(without_hash(model), retry=FAST)
    assert installed_dir(model) is None
    assert not (model_dir(model) / name).exists()


def test_embeddings_are_not_weights(server: LocalServer, model: Model, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["0"] = [1.0]
    server.files["weights.hdf5"] = (tmp_path / "x.hdf5").read_bytes()
    with pytest.raises(DownloadError, match="is an HDF5 file without char_embed"):
        pull(without_hash(model), retry=FAST)


def test_two_pulls_at_once_download_once(server: LocalServer, model: Model) -> None:
    waited, release = threading.Event(), threading.Event()

    def slow(handler: object, content: bytes) -> None:
        release.wait(5)
        answer(content)(handler, b"")

    server.acts["options.json"] = [slow]
    settings = {"on_wait": waited.set, "retry": FAST}
    threads = [threading.Thread(target=pull, args=(model,), kwargs=settings) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert waited.wait(5)
    release.set()
    for thread in threads:
        thread.join()
    assert sorted(path for path, _ in server.seen) == ["/options.json", "/weights.hdf5"]
    assert installed_dir(model) is not None


def test_a_file_system_without_locks(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    assert pull(model, retry=FAST).name == "tiny"


def test_a_home_that_cannot_be_written_to(model: Model, home: Path, tiny: Path) -> None:
    """Neither for a download nor for an archive; the hint names the variable."""
    home.write_text("a file")
    archive = shutil.make_archive(str(home.parent / "m"), "zip", tiny)
    for work in (lambda: pull(model, retry=FAST), lambda: locate(archive)):
        with pytest.raises(OutputError, match=f"^{home}/.*: cannot be written") as caught:
            work()
        assert "ELMO_HOME" in caught.value.hint


HOMES = [
    ({"ELMO_HOME": "~/models", "XDG_CACHE_HOME": "/xdg"}, "/user/models"),
    ({"ELMO_HOME": "", "XDG_CACHE_HOME": "/xdg"}, "/xdg/elmo"),
    ({"ELMO_HOME": "", "XDG_CACHE_HOME": "relative"}, "/user/.cache/elmo"),
    ({"ELMO_HOME": "", "XDG_CACHE_HOME": ""}, "/user/.cache/elmo"),
]


@pytest.mark.parametrize(("variables", "expected"), HOMES)
def test_where_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    for name, value in {**variables, "HOME": "/user"}.items():
        monkeypatch.setenv(name, value)
    assert cache.elmo_home() == Path(expected)


def test_the_catalogue_is_consistent() -> None:
    """Only the person who downloads would notice a slip in an address or a hash."""
    names = [name.lower() for m in CATALOGUE for name in (m.name, *m.aliases)]
    assert len(names) == len(set(names))
    assert not any("/" in name for name in names)
    for model in CATALOGUE:
        assert model.is_bundled or [f.name for f in model.files] == ["options.json", "weights.hdf5"]
        for file in model.files:
            suffix = file.name.partition(".")[2]
            assert all(a.startswith("https://") and a.endswith(suffix) for a in file.addresses)
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
        for file in model.files[1:]:
            if model.n_parameters and file.expected_bytes:
                assert 0 <= file.expected_bytes - 4 * model.n_parameters < 40_000
    bucket = "allennlp/models/elmo/2x4096_512_2048cnn_2xhighway"
    options, _ = find_model("5.5B").files
    assert options.addresses == tuple(
        f"https://{host}{bucket.removeprefix(cut)}_5.5B/elmo_2x4096_512_2048cnn_2xhighway_5.5B"
        "_options.json"
        for host, cut in (
            ("allennlp.s3.amazonaws.com", "allennlp"),
            ("s3-us-west-2.amazonaws.com/", ""),
        )
    )
    assert find_model("original").files[1].addresses[2].startswith("https://huggingface.co/")


def test_the_bundled_model_is_as_the_catalogue_says() -> None:
    bundled = CATALOGUE[0]
    folder = bundled_dir()
    with open_hdf5(folder / "weights.hdf5") as file:
        facts = describe_weights(folder / "weights.hdf5", file)
    assert facts["parameters"] == bundled.n_parameters
    assert 2 * facts["options"]["lstm"]["projection_dim"] == bundled.dim


NEAR = [("orginal", "did you mean `original`?"), ("zzz", "all names are there")]


@pytest.mark.parametrize(("name", "hint"), NEAR)
def test_a_similar_name_is_suggested(name: str, hint: str) -> None:
    assert find_model(name) is None
    error = no_such_model(name, "all names are there")
    assert error.message == f"no model named `{name}`"
    assert error.hint.startswith(hint)


def test_the_bundled_model_is_the_default(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one inside the package (of a wheel) is preferred to the one next to it (in a clone)."""
    monkeypatch.setattr(cache, "_PACKAGE", tmp_path / "elmo_cli")
    with pytest.raises(ModelError, match="`elmo-en` is not part of this installation"):
        locate()
    for folder in (tmp_path / "weights" / "elmo-en", tmp_path / "elmo_cli" / "bundled" / "elmo-en"):
        shutil.copytree(tiny, folder)
        files = locate(ModelSource())
        assert (files.origin, files.name, files.weights.parent) == ("bundled", "elmo-en", folder)
