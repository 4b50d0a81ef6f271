"""Calls of `elmo embed` with the words of `allennlp elmo`: the line that the hint says to type."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_line import elmo, made, refused

# What was typed after `elmo embed`, what the error names, and the line of the hint.
CALLS = {
    "in.txt out.hdf5 --all": ("--all", "in.txt -o out.hdf5 --layers all"),
    "in.txt out.hdf5 --top": ("--top", "in.txt -o out.hdf5 --layers top"),
    "--average in.txt out.hdf5": ("--average", "in.txt -o out.hdf5 --layers average"),
    "in.txt -o out.hdf5 --top": ("--top", "in.txt -o out.hdf5 --layers top"),
    "in.txt out.hdf5 --all --cuda-device 1": (
        "--all",
        "in.txt -o out.hdf5 --layers all --device cuda:1",
    ),
    "in.txt out.hdf5 --cuda-device=-1": ("--cuda-device", "in.txt -o out.hdf5 --device cpu"),
    "in.txt out.hdf5 --all --forget-sentences --use-sentence-keys": (
        "--all",
        "in.txt --forget-sentences --use-sentence-keys -o out.hdf5 --layers all",
    ),
    "--all --options-file o.json --weight-file w.hdf5 in.txt out.hdf5 --batch-size 2": (
        "--all",
        "--options-file o.json --weight-file w.hdf5 in.txt --batch-size 2 -o out.hdf5 --layers all",
    ),
    "in.txt out.hdf5 --all --vocab-path v --file-friendly-logging": (
        "--all",
        "in.txt -o out.hdf5 --layers all",
    ),
    "in.txt out.hdf5 --layers=0 --all": ("--all", "in.txt --layers=0 -o out.hdf5"),
    "'my text.txt' out --all": ("--all", "'my text.txt' -o out --layers all"),
    "text/in.txt --all": ("--all", "text/in.txt -o in.hdf5 --layers all"),
    "- --top": ("--top", "- -o out.hdf5 --layers top"),
    "--top": ("--top", "FILE -o out.hdf5 --layers top"),
    "in.txt out.hdf5": ("out.hdf5", "in.txt -o out.hdf5"),
    "in.txt out.hdf5 --forget-sentences": (
        "out.hdf5",
        "in.txt --forget-sentences -o out.hdf5",
    ),
}


@pytest.mark.parametrize("typed", CALLS)
def test_one_hint_has_the_line_to_type(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    where, line = CALLS[typed]
    done = elmo("embed", *shlex.split(typed))
    refused(done, 2, f"{where}: ", f"`elmo embed {line}`; `--state carry`")
    assert len(done.err.splitlines()) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_line_can_be_typed(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a b\n")
    done = elmo("embed", "in.txt", "out.hdf5", "--top", "--cuda-device", -1, "-m", tiny, "-q")
    (line,) = re.findall(r"`elmo (.*?)`", done.err.splitlines()[1])
    made(*shlex.split(line))
    assert Path("out.hdf5").exists()


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("in.txt", "missing option '-o'"),
        ("in.txt other.txt", "missing option '-o'"),
        ("in.txt -o out.hdf5 --alle", "no such option '--alle'"),
        ("in.txt out.hdf5 third.hdf5", "missing option '-o'"),
    ],
)
def test_other_mistakes_keep_their_message(
    typed: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("other.txt").write_text("a\n")
    refused(elmo("embed", *typed.split()), 2, message, "see `elmo embed --help`")
