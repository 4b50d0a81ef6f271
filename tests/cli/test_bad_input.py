"""Bad input: each gets a message of its own and harms nothing.

Two lines on stderr, `error: WHERE: WHAT` and `hint: what to do next`; the exit code of the kind of
error; no traceback; every file that was there before, a former output among them, as it was; no
file left behind. Without these tests an error would be what Python happens to say, or would cost a
person the output of a day.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
from pathlib import Path

import pytest
from bad_embeddings import EMBEDDINGS
from bad_files import FILES
from bad_lines import LINES
from bad_models import MODELS
from bad_neighbors import NEIGHBORS
from bad_options import OPTIONS
from bad_places import OUTPUT
from bad_runs import RUNS
from bad_together import TOGETHER
from bad_training import TRAINING
from bad_weights import WEIGHTS
from situations import Bad

from elmo_cli.cli.main import main

TABLE = [
    *FILES,
    *LINES,
    *OPTIONS,
    *TOGETHER,
    *OUTPUT,
    *RUNS,
    *MODELS,
    *WEIGHTS,
    *EMBEDDINGS,
    *NEIGHBORS,
    *TRAINING,
]


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


def matches(text: str, expected: str) -> bool:
    """Whether a text is as expected, where `…` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), text) is not None


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """What is new, gone or other than before."""
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.mark.parametrize("bad", TABLE, ids=lambda bad: bad.name)
def test_bad_input(bad: Bad, scene, monkeypatch, capsys):
    for make in bad.makes:
        make(scene)
    for name, value in bad.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(bad.stdin)))
    before = hashes(scene.folder)
    with pytest.raises(SystemExit) as done:
        main(bad.words)
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert "Traceback" not in said.err + said.out
    assert len(lines) == 2, said.err
    assert matches(lines[0], f"error: {bad.says}"), said.err
    assert matches(lines[1], f"hint: {bad.hint}"), said.err
    assert done.value.code == bad.code
    assert changed(before, hashes(scene.folder)) == set(bad.leaves)


def test_names_are_distinct():
    """Without it two rows of one name could not be told apart in a report."""
    names = [bad.name for bad in TABLE]
    assert len(set(names)) == len(names)


def test_a_name_is_told_as_it_is(scene, capsys):
    """Blanks in a row are seen by nobody where they are one; a line end would be a third line."""
    for name, said in (("no  such.txt", "no  such.txt"), ("no\n such.txt", "no such.txt")):
        with pytest.raises(SystemExit):
            main(["tokenize", name])
        assert capsys.readouterr().err.startswith(f"error: {said}: no such file\nhint: ")
