"""pull(): published models in the cache, downloaded once, verified, never without being asked."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
from local_server import LocalServer, answer, cut

from elmo_cli.errors import DownloadError, ModelError
from elmo_cli.hdf5 import open_hdf5
from elmo_cli.model.options import Options
from elmo_cli.pretrained import catalogue
from elmo_cli.pretrained.catalogue import (
    CATALOGUE,
    Model,
    bundled_dir,
    find_model,
    installed_dir,
    model_dir,
)
from elmo_cli.pretrained.download import pull
from elmo_cli.pretrained.load import ModelSource, installed_files, load, locate
from elmo_cli.weightfile.describe import describe_weights


def flip_last_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def test_a_pulled_model_is_in_the_cache(server: LocalServer, model: Model, home: Path) -> None:
    with pytest.raises(ModelError, match="the model `tiny` is not on this machine"):
        load("tiny")
    assert server.seen == []
    progress: list[tuple[int, int]] = []
    files = pull(model, on_bytes=lambda done, total: progress.append((done, total)))
    assert files.weights == home / "models" / "tiny" / "weights.hdf5"
    assert files.weights.read_bytes() == server.files["weights.hdf5"]
    assert (files.name, files.origin) == ("tiny", "cached")
    assert progress == sorted(progress)
    assert progress[-1] == (sum(map(len, server.files.values())), model.expected_bytes)


@pytest.mark.parametrize("offline", ["", "1"])
def test_nothing_is_requested_for_files_put_there_by_hand(
    server: LocalServer, model: Model, monkeypatch: pytest.MonkeyPatch, offline: str, tiny: Path
) -> None:
    shutil.copytree(tiny, model_dir(model))
    monkeypatch.setenv("ELMO_OFFLINE", offline)
    assert pull(model) == installed_files(model)
    assert load("tiny").name == "tiny"
    assert server.seen == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_offline(
    server: LocalServer, model: Model, monkeypatch: pytest.MonkeyPatch, overwrite: bool
) -> None:
    weights = pull(model).weights
    if not overwrite:
        flip_last_byte(weights)
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    with pytest.raises(ModelError, match="ELMO_OFFLINE is set"):
        pull(model, overwrite=overwrite)
    assert len(server.seen) == 2


@pytest.mark.parametrize("is_cut", [True, False])
def test_a_corrupt_file_is_refused_and_downloaded_again(
    server: LocalServer, model: Model, is_cut: bool
) -> None:
    """A wrong size is refused by `locate`, a wrong SHA-256 by `load`, which reads the file."""
    weights = pull(model).weights
    if is_cut:
        os.truncate(weights, 100)
    else:
        flip_last_byte(weights)
    with pytest.raises(ModelError, match=f"{weights}: has .*, expected") as caught:
        (locate if is_cut else load)("tiny")
    assert caught.value.hint == "`elmo models pull tiny` downloads it again"
    pull(model)
    assert load("tiny").files == (str(weights.with_name("options.json")), str(weights))


def test_overwrite_keeps_the_old_files_until_the_new_ones_are_verified(
    server: LocalServer, model: Model
) -> None:
    weights = pull(model).weights
    server.answers["weights.hdf5"] = [cut(10), cut(0)]
    with pytest.raises(DownloadError):
        pull(model, overwrite=True)
    assert weights.read_bytes() == server.files["weights.hdf5"]
    weights.unlink()
    assert installed_dir(model) is None
    pull(model)  # resumes, and does not download the options again
    assert [name for name, _ in server.seen[-2:]] == ["weights.hdf5"] * 2
    assert server.ranges[-1] == "10-"


@pytest.fixture
def model_without_hashes(model: Model) -> Model:
    files = tuple(replace(file, bytes=None, sha256=None) for file in model.files)
    return replace(model, files=files)


def embeddings_file(path: Path) -> bytes:
    with h5py.File(path, "w") as file:
        file["0"] = [1.0]
    return path.read_bytes()


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("half", "cannot be read .*truncated file"),
        ("embeddings", "is an HDF5 file without char_embed"),
    ],
)
def test_weights_without_a_known_hash_are_checked(
    kind: str, problem: str, server: LocalServer, model_without_hashes: Model, tmp_path: Path
) -> None:
    if kind == "half":
        body = server.files["weights.hdf5"][:3000]
    else:
        body = embeddings_file(tmp_path / "x.hdf5")
    server.answers["weights.hdf5"] = [answer(body)] * 2
    with pytest.raises(DownloadError, match=f"weights.hdf5: {problem}"):
        pull(model_without_hashes)
    assert not (model_dir(model_without_hashes) / "weights.hdf5").exists()


def test_options_without_a_known_hash_are_checked(
    server: LocalServer, model_without_hashes: Model
) -> None:
    server.answers["options.json"] = [answer(b"AccessDenied")] * 2
    with pytest.raises(DownloadError, match=r"options.json: cannot be read .*not JSON"):
        pull(model_without_hashes)
    assert not (model_dir(model_without_hashes) / "options.json").exists()


def test_two_pulls_at_once_download_once(server: LocalServer, model: Model) -> None:
    waited = threading.Event()
    release = threading.Event()

    def slow(handler: object, content: bytes) -> None:
        release.wait(5)
        answer(content)(handler, b"")

    server.answers["options.json"] = [slow]
    settings = {"on_wait": waited.set}
    threads = [threading.Thread(target=pull, args=(model,), kwargs=settings) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert waited.wait(5)
    release.set()
    for thread in threads:
        thread.join()
    assert sorted(name for name, _ in server.seen).count("weights.hdf5") == 1
    assert installed_dir(model) is not None


@pytest.mark.parametrize(
    ("elmo_home", "xdg", "expected"),
    [
        ("~/models", "/xdg", "/user/models"),
        ("", "/xdg", "/xdg/elmo"),
        ("", "relative", "/user/.cache/elmo"),
        ("", "", "/user/.cache/elmo"),
    ],
)
def test_where_the_cache_is(
    monkeypatch: pytest.MonkeyPatch, elmo_home: str, xdg: str, expected: str
) -> None:
    monkeypatch.setenv("ELMO_HOME", elmo_home)
    monkeypatch.setenv("XDG_CACHE_HOME", xdg)
    monkeypatch.setenv("HOME", "/user")
    assert catalogue.elmo_home() == Path(expected)


ADDRESSES = {
    "pubmed": "https://allennlp.s3.amazonaws.com/models/elmo/contributed/pubmed/"
    "elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5",
    "original": "https://huggingface.co/lysandre/elmo-2x4096_512_2048cnn_2xhighway/resolve/main/"
    "options.json",
}


def test_the_catalogue_is_consistent() -> None:
    """Only the person who downloads would notice a slip in an address or a hash."""
    names = [name.lower() for model in CATALOGUE for name in (model.name, *model.aliases)]
    assert len(names) == len(set(names))
    assert not any("/" in name for name in names)
    for model in CATALOGUE[1:]:
        assert [file.name for file in model.files] == ["options.json", "weights.hdf5"]
        for file in model.files:
            suffix = file.name.partition(".")[2]
            for address in file.addresses:
                assert address.startswith("https://")
                assert address.endswith(suffix)
            assert file.sha256 is None or len(bytes.fromhex(file.sha256)) == 32
        assert 0 <= model.expected_bytes - 4 * (model.n_parameters or 0) < 40_000
    for name, address in ADDRESSES.items():
        assert any(address in file.addresses for file in find_model(name).files)


# name -> aliases, language, size of a vector, parameters, addresses of each file, size and hash
CATALOGUE_FACTS = {
    "elmo-en": (("bundled",), "English", 1024, 10_609_536, 0, None, ""),
    "small": ((), "English", 256, 13_593_296, 2, 54_402_456, "747ba97a"),
    "medium": ((), "English", 512, 28_027_728, 2, None, ""),
    "original": ((), "English", 1024, 93_600_848, 3, 374_434_792, "a6b92b9c"),
    "original-5.5b": (("5.5b", "original_5.5b"), "English", 1024, 93_600_848, 2, None, ""),
    "pubmed": ((), "English", 1024, 93_600_848, 2, None, ""),
    "portuguese": (("pt",), "Portuguese", None, None, 2, None, ""),
}


def test_the_facts_of_the_catalogue() -> None:
    """Names that users have in their commands, and facts that no code here computes."""
    assert [model.name for model in CATALOGUE] == list(CATALOGUE_FACTS)
    for model in CATALOGUE:
        aliases, language, dim, n_parameters, n_addresses, n_bytes, sha256 = CATALOGUE_FACTS[
            model.name
        ]
        for name in (model.name, *aliases, model.name.upper()):
            assert find_model(name) is model
        assert model.aliases == aliases
        facts = (model.language, model.dim, model.n_parameters)
        assert facts == (language, dim, n_parameters)
        assert {len(file.addresses) for file in model.files} <= {n_addresses}
        if model.files:
            options, weights = model.files
            assert (options.bytes, options.sha256, weights.bytes) == (None, None, n_bytes)
            assert (weights.sha256 or "").startswith(sha256)


@pytest.mark.parametrize(("name", "similar"), [("orginal", "original"), ("SMAL", "small")])
def test_a_similar_name_is_suggested(name: str, similar: str) -> None:
    with pytest.raises(ModelError, match=f"no model named `{name}`") as caught:
        locate(name)
    assert caught.value.hint == f"did you mean `{similar}`? `elmo models list` shows all names"


def test_the_bundled_model_is_as_the_catalogue_says() -> None:
    path = bundled_dir() / "weights.hdf5"
    with open_hdf5(path) as file:
        facts = describe_weights(path, file)
    assert facts["parameters"] == CATALOGUE[0].n_parameters
    assert Options.from_file(path.with_name("options.json")).dim == CATALOGUE[0].dim


def test_the_bundled_model_is_the_default(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one inside the package (of a wheel) is preferred to the one next to it (in a clone)."""
    monkeypatch.setattr(catalogue, "_PACKAGE", tmp_path / "elmo_cli")
    with pytest.raises(ModelError, match="`elmo-en` is not on this machine") as caught:
        locate()
    assert "wheel" in caught.value.hint
    for folder in (tmp_path / "weights" / "elmo-en", tmp_path / "elmo_cli" / "bundled" / "elmo-en"):
        shutil.copytree(tiny, folder)
        files = locate(ModelSource())
        assert (files.origin, files.name, files.weights.parent) == ("bundled", "elmo-en", folder)
