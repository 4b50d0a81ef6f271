"""Models of a hub: their names, their download, and what is done with them afterwards."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import h5py
import pytest
from command_line import elmo, made, refused
from hub_server import COMMIT, NAME, NEXT_COMMIT, REPOSITORY, HubServer, files_of, use
from local_server import LocalServer, cut, redirect, serve, status

from elmo_cli import Embedder
from elmo_cli.errors import DownloadError, ModelError, UsageError
from elmo_cli.lm.pretrain_config import PretrainConfig
from elmo_cli.pretrained.hub import HubModel, hub_files, pulled_models
from elmo_cli.pretrained.hub_download import pull_from_hub
from elmo_cli.pretrained.load import load, locate
from elmo_cli.pretrained.model_files import write_parts

MODEL = HubModel.parse(NAME)


@pytest.fixture
def files(tiny: Path) -> dict[str, bytes]:
    """A model with a vocabulary and a card."""
    return {**files_of(tiny), "vocab.txt": b"<S>\n</S>\n<UNK>\n", "README.md": b"# A model\n"}


@pytest.fixture
def hub(server: LocalServer, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """The hub, with the model."""
    use(server, monkeypatch)
    hub = HubServer(server)
    hub.publish(files)
    return hub


def as_json(*words: object) -> Any:
    return json.loads(made("models", *words, "--json").out)


def test_a_pulled_model_has_a_name(
    hub: HubServer, files: dict[str, bytes], home: Path, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("The cat sat .\n")
    embed = ("embed", tmp_path / "a.txt", "-m", NAME, "-o", tmp_path / "a.hdf5")
    problem = f"`{NAME}` is not on this machine"
    refused(elmo(*embed), 1, f"the model {problem}", f"`elmo models pull {NAME}`")
    folder = home / "hub" / REPOSITORY / "main"
    done = made("models", "pull", NAME)
    assert done.err == f"{NAME}: cached, {folder}, commit {COMMIT}\n"
    record = files_of(folder).pop("hub.json")
    assert files_of(folder) == {**files, "hub.json": record}
    made(*embed)
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert file.attrs["model"] == NAME
    listed = as_json("list")[-1]
    n_bytes = len(files["options.json"]) + len(files["weights.hdf5"])
    expected = {"name": NAME, "dim": 16, "bytes": n_bytes, "where": "cached", "language": None}
    assert expected.items() <= listed.items()
    assert made("models", "list").out.decode().splitlines()[-1].split("\t")[3] == "?"
    shown = as_json("show", NAME)
    assert (shown["name"], shown["commit"], shown["path"]) == (NAME, COMMIT, str(folder))
    assert "hf:ann/elmo-de" in made("inspect", NAME).out.decode()
    shutil.rmtree(folder)
    assert list(pulled_models()) == []


def test_all_files_are_those_of_the_commit_that_the_branch_is(hub: HubServer) -> None:
    pull_from_hub(MODEL)
    first, *others = hub.requested()
    assert first == "main/options.json"
    assert {path.split("/")[0] for path in others} == {COMMIT}
    record = json.loads((MODEL.folder / "hub.json").read_text())
    assert record["commit"] == COMMIT
    assert record["revision"] == "main"


@pytest.mark.parametrize("revision", ["v1.0", COMMIT])
def test_a_revision_is_a_model_of_its_own(
    hub: HubServer, files: dict[str, bytes], revision: str
) -> None:
    hub.publish(files, revision=revision)
    name = f"{NAME}@{revision}"
    made("models", "pull", name)
    assert locate(name).name == name
    assert as_json("show", name)["commit"] == COMMIT
    with pytest.raises(ModelError, match="is not on this machine"):
        locate(NAME)


MISNAMED = {
    "no owner": "hf:model",
    "three parts": "hf:a/b/c",
    "above": "hf:../b",
    "above, as the name": "hf:a/..",
    "above, as the revision": "hf:a/b@..",
    "hidden": "hf:a/.b",
    "dots": "hf:a/b..c",
    "a branch in a folder": "hf:a/b@refs/pr/1",
    "empty revision": "hf:a/b@",
    "backslash": "hf:a\\b/c",
    "query": "hf:a/b?c",
    "space": "hf:a/b c",
    "line": "hf:a/b\n",
    "long": f"hf:a/{'b' * 97}",
}


@pytest.mark.parametrize("name", MISNAMED.values(), ids=MISNAMED)
def test_names_are_checked(name: str, server: LocalServer, hub: HubServer) -> None:
    for words in (("models", "pull", name), ("models", "show", name)):
        done = elmo(*words)
        assert done.code == 1
        assert done.err.splitlines()[-1] == (
            "hint: a model of a hub is named `hf:OWNER/NAME` or `hf:OWNER/NAME@REVISION`"
        )
    assert server.seen == []


def test_a_branch_that_has_moved(hub: HubServer, files: dict[str, bytes], tmp_path: Path) -> None:
    """It stays what it was until it is pulled with `--overwrite`, and is replaced as a whole."""
    old = load(pull_from_hub(MODEL).weights.parent).sha256
    made("models", "random", "--like", MODEL.folder, "-o", tmp_path / "other")
    hub.publish(files_of(tmp_path / "other"), commit=NEXT_COMMIT)
    hub.server.always[hub.path("vocab.txt", NEXT_COMMIT)] = status(404)
    hub.server.seen.clear()
    made("models", "pull", NAME)
    assert (hub.server.seen, load(NAME).sha256) == ([], old)
    new_weights = files_of(tmp_path / "other")["weights.hdf5"]
    hub.server.answers[hub.content_path(new_weights)] = [cut(10), cut(0)]
    with pytest.raises(DownloadError, match="cut off"):
        pull_from_hub(MODEL, overwrite=True)
    assert load(NAME).sha256 == old
    hub.server.seen.clear()
    made("models", "pull", NAME, "--overwrite")
    assert "10-" in hub.server.ranges  # the hub states the SHA-256
    assert load(NAME).sha256 == load(tmp_path / "other").sha256 != old
    names = {path.name for path in MODEL.folder.iterdir()}
    assert names == {"options.json", "weights.hdf5", "hub.json"}
    assert [path.name for path in MODEL.repository_folder.iterdir()] == ["main"]


def test_an_interrupted_download_of_another_commit_is_not_resumed(
    hub: HubServer, files: dict[str, bytes]
) -> None:
    """The options of one commit and the weights of another could fit each other."""
    content = hub.content_path(files["weights.hdf5"])
    hub.server.answers[content] = [cut(10), cut(0)]
    with pytest.raises(DownloadError):
        pull_from_hub(MODEL)
    changed = files["options.json"] + b"\n"
    hub.publish({**files, "options.json": changed}, commit=NEXT_COMMIT)
    pull_from_hub(MODEL)
    assert files_of(MODEL.folder)["options.json"] == changed
    assert [path.name for path in MODEL.repository_folder.iterdir()] == ["main"]


def test_a_mirror_that_states_nothing(
    server: LocalServer, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(server, monkeypatch)
    mirror = HubServer(server, is_hub=False)
    mirror.publish(files)
    server.answers[mirror.path("vocab.txt")] = [serve, cut(3), cut(3)]
    with pytest.raises(DownloadError, match=r"vocab\.txt"):
        pull_from_hub(MODEL)
    err = made("models", "pull", NAME).err
    assert err.endswith(", commit not stated by the server\n")
    assert files_of(MODEL.folder).items() > files.items()


def test_a_renamed_repository(hub: HubServer, files: dict[str, bytes]) -> None:
    """The hub redirects from the old name, for each file."""
    for name in files:
        hub.server.always[f"ann/old/resolve/main/{name}"] = redirect(f"/{hub.path(name)}")
        hub.server.always[f"ann/old/resolve/{COMMIT}/{name}"] = redirect(f"/{hub.path(name)}")
    old = HubModel.parse("hf:ann/old")
    assert pull_from_hub(old).name == "hf:ann/old"
    assert files_of(old.folder).items() > files.items()


@pytest.mark.parametrize("code", [401, 403, 404])
def test_a_repository_that_is_missing_or_private(hub: HubServer, code: int) -> None:
    hub.server.answers[hub.path("options.json")] = [status(code)]
    done = elmo("models", "pull", NAME)
    problem = f"{hub.server.address(hub.path('options.json'))}: HTTP {code} "
    refused(done, 1, problem, f"`hf download {REPOSITORY} --local-dir DIR` reads private ones")
    assert len(hub.server.seen) == 1
    assert not MODEL.folder.exists()


def test_a_busy_hub_is_asked_twice(hub: HubServer) -> None:
    """Also for an optional file: that it is not there is not known."""
    hub.server.answers[hub.path("softmax.hdf5", COMMIT)] = [status(503), status(503)]
    with pytest.raises(DownloadError, match="HTTP 503") as caught:
        pull_from_hub(MODEL)
    assert caught.value.hint.startswith("run it again")
    hub.server.answers[hub.path("softmax.hdf5", COMMIT)] = [status(503)]
    pull_from_hub(MODEL)


def no_weights(folder: Path) -> None:
    with h5py.File(folder / "weights.hdf5", "w") as file:
        file["0"] = [1.0]


def other_sizes(folder: Path) -> None:
    options = json.loads((folder / "options.json").read_text())
    options["lstm"]["dim"] += 1
    (folder / "options.json").write_text(json.dumps(options))


def other_parts(folder: Path) -> None:
    write_parts(folder)
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n")


@pytest.mark.parametrize("damage", [no_weights, other_sizes, other_parts])
@pytest.mark.parametrize("is_hub", [True, False])
def test_what_is_no_model_does_not_replace_one(
    damage: Any,
    is_hub: bool,
    server: LocalServer,
    files: dict[str, bytes],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    use(server, monkeypatch)
    hub = HubServer(server, is_hub=is_hub)
    hub.publish(files)
    pull_from_hub(MODEL)
    damaged = shutil.copytree(MODEL.folder, tmp_path / "damaged")
    damage(damaged)
    hub.publish(files_of(damaged), commit=NEXT_COMMIT)
    with pytest.raises(DownloadError):
        pull_from_hub(MODEL, overwrite=True)
    assert files_of(MODEL.folder).items() > files.items()


@pytest.mark.parametrize("name", ["weights.hdf5", "vocab.txt"])
@pytest.mark.parametrize("is_missing", [True, False])
def test_a_file_that_was_changed_is_downloaded_again(
    name: str, is_missing: bool, hub: HubServer, files: dict[str, bytes]
) -> None:
    pull_from_hub(MODEL)
    path = MODEL.folder / name
    if is_missing:
        path.unlink()
    else:
        path.write_bytes(files[name][:-1] + bytes([files[name][-1] ^ 1]))
    if is_missing or name == "weights.hdf5":
        with pytest.raises(ModelError) as caught:
            load(NAME)
        assert caught.value.hint == f"`elmo models pull {NAME}` downloads it again"
    pull_from_hub(MODEL)
    assert path.read_bytes() == files[name]


def test_offline(hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELMO_OFFLINE", "1")
    with pytest.raises(ModelError, match="ELMO_OFFLINE is set"):
        pull_from_hub(MODEL)
    assert hub.server.seen == []


@pytest.mark.parametrize(
    "endpoint", ["huggingface.co", "ftp://mirror.org", "file:///etc", "http://["]
)
def test_the_endpoint_is_checked(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(UsageError, match="is not an http or https address"):
        pull_from_hub(MODEL)


def test_a_hub_file_has_the_limits_of_other_downloads(hub: HubServer) -> None:
    """A server could fill the disk with a card."""
    path = hub.path("README.md", COMMIT)
    hub.server.files[path] = bytes((1 << 20) + 1)
    with pytest.raises(DownloadError, match="expected at most 1048576"):
        pull_from_hub(MODEL)


@pytest.mark.parametrize("content", ["[]", '{"files": {"../x": {}}, "commit": null}', "no JSON"])
def test_a_corrupt_record_is_reported(content: str, hub: HubServer) -> None:
    pull_from_hub(MODEL)
    (MODEL.folder / "hub.json").write_text(content)
    with pytest.raises(ModelError) as caught:
        hub_files(MODEL)
    assert caught.value.hint == f"`elmo models pull {NAME}` downloads it again"
    made("models", "list")
    pull_from_hub(MODEL)
    assert Embedder(load(NAME)).embed(["The", "cat"]).shape == (3, 2, 16)


def test_a_recipe_keeps_the_name(tmp_path: Path) -> None:
    """It is no path relative to the recipe."""
    (tmp_path / "recipe.json").write_text(json.dumps({"init-from": NAME, "texts": ["a.txt"]}))
    config = PretrainConfig.read(tmp_path / "recipe.json")
    assert config.init_from == NAME
    os.makedirs(tmp_path / "out")
    config.write(tmp_path / "out")
    assert json.loads((tmp_path / "out" / "recipe.json").read_text())["init-from"] == NAME
