"""benchmarks/semeval2020.sh, which needs a network: its commands exist, and its correlation."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from command_line import commands

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "semeval2020.sh"
PROGRAM = re.compile(r"<<'PYTHON'\n(.*)^PYTHON$", re.S | re.M)


def test_its_commands_have_their_options() -> None:
    subprocess.run(["bash", "-n", SCRIPT], check=True)
    text = SCRIPT.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = re.findall(r"^ *elmo (\w+) (.*)$", text, re.M)
    assert [name for name, _ in lines] == ["usages", "change"]
    for name, words in lines:
        options = {option for parameter in commands()[name,].params for option in parameter.opts}
        assert {word for word in words.split() if re.match("--?[a-z]", word)} <= options


def test_data_that_were_not_unpacked_to_the_end_are_not_used(tmp_path: Path) -> None:
    """Otherwise the next call would find the folder, and measure on half of a text."""
    programs = tmp_path / "programs"
    programs.mkdir()
    bodies = {
        "curl": 'touch "$4"',
        "unzip": 'mkdir -p "$4/semeval2020_ulscd_eng" && exit 1',
    }
    for name, body in bodies.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n")
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    folder = tmp_path / "data"
    assert subprocess.run(["bash", SCRIPT, folder], env=environment).returncode == 1
    assert not (folder / "semeval2020_ulscd_eng").exists()


def test_its_correlation_is_that_of_spearman(tmp_path: Path) -> None:
    """With ties, and a word without a value; the expected values are 1 - 6 * 2 / (4 * 15), …."""
    judged = tmp_path / "graded.txt"
    judged.write_text("a\t0.1\nb\t0.2\nc\t0.7\nd\t0.9\nrare\t0.5\n")
    table = tmp_path / "change.tsv"
    table.write_text(
        "target\tprt\tapd\na\t0.2\t0.3\nb\t0.1\t0.3\nc\t0.4\t0.5\nd\t0.8\t0.6\nrare\t\t\n"
    )
    found = PROGRAM.search(SCRIPT.read_text(encoding="utf-8"))
    assert found is not None
    words = [sys.executable, "-c", found[1], str(judged), str(table)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "prt: Spearman 0.800 on 4 of 5 words",
        "apd: Spearman 0.949 on 4 of 5 words",
    ]
