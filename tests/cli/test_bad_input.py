"""Bad input: each gets a message of its own and harms nothing.

Two lines on stderr, `error: WHERE: WHAT` and `hint: what to do next`; the exit code of the kind of
error; no traceback; every file that existed before, a former output among them, unchanged; no new
file.

The messages are in messages.txt, sorted by name; `pytest tests/cli/test_bad_input.py
--update-golden` writes them again. `HERE` stands for the working directory, `STOCK` for the folder
of valid files. A `…` stands for anything; it is written by hand, where a message depends on the
machine or on a library, and an update keeps it while it fits.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_input import TABLE
from command_line import elmo

PATH = Path(__file__).with_name("messages.txt")


def read_messages() -> dict[str, str]:
    """The messages of the file, by the names of rows: `[exit CODE] error: …`, then the hint."""
    lines = PATH.read_text("utf-8").splitlines()
    rows = [first.partition(" [exit ") for first in lines[::2]]
    pairs = zip(rows, lines[1::2], strict=True)
    return {name: f"{exit_}{rest}\n{hint}".lstrip() for (name, exit_, rest), hint in pairs}


def fits(expected: str, said: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), said) is not None


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file in a folder, by its path; folders and links with what they are."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or path.is_dir():
            content = os.readlink(path) if path.is_symlink() else "folder"
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = content
    return found


@pytest.fixture(scope="module")
def messages(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The expected messages; with `--update-golden` they are replaced and written at the end."""
    expected = read_messages()
    yield expected
    if request.config.getoption("--update-golden"):
        rows = sorted((row.id, expected[row.id]) for row in TABLE)
        PATH.write_text("".join(f"{name} {said}\n" for name, said in rows), "utf-8")


@pytest.mark.parametrize(("words", "makes", "env", "leaves"), TABLE)
def test_bad_input(words, makes, env, leaves, scene, messages, request, monkeypatch) -> None:
    for make in makes:
        make(scene)
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    name, before = request.node.callspec.id, hashes(scene.folder)
    done = elmo(*words)
    said = f"[exit {done.code}] " + "\n    ".join(done.err.splitlines())
    said = said.replace(str(scene.folder), "HERE").replace(str(scene.stock), "STOCK")
    assert re.fullmatch(r"\[exit [123]\] error: .+\n    hint: .+", said), done.err
    assert b"Traceback" not in done.out
    if request.config.getoption("--update-golden") and not fits(messages.get(name, ""), said):
        messages[name] = said
    assert name in messages, "no such row in messages.txt; --update-golden adds it"
    assert fits(messages[name], said), done.err
    after = hashes(scene.folder)
    assert {path for path in before | after if before.get(path) != after.get(path)} == leaves


def test_each_row_has_one_message(request: pytest.FixtureRequest) -> None:
    """A message without a row would be reviewed for nothing, two rows of one name share one."""
    names = [row.id for row in TABLE]
    assert len(set(names)) == len(names)
    if not request.config.getoption("--update-golden"):
        assert list(read_messages()) == sorted(names)


def test_a_name_is_printed_as_it_is() -> None:
    """Two blanks stay two; a line end would be a third line."""
    for name, said in (("no  such.txt", "no  such.txt"), ("no\n such.txt", "no such.txt")):
        assert elmo("tokenize", name).err.startswith(f"error: {said}: no such file\nhint: ")
