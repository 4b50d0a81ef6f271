"""Hints with the line to type, if a parameter is missing."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import elmo, refused


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("embed a.txt", "elmo embed a.txt -o PATH"),
        ("embed 'a b.txt' -q", "elmo embed 'a b.txt' -q -o PATH"),
        ("embed -q -- -a.txt", "elmo embed -q -o PATH -- -a.txt"),
        ("vocab a.txt", "elmo vocab a.txt -o FILE"),
        ("evaluate m -q a.conll", "elmo evaluate m -q --test a.conll"),
        ("evaluate m a.conll -q", "elmo evaluate m -q --test a.conll"),
        ("evaluate m -- -a.conll", "elmo evaluate m --test -a.conll --"),
        ("evaluate -m x m x", "elmo evaluate -m x m x --test FILE"),
        ("evaluate m a.conll b.conll", "elmo evaluate m a.conll b.conll --test FILE"),
        ("tokenize -q", "elmo tokenize -q TEXT…"),
        ("embed -q", "elmo embed -q FILE… -o PATH"),
        ("embed -o a.hdf5 -- ", "elmo embed -o a.hdf5 -- FILE…"),
        ("usages -q", "elmo usages -q TEXT… --words FILE -o FILE.npz"),
        ("train ner", "elmo train ner --train FILE"),
    ],
)
def test_what_a_line_lacks_is_added(line: str, corrected: str, folder: Path) -> None:
    done = elmo(*shlex.split(line))
    refused(done, 2, "missing ", f"`{corrected}`; see `elmo ")


def answer(line: str, *, stdin: int) -> list[str]:
    """The lines on standard error of a command that is refused, with this standard input."""
    command = [sys.executable, "-m", "elmo_cli", *shlex.split(line)]
    done = subprocess.run(command, stdin=stdin, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("line", "corrected"),
    [
        ("embed", "elmo embed - -o PATH"),
        ("embed -o a.hdf5", "elmo embed -o a.hdf5 -"),
        ("predict", "elmo predict DIR -"),
    ],
)
def test_a_text_that_is_piped_is_the_input_that_the_line_lacks(line: str, corrected: str) -> None:
    reading_end, writing_end = os.pipe()
    os.close(writing_end)
    error, hint = answer(line, stdin=reading_end)
    os.close(reading_end)
    assert error.startswith("error: missing argument ")
    assert hint.startswith(f"hint: `{corrected}`; see ")


def test_a_text_that_is_redirected_is_the_input_that_the_line_lacks() -> None:
    with Path(__file__).open() as text:
        _, hint = answer("tokenize", stdin=text.fileno())
    assert hint.startswith("hint: `elmo tokenize -`; see ")


@pytest.mark.parametrize("line", ["embed", "tokenize"])
def test_without_a_text_a_command_alone_prints_its_help(line: str) -> None:
    lines = answer(line, stdin=subprocess.DEVNULL)
    assert lines[0].startswith(f"Usage: elmo {line} ")


def test_a_command_that_reads_no_text_prints_its_help_in_a_pipe() -> None:
    with Path(__file__).open() as text:
        lines = answer("inspect", stdin=text.fileno())
    assert lines[0].startswith("Usage: elmo inspect ")
