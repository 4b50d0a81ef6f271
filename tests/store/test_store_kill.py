"""A run that dies at any moment, and is resumed, ends in the file of an undisturbed run."""

from __future__ import annotations

import errno
import gc
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import writer_runs
from h5py import h5f

from elmo_cli.errors import OutputError
from elmo_cli.store import block_values
from elmo_cli.store.log_lines import read_log

# Whatever the writer asks of the system that changes something; HDF5 asks for more by itself.
CALLS = ("open", "pwrite", "pwritev", "ftruncate", "truncate", "replace", "unlink", "fsync")
REAL = {name: getattr(os, name) for name in CALLS}
HERE = str(Path(__file__).parent)


class Death(BaseException):
    """The process ends here."""


class Fault:
    """Lets `n` calls pass; what comes after does not happen, or half of it."""

    def __init__(self, n: int, error: BaseException, *, half: bool = False):
        self.n = n
        self.error = error
        self.half = half
        self.calls: list[str] = []

    def around(self, name: str, *args: Any, **named: Any) -> Any:
        self.calls.append(name)
        if len(self.calls) <= self.n:
            return REAL[name](*args, **named)
        if self.half and len(self.calls) == self.n + 1 and name == "pwrite":
            descriptor, content, offset = args
            REAL[name](descriptor, content[: len(content) // 2], offset)
        if self.half and len(self.calls) == self.n + 1 and name == "pwritev":
            descriptor, buffers, offset = args
            content = buffers[0].tobytes()
            REAL["pwrite"](descriptor, content[: len(content) // 2], offset)
        raise self.error


class Interrupt(Fault):
    """Ctrl-C comes before or (`half`) after the call after `n`, as a true signal."""

    def around(self, name: str, *args: Any, **named: Any) -> Any:
        self.calls.append(name)
        is_hit = len(self.calls) == self.n + 1
        if is_hit and not self.half:
            signal.raise_signal(signal.SIGINT)
        try:
            return REAL[name](*args, **named)
        finally:
            if is_hit and self.half:
                signal.raise_signal(signal.SIGINT)


@contextmanager
def faulty(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> Iterator[Fault]:
    with monkeypatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, partial(fault.around, name))
        yield fault


def open_in_hdf5() -> int:
    """Count what HDF5 holds open; what a run leaves would be written, and crash, at exit."""
    kinds = h5f.OBJ_FILE | h5f.OBJ_DATASET | h5f.OBJ_GROUP | h5f.OBJ_ATTR
    return int(h5f.get_obj_count(h5f.OBJ_ALL, kinds))


class Undisturbed:
    """The file of an undisturbed run, and the calls that it takes."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
        self.folder = tmp_path
        self.way = way
        # Earlier tests of this process may have left files open, for example in the frames of an
        # error; what the garbage collector could close must not be closed in between.
        gc.collect()
        self.n_open_before = open_in_hdf5()
        (tmp_path / "whole").mkdir()
        out = tmp_path / "whole" / "out.hdf5"
        with faulty(monkeypatch, Fault(sys.maxsize, Death())) as fault:
            writer_runs.run(out, way)
        self.calls = fault.calls
        self.content = out.read_bytes()

    def new(self, n: int) -> Path:
        """A place for a run that is disturbed at call `n`."""
        (self.folder / f"{n}").mkdir()
        return self.folder / f"{n}" / "out.hdf5"

    def check(self, out: Path, n: int) -> None:
        """Resume, and compare."""
        assert open_in_hdf5() == self.n_open_before
        writer = writer_runs.run(out, self.way, resume=True)
        assert writer.finished
        assert writer.warnings == [], f"call {n} of {len(self.calls)}"
        assert out.read_bytes() == self.content, f"call {n} of {len(self.calls)}"
        assert [path.name for path in out.parent.iterdir()] == ["out.hdf5"], f"call {n}"


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("way", ["allennlp", "manylangs", "flat", "int8"])
def test_death_before_each_call_to_the_system(
    way: str, half: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong order of data, log, end mark, renaming and removal leaves other bytes."""
    undisturbed = Undisturbed(tmp_path, monkeypatch, way)
    for n, call in enumerate(undisturbed.calls):
        if half and call != "pwrite":  # no half of it is done
            continue
        out = undisturbed.new(n)
        with faulty(monkeypatch, Fault(n, Death(), half=half)), pytest.raises(Death):
            writer_runs.run(out, way)
        undisturbed.check(out, n)


def test_death_while_a_chunk_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread writes it; a block is committed when all of its chunks are written."""
    monkeypatch.setattr(block_values, "_CHUNK_BYTES", 1)
    undisturbed = Undisturbed(tmp_path, monkeypatch, "allennlp")
    for n in range(len(undisturbed.calls)):
        out = undisturbed.new(n)
        with faulty(monkeypatch, Fault(n, Death(), half=True)), pytest.raises(Death):
            writer_runs.run(out, "allennlp")
        undisturbed.check(out, n)


@pytest.mark.parametrize("way", ["dygie", "flat"])
def test_death_while_it_is_resumed(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that is half cut must not be taken for a whole one."""
    undisturbed = Undisturbed(tmp_path, monkeypatch, way)
    for n in range(random.randrange(3), len(undisturbed.calls), 3):
        out = undisturbed.new(n)
        for calls in (n, *range(0, 12, 2)):
            with faulty(monkeypatch, Fault(calls, Death(), half=True)):
                try:
                    writer_runs.run(out, way, resume=True)
                except Death:
                    continue
        undisturbed.check(out, n)


@pytest.mark.parametrize(
    ("way", "code"),
    [("allennlp", errno.ENOSPC), ("flat", errno.EDQUOT), ("e2e-coref", errno.EFBIG)],
)
def test_no_space_at_any_call(
    way: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is reported, HDF5 is closed, and with space again the run is resumed.

    The last renaming gives the complete file its name. What can fail after it is only the removal
    of side files, which the next run does. The output is what was asked for, so it is no error.
    """
    undisturbed = Undisturbed(tmp_path, monkeypatch, way)
    n_until_named = len(undisturbed.calls) - undisturbed.calls[::-1].index("replace")
    for n in range(random.randrange(3), len(undisturbed.calls), 3):
        out = undisturbed.new(n)
        error = None
        with faulty(monkeypatch, Fault(n, OSError(code, os.strerror(code)))):
            try:
                writer_runs.run(out, way)
            except OutputError as caught:
                error = caught
        assert (error is not None) == (n < n_until_named)
        assert error is None or "no space left" in str(error)
        if error is not None and error.resumable:  # then it is true
            assert read_log(f"{out}.part").progress.sentences
        undisturbed.check(out, n)


@pytest.mark.parametrize("after", [False, True])
def test_interrupt_at_any_call(
    after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C leaves what is committed, and comes out as itself."""
    # A shell starts what is to run in the background with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    undisturbed = Undisturbed(tmp_path, monkeypatch, "allennlp")
    for n in range(len(undisturbed.calls)):
        out = undisturbed.new(n)
        fault = Interrupt(n, KeyboardInterrupt(), half=after)
        with faulty(monkeypatch, fault), pytest.raises(KeyboardInterrupt):
            writer_runs.run(out, "allennlp")
        if "fsync" in fault.calls[: n + 1]:  # at the end: one of them has everything
            left = {path.suffix for path in out.parent.iterdir()}
            assert left & {".hdf5", ".part", ".tmp"}, f"call {n}"
        undisturbed.check(out, n)


@pytest.mark.parametrize("most", [1, 1000, 1_000_000])
def test_writes_that_take_less_than_was_given(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a file system leaves of a large write would be lost, or stand twice."""
    writer_runs.run(tmp_path / "expected.hdf5", "allennlp")

    def short(descriptor: int, content: memoryview, offset: int) -> int:
        return REAL["pwrite"](descriptor, content[:most], offset)

    def short_of_several(descriptor: int, buffers: list[memoryview], offset: int) -> int:
        return REAL["pwrite"](descriptor, b"".join(buffers)[:most], offset)

    monkeypatch.setattr(os, "pwrite", short)
    monkeypatch.setattr(os, "pwritev", short_of_several)
    writer_runs.run(tmp_path / "found.hdf5", "allennlp")
    assert (tmp_path / "found.hdf5").read_bytes() == (tmp_path / "expected.hdf5").read_bytes()


RUNNER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import writer_runs
print("ready", flush=True)
writer_runs.run(Path(sys.argv[2]), sys.argv[3], n=int(sys.argv[4]), block=8, resume=True)
"""


def kill_after(delay_s: float, out: Path, way: str, n: int) -> bool:
    """Resume a run in a process of its own and kill it; whether it was still alive."""
    command = [sys.executable, "-c", RUNNER, HERE, str(out), way, str(n)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        stderr = process.communicate()[1]
    assert process.returncode in (0, -signal.SIGKILL), stderr.decode()
    return process.returncode != 0


@pytest.mark.parametrize(
    ("way", "n", "n_kills"),
    [
        ("allennlp", 500, 3),
        # Often enough to hit the short moments of a commit and of the completion.
        pytest.param("allennlp", 2000, 20, marks=pytest.mark.slow),
        pytest.param("flat", 2000, 20, marks=pytest.mark.slow),
    ],
)
def test_kill_9_of_a_process(tmp_path: Path, way: str, n: int, n_kills: int) -> None:
    """The true thing: SIGKILL at moments nobody chose, again and again on one run."""
    undisturbed = tmp_path / "whole.hdf5"
    out = tmp_path / "out.hdf5"
    writer_runs.run(undisturbed, way, n=8, block=8)  # the first run in a process takes longer
    undisturbed.unlink()
    begin = time.monotonic()
    writer_runs.run(undisturbed, way, n=n, block=8)
    seconds = (time.monotonic() - begin) / n_kills
    delays = [(k + random.random()) * seconds for k in range(n_kills)]
    assert sum(kill_after(delay, out, way, n) for delay in delays) > 0
    writer = writer_runs.run(out, way, n=n, block=8, resume=True)
    assert writer.warnings == []
    assert out.read_bytes() == undisturbed.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.hdf5", "whole.hdf5"]


def program(code: str, *arguments: object) -> str:
    """What a Python program prints; it must end without an error."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_file_size_limit_ends_the_process_cleanly(tmp_path: Path) -> None:
    """HDF5 that still has something to write at exit would crash, or print its error stack."""
    out = tmp_path / "out.hdf5"
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "import elmo_cli.errors\n"
        "try:\n    exec(sys.argv.pop(1))\n"
        "except elmo_cli.errors.OutputError as error:\n    print(error)\n"
    )
    for n, name in ((500, "out.hdf5.part"), (300, "out.hdf5")):  # in a block; at the end
        printed = program(limited, RUNNER, HERE, out, "bilm", n)
        assert printed == f"ready\n{tmp_path}/{name}: no space left (File too large)\n"
        assert read_log(f"{out}.part").progress.sentences > 0
        for path in tmp_path.iterdir():
            path.unlink()
