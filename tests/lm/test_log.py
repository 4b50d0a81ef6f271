"""The log of a run, and `elmo curves`, which draws it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from command_line import elmo, made

from elmo_cli.errors import InputError
from elmo_cli.lm.log import TrainingLog, read_log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with two evaluations."""
    lines = []
    for step in range(1, 9):
        at = {"step": step, "epoch": 0, "tokens": step * 80, "seconds": step / 10}
        lines.append({**at, "loss": 7 / step, "learning_rate": 0.01, "sampled_softmax": True})
        if step % 4 == 0:
            measured = {"forward": 90 / step, "backward": 80 / step, "average": 85 / step}
            lines.append({**at, "heldout": measured})
    (tmp_path / "model").mkdir()
    (tmp_path / "model/log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "model"


def test_a_log_is_truncated_to_the_size_of_a_checkpoint(tmp_path: Path) -> None:
    """So that no line occurs twice in a resumed run."""
    log = TrainingLog(tmp_path / "log.jsonl")
    assert log.synced_size() == 0
    log.truncate(3)
    log.append({"step": 1, "tokens": 2, "loss": 3.0})
    size = log.synced_size()
    assert size == log.path.stat().st_size
    log.append({"step": 2, "tokens": 4})
    log.truncate(size)
    log.truncate(size + 99)
    assert read_log(log.path) == [{"step": 1, "tokens": 2, "loss": 3.0}]


@pytest.mark.parametrize(
    "line",
    [
        '{"loss": 3}',
        '{"step": 1}',
        '{"step": 1, "tokens": "1"}',
        '{"step": 1, "tokens": 1, "loss": null}',
        '{"step": 1, "tokens": 1, "heldout": 3.5}',
        '{"step": 1, "tokens": 1, "heldout": {"average": 3.5}}',
        "[1]",
        "{",
        "[" * 200_000,
    ],
    ids=lambda line: line[:60],
)
def test_a_line_that_is_not_of_a_log_is_refused(line: str, folder: Path) -> None:
    """Otherwise the user gets a traceback of json or of matplotlib."""
    with (folder / "log.jsonl").open("a") as file:
        file.write(line)
    with pytest.raises(InputError, match=r"log\.jsonl, line 11: not a line of a training log"):
        read_log(folder / "log.jsonl")


def test_a_missing_log_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"log\.jsonl: cannot be read as a log"):
        read_log(tmp_path / "log.jsonl")


# -- the picture -----------------------------------------------------------------------------------


def test_a_picture_shows_losses_and_perplexities(folder: Path, tmp_path: Path) -> None:
    """The curves of several runs, with their names, in the format of the suffix."""
    svg, png = tmp_path / "curves.svg", tmp_path / "curves.png"
    made("curves", folder, folder / "log.jsonl", "-o", svg)
    for label in ("model (sampled softmax)", "model, average", "model, backward", "tokens"):
        assert f"<!-- {label} -->" in svg.read_text()
    lines = (folder / "log.jsonl").read_text().splitlines(keepends=True)
    (folder / "log.jsonl").write_text("".join(line for line in lines if "heldout" not in line))
    made("curves", folder, "-o", png)
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("error")
def test_any_name_of_a_folder_is_in_the_legend(folder: Path) -> None:
    """matplotlib takes `$` for a formula, and leaves out names that begin with `_`."""
    out, name = folder.parent / "curves.svg", r"_a$\foo$"
    made("curves", folder.rename(folder.with_name(name)), "-o", out)
    assert re.search(rf"<!-- +{re.escape(name)}, average -->", out.read_text())


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("curves.txt", "curves.txt: cannot be drawn"),
        ("keep", "has no suffix"),  # matplotlib would write keep.png
        ("-", "--output -: a picture needs a file"),
        ("keep.png", "keep.png: exists"),
        ("model/log.jsonl", "is also one of the inputs"),
    ],
)
def test_outputs_that_are_no_new_picture_are_refused(
    output: str, message: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is replaced, least of all the log of a run."""
    monkeypatch.chdir(folder.parent)
    Path("keep.png").write_bytes(b"mine")
    before = {path: path.read_bytes() for path in Path().rglob("*.*")}
    done = elmo("curves", folder, "-o", output, *["-f"][: output != "keep.png"])
    assert done.code in (1, 2)
    assert message in done.err
    assert {path: path.read_bytes() for path in Path().rglob("*.*")} == before


def test_an_empty_log_cannot_be_drawn(folder: Path) -> None:
    (folder / "log.jsonl").write_text("")
    done = elmo("curves", folder, "-o", folder.parent / "curves.png")
    assert "no line in it yet" in done.err


def test_missing_matplotlib_is_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = elmo("curves", folder, "-o", tmp_path / "curves.png")
    assert "matplotlib is not installed" in done.err
    assert "pip install" in done.err
