"""Calls of `elmo embed` with the words of `allennlp elmo`: the line that the hint says to type."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import h5py
import pytest
from command_line import Done, elmo, made, refused

from elmo_cli.cli.click_options import InputFile, InputText
from elmo_cli.cli.embed import embed
from elmo_cli.cli.main import cli

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "moving.md"

SAME = "-m original --state carry --overwrite"  # what AllenNLP does without a flag
# What was typed after `elmo embed`, what the error names, and the line of the hint.
CALLS = {
    "in.txt out.hdf5 --all": ("--all", f"in.txt -o out.hdf5 {SAME}"),
    "in.txt out.hdf5 --top": ("--top", f"in.txt -o out.hdf5 --layers top {SAME}"),
    "--average in.txt out.hdf5": ("--average", f"in.txt -o out.hdf5 --layers average {SAME}"),
    "in.txt -o out.hdf5 --top": ("--top", f"in.txt -o out.hdf5 --layers top {SAME}"),
    "in.txt out.hdf5 --all --cuda-device 1": (
        "--all",
        f"in.txt -o out.hdf5 --device cuda:1 {SAME}",
    ),
    "in.txt out.hdf5 --cuda-device=-1": (
        "--cuda-device",
        f"in.txt -o out.hdf5 --device cpu {SAME}",
    ),
    "in.txt out.hdf5 --all --forget-sentences --use-sentence-keys": (
        "--all",
        f"in.txt --forget-sentences --use-sentence-keys -o out.hdf5 {SAME}",
    ),
    "--all --options-file o.json --weight-file w.hdf5 in.txt out.hdf5 --batch-size 2": (
        "--all",
        "--options-file o.json --weight-file w.hdf5 in.txt --batch-size 2 -o out.hdf5 "
        "--state carry --overwrite",
    ),
    "in.txt out.hdf5 --all --vocab-path v --file-friendly-logging": (
        "--all",
        f"in.txt -o out.hdf5 {SAME}",
    ),
    "in.txt out.hdf5 --all --include-package mine --include-package=yours": (
        "--all",
        f"in.txt -o out.hdf5 {SAME}",
    ),
    "in.txt out.hdf5 --all -mmodel/ --device cpu --cuda-device 0": (
        "--all",
        "in.txt -mmodel/ --device cpu -o out.hdf5 --state carry --overwrite",
    ),
    "in.txt out.hdf5 --layers=0 --top": ("--top", f"in.txt --layers=0 -o out.hdf5 {SAME}"),
    "in.txt out.hdf5 --all --resume": (
        "--all",
        "in.txt --resume -o out.hdf5 -m original --state carry",
    ),
    "'my text.txt' out --all": ("--all", f"'my text.txt' -o out {SAME}"),
    "--all -- -in.txt out.hdf5": ("--all", f"-o out.hdf5 {SAME} -- -in.txt"),
    "in.txt old.hdf5 --all": ("--all", f"in.txt -o old.hdf5 {SAME}"),
    "in.txt old --all": ("--all", f"in.txt -o old {SAME}"),
    # The output is not named, so that the hint must not replace a file.
    "text/in.txt --all": ("--all", "text/in.txt -o in.hdf5 -m original --state carry"),
    "in.txt text --all": ("--all", "in.txt text -o in.hdf5 -m original --state carry"),
    "in.txt folder --all": ("--all", "in.txt folder -o in.hdf5 -m original --state carry"),
    "- --top": ("--top", "- -o out.hdf5 --layers top -m original --state carry"),
    "--top": ("--top", "FILE -o out.hdf5 --layers top -m original --state carry"),
}
# The same for calls whose numbers are not said to be those of AllenNLP.
OTHER_CALLS = {
    "in.txt out.hdf5": ("out.hdf5", "in.txt -o out.hdf5"),
    "in.txt out.hdf5 --forget-sentences": ("out.hdf5", "in.txt --forget-sentences -o out.hdf5"),
    "in.txt out.hdf5 --all --state carry": (
        "--all",
        "in.txt --state carry -o out.hdf5 -m original --overwrite",
    ),
    "in.txt out.hdf5 --all --state zero": (
        "--all",
        "in.txt --state zero -o out.hdf5 -m original --overwrite",
    ),
}
CLAUSE = " gives the numbers of AllenNLP; for new work, leave out `--state carry`"
# The flags of `allennlp elmo` in AllenNLP 0.9.0, and a value for those that take one.
FLAGS = {
    "--all": "",
    "--top": "",
    "--average": "",
    "--vocab-path": "vocab.txt",
    "--options-file": "options.json",
    "--weight-file": "weights.hdf5",
    "--batch-size": "64",
    "--file-friendly-logging": "",
    "--cuda-device": "0",
    "--forget-sentences": "",
    "--use-sentence-keys": "",
    "--include-package": "mine",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with old outputs, a text and a folder."""
    monkeypatch.chdir(tmp_path)
    Path("old.hdf5").touch()
    with h5py.File("old", "w"):
        pass
    Path("text").write_text("a\n")
    Path("folder").mkdir()
    return tmp_path


def _check_can_be_typed(line: str) -> None:
    """Let click read a line of `elmo embed`; its files need not exist."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InputText, "check", lambda *_: None)
        patch.setattr(InputFile, "check", lambda *_: None)
        program = click.Context(cli, **cli.context_settings)  # click keeps its names of --help
        embed.make_context("embed", shlex.split(line), parent=program)


@pytest.mark.parametrize("typed", [*CALLS, *OTHER_CALLS])
def test_one_hint_has_the_line_to_type(typed: str, folder: Path) -> None:
    where, line = {**CALLS, **OTHER_CALLS}[typed]
    clause = CLAUSE if typed in CALLS else ""
    done = elmo("embed", *shlex.split(typed))
    refused(done, 2, f"{where}: ", "")
    assert done.err.splitlines()[1:] == [f"hint: `elmo embed {line}`{clause}"]
    _check_can_be_typed(line)
    assert len(list(folder.iterdir())) == 4


@pytest.mark.parametrize("flag", FLAGS)
def test_every_flag_of_allennlp_is_known(flag: str, folder: Path) -> None:
    value = FLAGS[flag]
    words = [flag, value] if value else [flag]
    (line,) = _quoted(elmo("embed", "in.txt", "out.hdf5", *words))
    has_value = value in shlex.split(line)
    assert shlex.split(line)[:2] == ["embed", "in.txt"]
    assert has_value == (flag in ("--options-file", "--weight-file", "--batch-size"))
    _check_can_be_typed(line.removeprefix("embed "))


@pytest.mark.parametrize("flag", FLAGS)
def test_the_page_has_every_flag_of_allennlp(flag: str) -> None:
    section = PAGE.read_text("utf-8").split("\n## ")[1]
    assert re.search(rf"^\|[^|]*[` ]{flag}[` ]", section, re.M)


def test_the_line_can_be_typed(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("a b\n")
    words = ("embed", "in.txt", "out.hdf5", "--top", "--cuda-device", -1, "-m", tiny, "-q")
    for _ in range(2):  # AllenNLP replaces its output
        line = _quoted(elmo(*words))[0]
        made(*shlex.split(line))
        assert Path("out.hdf5").exists()


def _quoted(done: Done) -> list[str]:
    """The lines of elmo in a hint, without the name of the program."""
    return re.findall(r"`elmo (.*?)`", done.err.splitlines()[1])


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("in.txt out.hdf5 --all --foo bar", "no such option '--foo'"),
        ("in.txt out.hdf5 --unknown --include-package foo --all", "no such option '--unknown'"),
    ],
)
def test_an_option_that_neither_program_has_is_named(
    typed: str, message: str, folder: Path
) -> None:
    refused(elmo("embed", *typed.split()), 2, message, "see `elmo embed --help`")


MOVING = "; docs/guides/moving.md lists what replaces the other calls of AllenNLP"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("in.txt", "`elmo embed in.txt -o in.hdf5`"),
        ("in.CONLLU.gz -o x.hdf5", "`elmo embed in.CONLLU.gz -o x.hdf5`"),
        ("text", "`elmo embed text -o text.hdf5`"),
        ("in.txt out.hdf5 --all", f"`elmo embed in.txt -o out.hdf5 {SAME}`{CLAUSE}"),
        ("old", "`elmo inspect old` describes it"),
        ("elmo", f"`elmo embed FILE -o out.hdf5`{MOVING}"),
        ("elmo in.txt out --all", f"`elmo embed in.txt -o out {SAME}`{CLAUSE}{MOVING}"),
        ("allennlp elmo in.txt out --all", f"`elmo embed in.txt -o out {SAME}`{CLAUSE}{MOVING}"),
        ("allennlp train config.json", f"`elmo embed FILE -o out.hdf5`{MOVING}"),
        ("elmo inspect old", "`elmo inspect old`"),
        ("folder", "see `elmo --help`"),
        ("embd in.txt", "see `elmo --help`"),
    ],
)
def test_a_word_that_is_no_command(typed: str, hint: str, folder: Path) -> None:
    done = elmo(*typed.split())
    refused(done, 2, f"no such command '{typed.split()[0]}'", "")
    assert done.err.splitlines()[1:] == [f"hint: {hint}"]


def test_a_file_as_command_with_an_unknown_option(folder: Path) -> None:
    refused(elmo("in.txt", "--foo"), 2, "no such option '--foo'", "see `elmo embed --help`")


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
