"""`elmo models list`, `show` and `pull`."""

from __future__ import annotations

import hashlib
import json
import shutil
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import documented, elmo, made
from local_server import LocalServer, cut, status

from elmo_cli.cli import console
from elmo_cli.pretrained import catalogue, download
from elmo_cli.pretrained.cache import model_dir
from elmo_cli.pretrained.catalogue import CATALOGUE, Model, find_model
from elmo_cli.pretrained.load import load


def as_json(*words: object) -> object:
    return json.loads(made("models", *words, "--json").out)


def test_list_names_every_model() -> None:
    rows = [row.split("\t") for row in made("models", "list").out.decode().splitlines()]
    assert [row[0] for row in rows[1:]] == [model.name for model in CATALOGUE]
    assert rows[2] == ["small", "54.4 MB", "256", "English", "not downloaded"]
    assert rows[3][1] == "about 112.1 MB"
    assert rows[-1][1:3] == ["?", "?"]


def test_list_reports_the_state_of_a_model(model: Model, home: Path) -> None:
    def where() -> str:
        row = as_json("list")[-1]
        assert set(row) == {"name", "title", "language", "bytes", "bytes_are_exact", "dim"} | {
            *("where", "path"),
        }
        assert row["path"] == str(home / "models" / "tiny")
        return row["where"]

    assert where() == "not downloaded"
    made("models", "pull", "tiny")
    assert where() == "cached"
    (model_dir(model) / "weights.hdf5").write_bytes(b"x")
    assert where() == "corrupt"


def test_show_of_a_published_model(home: Path) -> None:
    """Whoever downloads by hand needs the addresses, the hash and the folder."""
    shown = made("models", "show", "Small").out.decode().splitlines()
    options, weights = find_model("small").files
    addresses = {f"  {address}" for address in (*options.addresses, *weights.addresses)}
    assert addresses < set(shown)
    assert {f"  sha256 {weights.sha256}", "  sha256 not stated"} < set(shown)
    assert f"folder      {home}/models/small" in shown
    facts = as_json("show", "5.5b")
    assert (facts["name"], facts["parameters"], facts["dim"]) == ("original-5.5b", 93_600_848, 1024)
    assert (facts["bytes_are_exact"], facts["where"]) == (False, "not downloaded")
    assert facts["also_published"] == ["softmax weights and TensorFlow checkpoint: never published"]
    assert all(f"`{key}`" in documented("models") for key in facts)


@pytest.mark.parametrize("kind", ["folder", "weights", "archive"])
def test_show_of_files(tiny: Path, tmp_path: Path, kind: str) -> None:
    folder = shutil.copytree(tiny, tmp_path / "mine")
    (folder / "vocab.txt").write_text("a\n")
    source = {"folder": folder, "weights": folder / "weights.hdf5"}.get(kind)
    if source is None:
        source = Path(shutil.make_archive(str(tmp_path / "mine"), "zip", folder))
    facts = as_json("show", source)
    bilm = load(folder)
    assert (facts["name"], facts["sha256"], facts["where"]) == ("mine", bilm.sha256, "path")
    assert (facts["dim"], facts["layers"], facts["options"]) == (16, 3, bilm.options.to_dict())
    assert facts["parameters"] == sum(values.numel() for values in bilm.parameters())
    assert (facts["softmax"], facts["vocabulary"], facts["warm_state"]) == (False, True, False)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert {file["name"]: file["bytes"] for file in facts["files"]} == sizes
    sha256 = hashlib.sha256((folder / "weights.hdf5").read_bytes()).hexdigest()
    assert facts["files"][1]["sha256"] == sha256
    assert (facts["path"] == str(folder)) == (kind != "archive")
    assert all(f"`{key}`" in documented("models") for key in facts)
    shown = made("models", "show", source).out.decode().splitlines()
    expected = ["clipping    cells at 3.0, projections at 3.0", "with        vocabulary"]
    assert {*expected, f"  sha256 {sha256}"} < set(shown)


def test_pull(model: Model, home: Path, server: LocalServer) -> None:
    for options, n_requests in ((), 2), ((), 2), (("-f",), 4), (("--overwrite",), 6):
        done = made("models", "pull", "tiny", *options)
        assert (done.out, done.err) == (b"", f"tiny: cached, {home}/models/tiny\n")
        assert len(server.seen) == n_requests
    assert made("models", "pull", "tiny", "-q").err == ""


@pytest.mark.parametrize("is_known", [True, False])
def test_the_bar_of_pull(
    model: Model, server: LocalServer, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """It counts to the size of the model if that is known, and starts where a part ends."""
    if not is_known:
        files = (model.files[0], replace(model.files[1], bytes=None, sha256=None))
        monkeypatch.setitem(catalogue._BY_NAME, "tiny", replace(model, files=files))
    bars: list[list[float | None]] = []

    class Bar:
        def advance(self, n: float) -> None:
            bars[-1][1] += n

    @contextmanager
    def bar(total: float | None, unit: str, *, done: float = 0, quiet: bool = False):
        bars.append([total, done])
        yield Bar()

    monkeypatch.setattr(console, "bar", bar)
    made("models", "pull", "tiny")
    n_bytes = sum(map(len, server.files.values()))
    assert bars == [[model.files[1].bytes if is_known else None, n_bytes]]


BAD_SERVERS = {
    "refuses": (status(403), "HTTP 403 Forbidden"),
    "cuts": (cut(99), "cut off after 99 of"),
    "stalls": (cut(99, stall=True), "interrupted after 99 bytes"),
}


@pytest.mark.parametrize("name", BAD_SERVERS)
def test_errors_are_two_lines(
    model: Model, server: LocalServer, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(download.RetryPolicy.__init__, "__defaults__", (0.2, 2, 0.001))
    act, said = BAD_SERVERS[name]
    server.acts["weights.hdf5"] = [act] * 3
    done = elmo("models", "pull", "tiny")
    error, hint = done.err.splitlines()
    assert (done.code, done.out) == (1, b"")
    assert error.startswith(f"error: {server.address('weights.hdf5')}: {said}")
    assert hint.startswith("hint: run it again to resume")
    assert not (model_dir(model) / "weights.hdf5").exists()
    server.acts.clear()
    made("models", "pull", "tiny")
    assert server.ranges[-1] == ("" if name == "refuses" else "99-")


@pytest.mark.parametrize("command", ["show", "pull"])
def test_unknown_names(command: str) -> None:
    done = elmo("models", command, "smal")
    assert (done.code, done.err.splitlines()[0]) == (1, "error: no model named `smal`")
    assert "did you mean `small`?" in done.err
