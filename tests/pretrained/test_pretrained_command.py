"""`elmo models list`, `show` and `pull`, through the real command line."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from local_server import LocalServer, status
from tiny_model import write_tiny_model

from elmo_cli.cli import console
from elmo_cli.cli.main import main
from elmo_cli.pretrained import catalogue
from elmo_cli.pretrained.cache import elmo_home
from elmo_cli.pretrained.catalogue import CATALOGUE, Model
from elmo_cli.pretrained.load import load


def run(*args: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(["models", *args])
    return int(caught.value.code or 0)


@pytest.fixture
def named(model: Model, monkeypatch: pytest.MonkeyPatch) -> Model:
    """The tiny model, as if it were published."""
    monkeypatch.setitem(catalogue._BY_NAME, "tiny", model)
    monkeypatch.setattr(catalogue, "CATALOGUE", (*CATALOGUE, model))
    return model


def test_list_names_every_model(capsys: pytest.CaptureFixture[str]) -> None:
    """The hint of every unknown name sends people here."""
    assert run("list") == 0
    rows = capsys.readouterr().out.splitlines()
    assert [row.split("\t")[0] for row in rows[1:]] == [m.name for m in CATALOGUE]
    assert rows[2].split("\t") == ["small", "54.4 MB", "256", "English", "not here"]
    assert "about 112.1 MB" in rows[3]


def test_list_as_json(capsys: pytest.CaptureFixture[str], named: Model) -> None:
    """Scripts ask it whether a model is here."""
    assert run("pull", "tiny") == 0
    capsys.readouterr()
    assert run("list", "--json") == 0
    row = json.loads(capsys.readouterr().out)[-1]
    assert (row["name"], row["where"], row["dim"]) == ("tiny", "cached", 8)


def test_a_damaged_model_is_listed_as_such(
    capsys: pytest.CaptureFixture[str], named: Model
) -> None:
    """Its files have the right names, and `embed` would refuse it."""
    assert run("pull", "tiny") == 0
    capsys.readouterr()
    assert run("list", "--json") == 0
    weights = Path(json.loads(capsys.readouterr().out)[-1]["path"]) / "weights.hdf5"
    weights.write_bytes(weights.read_bytes()[:100])
    assert run("list", "--json") == 0
    assert json.loads(capsys.readouterr().out)[-1]["where"] == "damaged"


def test_show_tells_addresses_and_hash(capsys: pytest.CaptureFixture[str]) -> None:
    """Those who download by hand need them, and the folder to put the files into."""
    assert run("show", "Small") == 0
    shown = capsys.readouterr().out
    small = catalogue.find("small")
    for file in small.files:
        assert {f"  {address}" for address in file.addresses} <= set(shown.splitlines())
    assert f"  sha256 {small.files[1].sha256}" in shown.splitlines()
    assert "  sha256 not stated" in shown.splitlines()
    assert "home/models/small" in shown


def test_show_as_json(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert run("show", "5.5b", "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["parameters"], facts["bytes_are_exact"]) == (93_600_848, False)
    assert facts["put_by_hand_into"] == str(home / "models" / "original-5.5b")
    assert facts["beside"][0]["note"] == "never published"


@pytest.mark.parametrize("form", ["folder", "weights", "archive"])
def test_show_of_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str) -> None:
    """With `-m` they are models as those that have a name."""
    folder = write_tiny_model(tmp_path / "mine")
    (folder / "vocab.txt").write_text("a\n")
    place = {"folder": folder, "weights": folder / "weights.hdf5"}.get(form)
    if place is None:
        place = Path(shutil.make_archive(str(tmp_path / "mine"), "zip", folder))
    assert run("show", str(place), "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    bilm = load(folder)
    n_parameters = sum(values.numel() for values in bilm.parameters())
    assert (facts["name"], facts["sha256"]) == ("mine", bilm.sha256)
    assert (facts["where"], facts["dim"], facts["layers"]) == ("path", 8, 3)
    assert (facts["parameters"], facts["options"]) == (n_parameters, bilm.options.to_dict())
    beside = [facts[name] for name in ("softmax", "vocabulary", "warm_state")]
    assert beside == [False, True, False]
    content = (folder / "weights.hdf5").read_bytes()
    sha256 = hashlib.sha256(content).hexdigest()
    assert facts["files"][1] == {
        "name": "weights.hdf5",
        "bytes": len(content),
        "sha256": sha256,
        "addresses": [],
    }
    assert facts["path"] == str(place if form == "archive" else folder)
    assert run("show", "small", "--json") == 0
    assert set(json.loads(capsys.readouterr().out)) < set(facts)
    assert run("show", str(place)) == 0
    shown = capsys.readouterr().out.splitlines()
    assert "clips       cells at 3.0, projections at 3.0" in shown
    assert "beside      vocabulary" in shown
    assert f"  sha256 {sha256}" in shown


def test_pull_says_where_it_is(
    capsys: pytest.CaptureFixture[str], named: Model, home: Path, server: LocalServer
) -> None:
    """On stderr, and again without a request when it is there."""
    for _ in range(2):
        assert run("pull", "tiny") == 0
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", f"tiny: cached, {home}/models/tiny\n")
    assert len(server.seen) == 2
    for n_seen, option in ((4, "-f"), (6, "--overwrite")):
        assert run("pull", "tiny", option) == 0
        assert len(server.seen) == n_seen


def test_the_bar_counts_to_what_is_known_of_the_size(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the size of the first file, some hundred bytes, it would stand at 100 % for hours."""
    options, weights = model.files
    unknown = replace(model, files=(options, replace(weights, bytes=None)))
    monkeypatch.setitem(catalogue._BY_NAME, "tiny", unknown)
    bars: list[tuple[float | None, float]] = []

    @contextmanager
    def bar(
        total: float | None, unit: str, *, done: float = 0, quiet: bool = False
    ) -> Iterator[console.Bar]:
        bars.append((total, done))
        with console_bar(total, unit, done=done, quiet=True) as moving:
            yield moving

    console_bar = console.bar
    monkeypatch.setattr(console, "bar", bar)
    assert run("pull", "tiny") == 0
    folder = elmo_home() / "models" / "tiny"
    sizes = [(folder / file.name).stat().st_size for file in model.files]
    assert bars == [(sizes[0], 0), (sum(sizes), sizes[0])]


def test_errors_are_two_lines(
    capsys: pytest.CaptureFixture[str], named: Model, server: LocalServer
) -> None:
    server.acts["options.json"] = [status(403)]
    assert run("pull", "tiny") == 1
    error, hint = capsys.readouterr().err.splitlines()
    assert error == f"error: {server.address('options.json')}: HTTP 403 Forbidden"
    assert hint.startswith("hint: run it again")
    assert run("show", "smal") == 1
    assert "did you mean `small`?" in capsys.readouterr().err


def test_list_needs_no_torch(home: Path) -> None:
    """It takes a second to import, and seconds on a network drive."""
    code = (
        "import sys; from elmo_cli.cli.main import cli;"
        "cli.main(['models', 'list'], standalone_mode=False);"
        "cli.main(['models', 'show', 'small'], standalone_mode=False);"
        "from elmo_cli.pretrained.load import locate;"
        "sys.exit(len({'torch', 'h5py'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stderr.strip(), done.returncode) == ("", 0)
