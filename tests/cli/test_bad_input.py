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
from situations import BadInput, CommandScene

PATH = Path(__file__).with_name("messages.txt")


def read_messages() -> dict[str, str]:
    """The messages of the file, by the names of rows: `[exit CODE] error: …`, then the hint."""
    lines = PATH.read_text("utf-8").splitlines()
    messages = {}
    for first, hint in zip(lines[::2], lines[1::2], strict=True):
        name, rest = first.split(" [exit ", maxsplit=1)
        messages[name] = f"[exit {rest}\n{hint}"
    return messages


def fits(expected: str, said: str) -> bool:
    """Whether a message is the expected one, in which `…` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), said) is not None


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file in a folder, by its path; folders and links with what they are."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or path.is_dir():
            content = os.readlink(path) if path.is_symlink() else "folder"
        else:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        contents[str(path.relative_to(folder))] = content
    return contents


@pytest.fixture(scope="module")
def messages(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The expected messages; with `--update-golden` they are replaced and written at the end."""
    expected = read_messages()
    yield expected
    if request.config.getoption("--update-golden"):
        names = sorted(row.name for row in TABLE)
        PATH.write_text("".join(f"{name} {expected[name]}\n" for name in names), "utf-8")


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_bad_input(
    row: BadInput,
    scene: CommandScene,
    messages: dict[str, str],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for make in row.makers:
        make(scene)
    for variable, value in row.env.items():
        monkeypatch.setenv(variable, value)
    before = hashes(scene.folder)
    done = elmo(*row.words)
    after = hashes(scene.folder)
    said = f"[exit {done.code}] " + "\n    ".join(done.err.splitlines())
    said = said.replace(str(scene.folder), "HERE").replace(str(scene.stock), "STOCK")
    assert re.fullmatch(r"\[exit [123]\] error: .+\n    hint: .+", said), done.err
    assert b"Traceback" not in done.out
    if request.config.getoption("--update-golden") and not fits(messages.get(row.name, ""), said):
        messages[row.name] = said
    assert row.name in messages, "no such row in messages.txt; --update-golden adds it"
    assert fits(messages[row.name], said), done.err
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert changed == set(row.leaves)


def test_each_row_has_one_message(request: pytest.FixtureRequest) -> None:
    """A message without a row would be reviewed for nothing, two rows of one name share one."""
    names = [row.name for row in TABLE]
    assert len(set(names)) == len(names)
    if not request.config.getoption("--update-golden"):
        assert list(read_messages()) == sorted(names)


@pytest.mark.parametrize(
    ("name", "said"), [("no  such.txt", "no  such.txt"), ("no\n such.txt", "no such.txt")]
)
def test_a_name_is_printed_as_it_is(name: str, said: str) -> None:
    """Two blanks stay two; a line end would be a third line."""
    assert elmo("tokenize", name).err.startswith(f"error: {said}: no such file\nhint: ")
