"""`elmo models list`, `show` and `pull`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import documented, elmo, made
from local_server import LocalServer

from elmo_cli import Embedder
from elmo_cli.cli import console
from elmo_cli.model.bilm import State
from elmo_cli.pretrained.catalogue import CATALOGUE, Model, find_model
from elmo_cli.pretrained.download import pull
from elmo_cli.pretrained.load import load
from elmo_cli.weightfile.write import write_state


def as_json(*words: object) -> Any:
    return json.loads(made("models", *words, "--json").out)


def shown(*words: object) -> list[str]:
    return made("models", *words).out.decode().splitlines()


def test_list(model: Model, home: Path, server: LocalServer) -> None:
    header, *rows = [line.split("\t") for line in shown("list")]
    assert header[0].casefold() == "name"
    by_name = {row[0]: row[1:] for row in rows}
    assert list(by_name) == [*(known.name for known in CATALOGUE), "tiny"]
    assert by_name["small"] == ["54.4 MB", "256", "English", "not downloaded"]
    assert by_name["medium"][:2] == ["about 112.1 MB", "512"]
    assert by_name["portuguese"] == ["?", "?", "Portuguese", "not downloaded"]
    assert by_name["elmo-en"] == ["21.2 MB", "1024", "English", "bundled"]
    before = as_json("list")[-1]
    made("models", "pull", "tiny")
    after = as_json("list")[-1]
    assert before["where"] == "not downloaded"
    assert after["where"] == "cached"
    assert after["bytes"] == sum(map(len, server.files.values()))
    assert before["path"] == after["path"] == str(home / "models" / "tiny")
    assert all(f"`{key}`" in documented("models") for key in before)


def test_show_of_a_published_model(home: Path) -> None:
    """Whoever downloads by hand needs the addresses, the hash and the folder."""
    in_order = shown("show", "Small")
    names = " ".join(line.split()[0] for line in in_order[: in_order.index("")])
    assert names == "name corpus language citation licence dim note bytes where path parameters"
    lines = set(in_order)
    assert {"bytes       54.4 MB", "parameters  13,593,296", "  bytes  not stated"} < lines
    options, weights = find_model("small").files
    assert {f"  {address}" for address in (*options.addresses, *weights.addresses)} < lines
    assert {f"  sha256 {weights.sha256}", "  sha256 not stated"} < lines
    assert f"path        {home}/models/small" in lines
    lines = set(shown("show", "original-5.5b"))
    assert {"aliases     5.5b, original_5.5b", "bytes       about 374.4 MB"} < lines
    facts = as_json("show", "5.5b")
    assert (facts["name"], facts["parameters"], facts["dim"]) == ("original-5.5b", 93_600_848, 1024)
    assert (facts["bytes_are_exact"], facts["where"]) == (False, "not downloaded")
    assert all(f"`{key}`" in documented("models") for key in facts)


@pytest.mark.parametrize("kind", ["folder", "archive"])
def test_show_of_files(tiny: Path, tmp_path: Path, kind: str) -> None:
    source = folder = shutil.copytree(tiny, tmp_path / "mine")
    (folder / "vocab.txt").write_text("a\n")
    if kind == "archive":
        source = Path(shutil.make_archive(str(tmp_path / "mine"), "zip", folder))
    facts = as_json("show", source)
    assert all(f"`{key}`" in documented("models") for key in facts)
    bilm = load(folder)
    assert facts["name"] == "mine"
    assert facts["sha256"] == bilm.sha256
    assert facts["where"] == "path"
    assert (facts["path"] == str(folder)) == (kind == "folder")
    assert facts["family"] == "bilm-tf"
    needed = [folder / name for name in ("options.json", "weights.hdf5")]
    assert facts["bytes"] == sum(path.stat().st_size for path in needed)
    assert facts["bytes_are_exact"]
    assert facts["dim"] == 16
    assert facts["layers"] == 3
    assert facts["options"] == bilm.options.to_dict()
    assert facts["parameters"] == sum(values.numel() for values in bilm.parameters())
    assert facts["vocabulary"]
    assert not facts["softmax"]
    assert not facts["warm_state"]
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert {file["name"]: file["bytes"] for file in facts["files"]} == sizes
    lstm = json.dumps(facts["options"]["lstm"])
    lines = {
        "vocabulary  yes",
        f"lstm        {lstm}",
        *(f"  sha256 {file['sha256']}" for file in facts["files"]),
    }
    assert lines < set(shown("show", source))


@pytest.mark.parametrize("has_parts", [False, True])
def test_convert_says_what_a_folder_lacks(has_parts: bool, tiny: Path, tmp_path: Path) -> None:
    """It has all that the original has."""
    source = shutil.copytree(tiny, tmp_path / "source")
    names = {"options.json", "weights.hdf5", "parts.json"}
    if has_parts:
        names |= {"vocab.txt", "state.hdf5"}
        (source / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
        state = State(torch.randn(2, 2, 1, 8), torch.randn(2, 2, 1, 16))
        write_state(state, source / "state.hdf5")
    done = made("models", "convert", source, "-o", tmp_path / "copy")
    n_parameters = sum(values.numel() for values in load(tiny).parameters())
    vocabulary = "vocabulary" if has_parts else "no vocabulary"
    sizes = f"{n_parameters:,} parameters of weights in HDF5, no softmax, {vocabulary}"
    assert f"{tmp_path / 'copy'}: {sizes}" in done.err.splitlines()
    assert {path.name for path in (tmp_path / "copy").iterdir()} == names
    if has_parts:
        stored = load(tmp_path / "copy").warm_state
        assert stored is not None
        assert torch.equal(stored.c, state.c)


def test_random(tiny: Path, tmp_path: Path) -> None:
    """The same sizes, other weights; the same seed gives the same bytes."""
    trained = load(tiny)
    models = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        done = made("models", "random", "--like", tiny, "--seed", seed, "-o", tmp_path / name)
        models.append(load(tmp_path / name))
        n_parameters = sum(values.numel() for values in models[-1].parameters())
        weights = f"{n_parameters:,} random weights, seed {seed}, sizes of {tiny}"
        assert done.err == f"{tmp_path / name}: {weights}\n"
    a, b, c = models
    assert a.options == b.options == c.options == trained.options
    assert a.sha256 == b.sha256
    assert len({trained.sha256, a.sha256, c.sha256}) == 3
    assert (Embedder(a).embed(["The", "cat"]).std(axis=(1, 2)) > 1e-3).all()


def test_random_does_not_replace_a_model(tiny: Path, tmp_path: Path) -> None:
    made("models", "random", "--like", tiny, "-o", tmp_path / "a")
    done = elmo("models", "random", "--like", tiny, "-o", tmp_path / "a")
    assert done.code == 1
    assert "`--output`" in done.err.splitlines()[1]


def test_pull(
    model: Model, home: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bar counts to the size of the model."""
    progress: list[tuple[float, float | None]] = []

    def update(self: object, done: float, total: float | None) -> None:
        progress.append((done, total))

    monkeypatch.setattr(console.ProgressDisplay, "update", update)
    for options, n_requests in ((), 2), ((), 2), (("-f",), 4), (("--overwrite",), 6):
        done = made("models", "pull", "tiny", *options)
        assert done.out == b""
        assert done.err == f"tiny: cached, {home}/models/tiny\n"
        assert len(server.seen) == n_requests
    assert made("models", "pull", "tiny", "-q").err == ""

    def pull_after_waiting(*args: Any, **named: Any) -> Any:
        named["on_wait"]()
        return pull(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr("elmo_cli.pretrained.download.pull", pull_after_waiting)
        first, _ = made("models", "pull", "tiny").err.splitlines()
    assert first == "waiting for another process that is downloading tiny"
    _, weights = model.files
    assert progress[-1] == (sum(map(len, server.files.values())), weights.bytes)
