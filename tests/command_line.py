"""`elmo` run in this process with streams of its own, as a shell would run it."""

from __future__ import annotations

import glob
import io
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

import click
import pytest
from hints import names_that_lead_nowhere

from elmo_cli.cli import console
from elmo_cli.cli.command_groups import COMMAND_NAMES
from elmo_cli.cli.main import cli, main


@dataclass(frozen=True)
class Done:
    """What a command left.

    Attributes:
        code: its exit code.
        out: what it wrote to standard output.
        err: what it wrote to standard error.
    """

    code: int
    out: bytes
    err: str


def elmo(*words: object, stdin: bytes = b"", has_stdout: bool = True) -> Done:
    """Run `elmo` with these words; no stream is a terminal."""
    out = io.BytesIO()
    err = io.BytesIO()
    stdout = io.TextIOWrapper(out, "utf-8")
    stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(console, "running", console.RunningCommand())
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        patch.setattr(sys, "stdout", stdout if has_stdout else None)
        patch.setattr(sys, "stderr", stderr)
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        stdout.flush()
        stderr.flush()
        said = err.getvalue().decode("utf-8")
        context = console.running.context
    if context is not None:
        for line in said.splitlines():
            if line.startswith(("hint: ", "warning: ")):
                assert names_that_lead_nowhere(line, context.command) == [], line
    return Done(code=int(str(ended.value.code)), out=out.getvalue(), err=said)


def made(*words: object, stdin: bytes = b"") -> Done:
    """The same for a command that has to succeed."""
    done = elmo(*words, stdin=stdin)
    assert done.code == 0, done.err
    return done


def run_line(line: str) -> Done:
    """Run a line of a shell, its commands of `elmo` in this process.

    It may consist of several commands with pipes between them, and end with a file for the output.
    Returns what the line prints, with the messages of its last command of `elmo`.
    """
    commands, _, file = line.partition(" > ")
    done = Done(code=0, out=b"", err="")
    for command in commands.split(" | "):
        words = shlex.split(command)
        if words[0] == "elmo":
            arguments: list[str] = []
            for word in words[1:]:
                arguments += sorted(glob.glob(word)) or [word]
            done = made(*arguments, stdin=done.out)
        else:
            other = subprocess.run(
                command, shell=True, input=done.out, capture_output=True, check=True
            )
            done = replace(done, out=other.stdout)
    if file:
        Path(file).write_bytes(done.out)
        done = replace(done, out=b"")
    return done


def commands() -> dict[tuple[str, ...], click.Command]:
    """Every command and sub-command, by its words."""
    by_words: dict[tuple[str, ...], click.Command] = {(): cli}
    for name in COMMAND_NAMES:
        command = getattr(import_module(f"elmo_cli.cli.{name}"), name)
        by_words[(name,)] = command
        if isinstance(command, click.Group):
            for sub_name, sub_command in command.commands.items():
                by_words[name, sub_name] = sub_command
    return by_words


def refused(done: Done, code: int, message: str, hint: str) -> None:
    """Check an error of two lines, the beginning of its message, and a part of its hint."""
    error, advice = done.err.splitlines()[-2:]
    assert done.code == code, done.err
    assert error.startswith(f"error: {message}")
    assert advice.startswith("hint: ")
    assert hint in advice


def documented(command: str) -> str:
    """The section of docs/reference/json.md about a command."""
    page = Path(__file__).resolve().parents[1] / "docs" / "reference" / "json.md"
    for section in page.read_text(encoding="utf-8").split("\n## "):
        heading = section.splitlines()[0]
        if command in heading.split(", "):
            return section
    raise LookupError(f"docs/reference/json.md: no section about {command}")


def only_tiny(monkeypatch: pytest.MonkeyPatch, model: Path) -> None:
    """An environment in which nothing is set but a small model, and the processor as the device."""
    for name in list(os.environ):
        if name.startswith("ELMO_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ELMO_MODEL", str(model))
    monkeypatch.setenv("ELMO_DEVICE", "cpu")
