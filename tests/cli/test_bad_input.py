"""Bad input: each gets a message of its own and harms nothing.

Two lines on stderr, `error: WHERE: WHAT` and `hint: what to do next`; the exit code of the kind of
error; no traceback; every file that existed before, a former output among them, unchanged; no new
file. The messages are in messages.txt; `pytest tests/cli/test_bad_input.py --update-golden` writes
them anew.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bad_input import TABLE
from golden_messages import Message, read_messages, write_messages
from situations import Bad, Scene

from elmo_cli.cli.main import main


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file in a folder, by its path; folders and links with what they are."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(folder))] = f"link to {os.readlink(path)}"
        elif path.is_dir():
            found[str(path.relative_to(folder))] = "folder"
        else:
            found[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """What is new, gone or other than before."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def without_paths(line: str, scene: Scene) -> str:
    """A line with placeholders for the temporary folders."""
    return line.replace(str(scene.folder), "HERE").replace(str(scene.stock), "STOCK")


@pytest.fixture(scope="module")
def messages(request: pytest.FixtureRequest) -> Iterator[dict[str, Message]]:
    """The expected messages; with `--update-golden` they are replaced and written at the end."""
    expected = read_messages()
    yield expected
    if request.config.getoption("--update-golden"):
        names = {bad.name for bad in TABLE}
        write_messages({name: one for name, one in expected.items() if name in names})


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.name)
def test_bad_input(bad: Bad, scene: Scene, messages, request, monkeypatch, capsys) -> None:
    for make in bad.makes:
        make(scene)
    for name, value in bad.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bad.stdin)))
    before = hashes(scene.folder)
    with pytest.raises(SystemExit) as done:
        main(bad.words)
    printed = capsys.readouterr()
    lines = [without_paths(line, scene) for line in printed.err.splitlines()]
    assert "Traceback" not in printed.err + printed.out
    assert len(lines) == 2, printed.err
    said = Message(done.value.code, *lines)
    if request.config.getoption("--update-golden"):
        if not (bad.name in messages and messages[bad.name].fits(said)):
            messages[bad.name] = said
    else:
        assert bad.name in messages, "no such row in messages.txt; --update-golden adds it"
        assert messages[bad.name].fits(said), printed.err
    assert said.code in (1, 2, 3)
    assert said.error.startswith("error: ")
    assert said.hint.startswith("hint: ")
    assert changed(before, hashes(scene.folder)) == set(bad.leaves)


def test_each_row_has_one_message(request: pytest.FixtureRequest) -> None:
    """A message without a row would be reviewed for nothing, two rows of one name share one."""
    names = [bad.name for bad in TABLE]
    assert len(set(names)) == len(names)
    if not request.config.getoption("--update-golden"):
        assert list(read_messages()) == sorted(names)


def test_a_name_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Two blanks stay two; a line end would be a third line."""
    for name, said in (("no  such.txt", "no  such.txt"), ("no\n such.txt", "no such.txt")):
        with pytest.raises(SystemExit):
            main(["tokenize", name])
        assert capsys.readouterr().err.startswith(f"error: {said}: no such file\nhint: ")
