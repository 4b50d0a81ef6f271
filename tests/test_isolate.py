"""run_isolated: whatever a child process does, its parent gets a result or one error."""

from __future__ import annotations

import mmap
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elmo_cli import isolate
from elmo_cli.errors import EmbeddingsFileError, InputError, OutputError
from elmo_cli.isolate import run_isolated, start_up_not_counted


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def loop() -> int:
    return sum(range(10**13))  # like HDF5, it looks for no signal


def spend_time(seconds: float) -> None:
    while time.process_time() < seconds:
        pass


def take_memory() -> int:
    return len(bytes(1 << 30))


@pytest.mark.parametrize("result", [None, {"a": 1}, b"." * (1 << 20)], ids=["0", "dict", "long"])
def test_a_result_comes_back(result: object) -> None:
    """A pipe holds 64 KiB; a sample of vectors has many MB."""
    assert run_isolated(lambda: result, [], InputError) == result


@pytest.mark.parametrize(
    "error", [OutputError("full", "free space", where="v", resumable=True), ValueError("bad")]
)
def test_an_error_keeps_its_type_message_and_hint(error: Exception) -> None:
    """It is pickled; the default would lose all but the message."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        run_isolated(fail, ["a.hdf5"], EmbeddingsFileError)
    assert raised.value is not error
    assert str(raised.value) == str(error)
    if isinstance(raised.value, OutputError):
        assert (raised.value.hint, raised.value.resumable) == ("free space", True)
    else:  # an internal one has the traceback of the child
        assert "in fail" in str(raised.value.__cause__)


@pytest.mark.parametrize(
    ("work", "part"),
    [
        (crash, "crashed (SIGSEGV)"),
        (loop, "crashed (SIGXCPU)"),
        (take_memory, "more memory than 16"),
    ],
    ids=["crash", "loop", "memory"],
)
def test_a_failure_is_one_error_that_names_the_file(
    work: Callable[[], object], part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolate, "MIN_CPU_SECONDS", 1)
    path = tmp_path / "a.hdf5"
    path.write_bytes(b"x")
    with pytest.raises(EmbeddingsFileError) as raised:
        run_isolated(work, [path, "b.hdf5"], EmbeddingsFileError)
    assert raised.value.message.startswith(f"{path}, b.hdf5: ")
    assert part in raised.value.message
    assert raised.value.hint


def test_limits_grow_with_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolate, "MIN_MEMORY", 32 << 20)
    paths = [tmp_path / "a.hdf5", tmp_path / "b.hdf5"]
    for path in paths:
        path.write_bytes(bytes(4 << 20))  # together, memory + 128 MiB, CPU time + 83 s

    def use() -> tuple[int, int]:
        return len(bytes(120 << 20)), resource.getrlimit(resource.RLIMIT_CPU)[0]

    assert run_isolated(use, paths, EmbeddingsFileError) == (120 << 20, 6 + 83)


def test_an_imported_program_is_not_memory_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large library would leave a reader less memory than its files may take."""
    n_bytes = 64 << 20
    monkeypatch.setattr(isolate, "MIN_MEMORY", n_bytes)

    def read() -> int:
        with start_up_not_counted():
            program = mmap.mmap(-1, 4 * n_bytes)
        content = mmap.mmap(-1, n_bytes // 2)
        return len(program) + len(content)

    def read_too_much() -> int:
        return read() + take_memory()

    assert run_isolated(read, [], EmbeddingsFileError) == 4 * n_bytes + n_bytes // 2
    with pytest.raises(EmbeddingsFileError, match="more memory than"):
        run_isolated(read_too_much, [], EmbeddingsFileError)


def test_an_imported_program_is_not_time_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, an import alone would take longer than a small file may."""
    monkeypatch.setattr(isolate, "MIN_CPU_SECONDS", 1)

    def read() -> int:
        with start_up_not_counted():
            spend_time(1.1)
        return resource.getrlimit(resource.RLIMIT_CPU)[0]

    assert run_isolated(read, [], EmbeddingsFileError) >= 2


def test_memory_is_counted_as_before_where_it_has_no_limit() -> None:
    limits = resource.getrlimit(resource.RLIMIT_AS)
    with start_up_not_counted():
        assert resource.getrlimit(resource.RLIMIT_AS) == limits
    assert resource.getrlimit(resource.RLIMIT_AS) == limits


def test_a_program_that_ignores_its_children() -> None:
    """Servers ignore SIGCHLD, and then the system does not report how a child ended."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run_isolated(lambda: 7, [], InputError) == 7
        with pytest.raises(EmbeddingsFileError, match=r"crashed \(no answer\)"):
            run_isolated(crash, ["a.hdf5"], EmbeddingsFileError)
    finally:
        signal.signal(signal.SIGCHLD, before)


_CHILD_OF_A_PROGRAM = """
import sys, time
from pathlib import Path
from elmo_cli.errors import InputError
from elmo_cli.isolate import start_up_not_counted, run_isolated
started, cleaned = map(Path, sys.argv[1:])

def work():
    try:
        started.touch()
        time.sleep(10)
    except KeyboardInterrupt:
        cleaned.touch()

try:
    run_isolated(work, [], InputError)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize(
    ("by", "code", "cleans"), [(signal.SIGINT, 130, True), (signal.SIGKILL, -9, False)]
)
def test_a_child_ends_with_its_parent(by: int, code: int, cleans: bool, tmp_path: Path) -> None:
    """After Ctrl-C it removes its temporary files; after `kill -9` it writes no more."""
    started = tmp_path / "started"
    cleaned = tmp_path / "cleaned"
    program = subprocess.Popen([sys.executable, "-c", _CHILD_OF_A_PROGRAM, started, cleaned])
    while not started.exists():
        assert program.poll() is None
        time.sleep(0.01)
    program.send_signal(by)
    assert program.wait(5) == code
    assert cleaned.exists() == cleans
    if not cleans:
        assert not subprocess.run(["pgrep", "-f", str(started)], capture_output=True).stdout
