"""`elmo embed --ray` in a process of its own: begun, watched, ended, and what it left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from command_line import made

from elmo_cli.store.reader import open_embeddings

N_LINES = 24_000
N_SHARDS = 6  # four blocks of 1,000 lines in each
LINES = [f"Line {i} of the text has {'some ' * (i % 5)}tokens ." for i in range(N_LINES)]
LAYOUTS = ("allennlp", *("flat",) * 9)  # of ten runs; the first is slow to read
LIMIT_S = 600.0  # a machine that is busy with something else takes minutes for what takes one

_sessions: set[int] = set()  # that were begun


@dataclass(frozen=True)
class Process:
    """What the system tells of a process.

    Attributes:
        pid, parent, session: numbers of processes.
        title: the command line, as the process has it now.
    """

    pid: int
    parent: int
    session: int
    title: str

    @property
    def is_worker(self) -> bool:
        """Whether it is a process of Ray that holds a model."""
        return self.title.startswith("ray::MapWorker")


def processes() -> Iterator[Process]:
    """All processes of this machine that have not ended."""
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            # The name in brackets may hold anything, a bracket too.
            state, parent, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            if state != "Z":
                yield Process(pid, int(parent), int(session), title)


def begun(
    inputs: Path | list[Path], out: Path, model: Path, *options: object, n_workers: int = 2
) -> subprocess.Popen[str]:
    """The command at its beginning, as the first process of a session."""
    words = [*(inputs if isinstance(inputs, list) else [inputs]), "-o", f"{out}/", "-m", model]
    words += ["--ray", "--workers", n_workers, "--json", *options]
    command = [sys.executable, "-m", "elmo_cli", "embed", *map(str, words)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, start_new_session=True, **pipes)
    _sessions.add(process.pid)
    return process


def ended(process: subprocess.Popen[str], code: int = 0) -> tuple[dict[str, Any], str]:
    """The end of a command: what it printed as an object, and its last two lines of messages."""
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, err
    assert "Traceback" not in err, err
    facts: dict[str, Any] = json.loads(out)
    return facts, "\n".join(err.splitlines()[-2:])


def killed(process: subprocess.Popen[str]) -> None:
    """kill -9 of the command alone: nobody tells Ray's processes."""
    assert process.poll() is None, "it had ended before"
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        assert stream is not None
        stream.close()


def wait_until(condition: Callable[[], object], process: subprocess.Popen[str]) -> None:
    """Wait for something that is to happen while a command runs."""
    until = time.monotonic() + LIMIT_S
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.01)


def workers(process: subprocess.Popen[str]) -> list[int]:
    """Workers in the cluster that a command has made for itself."""
    return sorted(p.pid for p in processes() if p.is_worker and p.session == process.pid)


def at_a_piece(process: subprocess.Popen[str]) -> list[int]:
    """Those of them that have their model, and are at work."""
    here = [p for p in processes() if p.is_worker and p.session == process.pid]
    return sorted(p.pid for p in here if p.title.strip().endswith(".submit"))


def wait_for_the_end_of_its_cluster(process: subprocess.Popen[str]) -> None:
    """Wait until nothing is left of the cluster that a command had made for itself."""
    until = time.monotonic() + 60
    while left := [p.title for p in processes() if p.session == process.pid]:
        assert time.monotonic() < until, left
        time.sleep(0.1)


def end_all() -> None:
    """End what a test that failed has left running."""
    for process in processes():
        if process.session in _sessions:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    _sessions.clear()


def shards(out: Path) -> list[Path]:
    return sorted(out.glob("part-*.hdf5"))


def check_whole(out: Path, whole: Path, facts: dict[str, Any]) -> None:
    """All shards and nothing else are there, and merged they are the file of one process: every
    array and attribute, bit for bit."""
    assert sorted(path.name for path in out.iterdir()) == facts["shards"]
    assert len(facts["shards"]) == N_SHARDS
    assert facts["missing"] == []
    assert facts["sentences"] == N_LINES
    merged = out.with_name(f"{out.name}-merged.hdf5")
    made("merge", *shards(out), "-o", merged, "-q")
    same(merged, whole)
    merged.unlink()


def same(one: Path, other: Path) -> None:
    """Every array and every attribute of two files is the same, bit for bit."""
    with open_embeddings(one) as a, open_embeddings(other) as b:
        np.testing.assert_equal(a.attributes, b.attributes)
        assert list(a) == list(b)
        for key in b:
            assert a[key].tobytes() == b[key].tobytes(), key
