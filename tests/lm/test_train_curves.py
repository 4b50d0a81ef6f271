"""`elmo curves`: a picture of a run, and what is said where none can be drawn."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from click.testing import CliRunner, Result

from elmo_cli.cli.curves import curves
from elmo_cli.errors import ElmoError, InputError, OutputError, UsageError


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(curves, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with two looks."""
    lines = []
    for step in range(1, 9):
        place = {"step": step, "epoch": 0, "tokens": step * 80, "seconds": step / 10}
        lines.append({**place, "loss": 7 / step, "learning_rate": 0.01, "sampled_softmax": True})
        if step % 4 == 0:
            look = {"forward": 90 / step, "backward": 80 / step, "average": 85 / step}
            lines.append({**place, "heldout": look})
    (tmp_path / "model").mkdir()
    (tmp_path / "model/log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path / "model"


def test_a_picture_shows_losses_and_perplexities(folder: Path, tmp_path: Path) -> None:
    """The curves of several runs, with their names, in what the suffix asks for."""
    pytest.importorskip("matplotlib")
    out = tmp_path / "curves.svg"
    run(folder, folder / "log.jsonl", "-o", out)
    drawn = out.read_text()
    for label in ("model (sampled softmax)", "model, average", "model, backward", "tokens"):
        assert f"<!-- {label} -->" in drawn
    png = tmp_path / "curves.png"
    run(folder, "-o", png)
    assert png.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OutputError, match="exists"):
        run(folder, "-o", png)


def test_a_run_without_heldout_text_is_drawn_too(folder: Path, tmp_path: Path) -> None:
    """Half of the picture is empty then."""
    pytest.importorskip("matplotlib")
    log = folder / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if "heldout" not in line))
    run(folder, "-o", tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5000


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["_run", r"a$\foo$", "a$b", "\udce9"])
def test_any_name_of_a_folder_stands_in_the_legend(name: str, folder: Path) -> None:
    """matplotlib takes some for formulas, and leaves some out."""
    pytest.importorskip("matplotlib")
    out = folder.parent / "curves.svg"
    run(folder.rename(folder.with_name(name)), "-o", out)
    shown = name.replace("\udce9", r"\udce9")
    drawn = out.read_text()
    for label in ("(sampled softmax)", "average"):
        assert re.search(rf"<!-- +{re.escape(shown)},? {re.escape(label)} -->", drawn)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("value", ["0", "-2.5", "NaN", "Infinity"])
def test_perplexities_that_have_no_logarithm_are_drawn(value: str, folder: Path) -> None:
    """A damaged log must not end in a warning of matplotlib."""
    pytest.importorskip("matplotlib")
    look = ", ".join(f'"{name}": {value}' for name in ("forward", "backward", "average"))
    (folder / "log.jsonl").write_text(f'{{"step": 1, "tokens": 3, "heldout": {{{look}}}}}\n')
    run(folder, "-o", folder.parent / "curves.png")
    assert (folder.parent / "curves.png").stat().st_size > 5000


def test_what_is_no_log_is_told(folder: Path, tmp_path: Path) -> None:
    """Without it the user gets a traceback of json or of matplotlib."""
    pytest.importorskip("matplotlib")
    out = tmp_path / "curves.png"
    with pytest.raises(InputError, match=r"log\.jsonl: can't be read as a log"):
        run(tmp_path, "-o", out)
    (tmp_path / "recipe.json").write_text("{}")
    with pytest.raises(InputError) as caught:
        run(tmp_path, "-o", out)
    assert "after `--log-steps` steps and at its end" in caught.value.hint
    log = folder / "log.jsonl"
    good = log.read_text()
    deep = "[" * 200_000
    for line in ('{"loss": 3}', '{"step": 1}', '{"step": 1, "tokens": 1, "heldout": 3.5}', deep):
        log.write_text(f"{good}{line}\n")
        with pytest.raises(InputError, match=r"log\.jsonl, line 11: not a line of a training log"):
            run(folder, "-o", out)
    log.write_text("")
    with pytest.raises(InputError, match="no line in it yet"):
        run(folder, "-o", out)


def test_a_suffix_that_stands_for_no_picture_is_told(folder: Path, tmp_path: Path) -> None:
    """matplotlib names twelve formats, and not the file."""
    pytest.importorskip("matplotlib")
    with pytest.raises(OutputError, match=r"curves\.txt: can't be drawn") as caught:
        run(folder, "-o", tmp_path / "curves.txt")
    assert "curves.png" in caught.value.hint
    assert not (tmp_path / "curves.txt").exists()


def test_a_name_without_a_suffix_replaces_no_picture(folder: Path, tmp_path: Path) -> None:
    """matplotlib writes `keep` as keep.png, which was there and not to be overwritten."""
    kept = tmp_path / "keep.png"
    kept.write_bytes(b"mine")
    for name in ("keep", "keep.", ".png"):
        with pytest.raises(OutputError, match="has no suffix"):
            run(folder, "-o", tmp_path / name)
    with pytest.raises(UsageError, match="--output -: a picture needs a file"):
        run(folder, "-o", "-")
    assert {path.name for path in tmp_path.iterdir()} == {"model", "keep.png"}
    assert kept.read_bytes() == b"mine"


def test_a_log_is_not_drawn_over(folder: Path, tmp_path: Path) -> None:
    """Without it `-f` and a link would cost the log of a run."""
    log = folder / "log.jsonl"
    before = log.read_bytes()
    link = tmp_path / "curves.svg"
    link.symlink_to(log)
    for output in (log, link):
        with pytest.raises(UsageError, match="is also one of the inputs"):
            run(folder, "-o", output, "--overwrite")
    assert log.read_bytes() == before


def test_a_picture_is_never_half_there(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up would leave half a picture in place of the old one."""
    figure = pytest.importorskip("matplotlib.figure").Figure
    old, link = tmp_path / "old.png", tmp_path / "link.png"
    old.write_bytes(b"mine")
    link.symlink_to(old)

    def half(self: Any, file: BinaryIO, **_: Any) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(figure, "savefig", half)
        with pytest.raises(OutputError, match=r"link\.png: no space left \(No space left"):
            run(folder, "-o", link, "--overwrite")
    assert old.read_bytes() == b"mine"
    run(folder, "-o", link, "--overwrite")
    assert link.is_symlink()
    assert old.stat().st_size > 5000
    assert {path.name for path in tmp_path.iterdir()} == {"model", "old.png", "link.png"}


def test_matplotlib_missing_is_told(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is an extra: who has not got it must learn how to get it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ElmoError, match="matplotlib is not installed") as caught:
        run(folder, "-o", tmp_path / "curves.png")
    assert "elmo-cli[plot]" in caught.value.hint
