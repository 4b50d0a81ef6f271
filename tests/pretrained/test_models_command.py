"""`elmo models list`, `show` and `pull`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import documented, elmo, made
from local_server import LocalServer

from elmo_cli import Embedder
from elmo_cli.cli import console
from elmo_cli.pretrained.catalogue import CATALOGUE, Model, find_model
from elmo_cli.pretrained.load import load


def as_json(*words: object) -> Any:
    return json.loads(made("models", *words, "--json").out)


def shown(*words: object) -> list[str]:
    return made("models", *words).out.decode().splitlines()


def test_list(model: Model, home: Path, server: LocalServer) -> None:
    rows = [row.split("\t") for row in shown("list")]
    assert [row[0] for row in rows[1:]] == [*(known.name for known in CATALOGUE), "tiny"]
    assert rows[2] == ["small", "54.4 MB", "256", "English", "not downloaded"]
    assert [row[1:3] for row in rows[3:8:4]] == [["about 112.1 MB", "512"], ["?", "?"]]
    states = [as_json("list")[-1]]
    made("models", "pull", "tiny")
    states.append(as_json("list")[-1])
    assert [row["where"] for row in states] == ["not downloaded", "cached"]
    assert states[1]["bytes"] == sum(map(len, server.files.values()))
    assert {row["path"] for row in states} == {str(home / "models" / "tiny")}
    assert all(f"`{key}`" in documented("models") for key in states[0])


def test_show_of_a_published_model(home: Path) -> None:
    """Whoever downloads by hand needs the addresses, the hash and the folder."""
    lines = set(shown("show", "Small"))
    options, weights = find_model("small").files
    assert {f"  {address}" for address in (*options.addresses, *weights.addresses)} < lines
    assert {f"  sha256 {weights.sha256}", "  sha256 not stated"} < lines
    assert f"path        {home}/models/small" in lines
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
    facts, bilm = as_json("show", source), load(folder)
    assert (facts["name"], facts["sha256"], facts["where"]) == ("mine", bilm.sha256, "path")
    assert (facts["dim"], facts["layers"], facts["options"]) == (16, 3, bilm.options.to_dict())
    assert facts["parameters"] == sum(values.numel() for values in bilm.parameters())
    assert (facts["softmax"], facts["vocabulary"], facts["warm_state"]) == (False, True, False)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert {file["name"]: file["bytes"] for file in facts["files"]} == sizes
    assert (facts["path"] == str(folder)) == (kind == "folder")
    assert all(f"`{key}`" in documented("models") for key in facts)
    lines = {"vocabulary  yes", *(f"  sha256 {file['sha256']}" for file in facts["files"])}
    assert lines < set(shown("show", source))


def test_random(tiny: Path, tmp_path: Path) -> None:
    """The same sizes, other weights; the same seed gives the same bytes."""
    trained, found = load(tiny), []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        done = made("models", "random", "--like", tiny, "--seed", seed, "-o", tmp_path / name)
        assert "random weights" in done.err
        found.append(load(tmp_path / name))
    assert [one.options for one in found] == [trained.options] * 3
    assert found[0].sha256 == found[1].sha256
    assert len({one.sha256 for one in (trained, *found)}) == 3
    assert (Embedder(found[0]).embed(["The", "cat"]).std(axis=(1, 2)) > 1e-3).all()
    done = elmo("models", "random", "--like", tiny, "-o", tmp_path / "a")
    assert (done.code, done.err.splitlines()[1].split("`")[1]) == (1, "--output")


def test_pull(
    model: Model, home: Path, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bar counts to the size of the model."""
    shown: list[tuple[float, float | None]] = []
    update = lambda self, done, total: shown.append((done, total))  # noqa: E731
    monkeypatch.setattr(console.ProgressDisplay, "update", update)
    for options, n_requests in ((), 2), ((), 2), (("-f",), 4), (("--overwrite",), 6):
        done = made("models", "pull", "tiny", *options)
        assert (done.out, done.err) == (b"", f"tiny: cached, {home}/models/tiny\n")
        assert len(server.seen) == n_requests
    assert made("models", "pull", "tiny", "-q").err == ""
    assert shown[-1] == (sum(map(len, server.files.values())), model.files[1].bytes)
