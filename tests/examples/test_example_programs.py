"""The programs of `examples/` print what its README shows; its scripts run."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import made, only_tiny

from elmo_cli.embed import blocks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
README = (EXAMPLES / "README.md").read_text(encoding="utf-8")
PROGRAM = re.compile(r"<!-- program -->\n```text\n\$ python (.*)\n((?:.*\n)*?)```")
MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder after the command at the top of the README, with the bundled model."""
    folder = shutil.copytree(EXAMPLES, tmp_path_factory.mktemp("examples") / "examples")
    (command,) = re.findall(r"^elmo (embed .*)$", README, re.M)
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.delenv("ELMO_MODEL", raising=False)
        made(*command.split())
    return folder


@pytest.mark.parametrize(("line", "shown"), PROGRAM.findall(README))
def test_programs_print_what_the_readme_shows(
    line: str, shown: str, embedded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To one unit of the last digit, since another processor may round differently."""
    name, *arguments = line.split()
    monkeypatch.chdir(embedded)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(name, run_name="__main__")
    number = re.compile(r"\d+\.\d+")
    text = printed.getvalue()
    assert number.sub("0", text) == number.sub("0", shown)
    for found, expected in zip(number.findall(text), number.findall(shown), strict=True):
        unit = 10 ** -len(expected.partition(".")[2])
        assert float(found) == pytest.approx(float(expected), abs=1.01 * unit)


def test_every_file_is_named_in_the_readme_and_the_data_is_small() -> None:
    files = [
        path
        for path in EXAMPLES.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__" and path.name != "README.md"
    ]
    for path in files:
        relative = path.relative_to(EXAMPLES)
        assert path.name in README or f"{relative.parts[0]}/" in README, path
    assert sum(path.stat().st_size for path in files) < MOST_BYTES


def run_pipeline(line: str) -> bytes:
    """Run a line of a script, its parts with `elmo` in this process; return what it prints."""
    data = b""
    for part in line.split(" | "):
        words = shlex.split(part)
        if words[0] == "elmo":
            data = made(*words[1:], stdin=data).out
        else:
            done = subprocess.run(part, shell=True, input=data, capture_output=True, check=True)
            data = done.stdout
    return data


@pytest.fixture
def copied(tmp_path: Path, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder as the working folder, with a small model."""
    folder = shutil.copytree(EXAMPLES, tmp_path / "copied")
    only_tiny(monkeypatch, tiny)
    monkeypatch.chdir(folder)
    return folder


def test_the_pipelines_run(copied: Path) -> None:
    lines = (copied / "pipelines.sh").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set "))]
    printed = b"".join(map(run_pipeline, commands)).decode()
    assert printed.split("\n") == ["1", "11", "position\ttoken", "0:1\tplay", "1:2\tplay", ""]


def test_a_job_array_and_its_merge_give_the_file_of_a_single_run(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripts run in bash, with an `elmo` that only records its arguments."""
    (copied / "elmo").write_text('#!/bin/sh\nprintf "%s\\n" "$*" >> calls\n')
    (copied / "elmo").chmod(0o755)
    monkeypatch.setattr(blocks, "SENTENCES", 5)  # so that play.txt has four blocks
    environment = {**os.environ, "PATH": f"{copied}:{os.environ['PATH']}"}
    environment |= {"SLURM_ARRAY_TASK_COUNT": "2", "SLURM_CPUS_PER_TASK": "1"}
    for number in ("2", "1"):
        environment["SLURM_ARRAY_TASK_ID"] = number
        words = ["bash", "slurm/array.sh", "play.txt", "shards"]
        subprocess.run(words, env=environment, check=True)
    for call in (copied / "calls").read_text().splitlines():
        made(*call.split())
    words = ["bash", "slurm/merge.sh", "shards", "corpus.hdf5"]
    subprocess.run(words, env=environment, check=True)
    made(*(copied / "calls").read_text().splitlines()[-1].split())
    made("embed", "play.txt", "-o", "single.hdf5", "-q")
    assert Path("corpus.hdf5").read_bytes() == Path("single.hdf5").read_bytes()
