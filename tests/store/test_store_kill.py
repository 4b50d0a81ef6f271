"""A run that dies at any moment, and goes on, ends in the file of an undisturbed run."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import writer_runs
from h5py import h5f

from elmo_cli.errors import OutputError, ResumeError
from elmo_cli.store.journal import read_journal
from elmo_cli.store.writer import EmbeddingsWriter

# Whatever the write side asks of the system that changes something, in the order of its calls.
CALLS = ("open", "pwritev", "write", "ftruncate", "link", "replace", "unlink", "fsync")


class Death(BaseException):
    """The process ends here."""


class Fault:
    """Lets `n` calls pass; what comes after happens not, or half."""

    def __init__(self, n: int, error: BaseException, *, half: bool = False):
        self.n, self.error, self.half = n, error, half
        self.n_calls = 0

    def around(self, call: Any, *args: Any, **named: Any) -> Any:
        self.n_calls += 1
        if self.n_calls <= self.n:
            return call(*args, **named)
        if self.half and self.n_calls == self.n + 1:
            self._half(call, *args)
        raise self.error

    def _half(self, call: Any, *args: Any) -> None:
        """Do half of a call that writes."""
        if call is REAL["write"]:
            descriptor, content = args
            call(descriptor, memoryview(content)[: len(content) // 2])
        elif call is REAL["pwritev"]:
            descriptor, views, offset = args
            content = b"".join(views)
            call(descriptor, [content[: len(content) // 2]], offset)


class Interrupt(Fault):
    """Ctrl-C comes at the call after `n`, as a true signal."""

    def __init__(self, n: int) -> None:
        super().__init__(n, KeyboardInterrupt())

    def around(self, call: Any, *args: Any, **named: Any) -> Any:
        self.n_calls += 1
        if self.n_calls == self.n + 1:
            signal.raise_signal(signal.SIGINT)
        return call(*args, **named)


REAL = {name: getattr(os, name) for name in CALLS}


@contextmanager
def faulty(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for name in CALLS:
            call = REAL[name]
            patch.setattr(os, name, lambda *a, call=call, **k: fault.around(call, *a, **k))
        yield


def open_in_hdf5() -> int:
    """Objects that HDF5 holds open; what is left over would be written, and crash, at exit."""
    kinds = h5f.OBJ_FILE | h5f.OBJ_DATASET | h5f.OBJ_GROUP | h5f.OBJ_ATTR
    return int(h5f.get_obj_count(h5f.OBJ_ALL, kinds))


def left_over(out: Path) -> list[str]:
    return sorted(path.name for path in out.parent.iterdir() if path != out)


def n_calls_of(monkeypatch: pytest.MonkeyPatch, out: Path, layout: str) -> int:
    fault = Fault(sys.maxsize, Death())
    with faulty(monkeypatch, fault):
        writer_runs.run(out, layout=layout)
    return fault.n_calls


def check_deaths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, *, half: bool, step: int
) -> None:
    """Die before each `step`-th call, go on, compare."""
    undisturbed = tmp_path / "whole" / "out.hdf5"
    undisturbed.parent.mkdir()
    n_calls = n_calls_of(monkeypatch, undisturbed, layout)
    expected = undisturbed.read_bytes()
    for n in range(random.randrange(step), n_calls, step):
        out = tmp_path / f"{n}" / "out.hdf5"
        out.parent.mkdir()
        with faulty(monkeypatch, Fault(n, Death(), half=half)), pytest.raises(Death):
            writer_runs.run(out, layout=layout)
        assert open_in_hdf5() == 0
        writer = writer_runs.run(out, layout=layout, resume=True)
        assert writer.finished
        assert out.read_bytes() == expected, f"call {n} of {n_calls}"
        assert left_over(out) == [], f"call {n} of {n_calls}"


@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize(("layout", "step"), [("allennlp", 3), ("e2e-coref", 5), ("flat", 16)])
def test_death_before_a_call_to_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, step: int, half: bool
) -> None:
    """Any order of undo, data, journal and renaming but the right one leaves other bytes."""
    check_deaths(tmp_path, monkeypatch, layout, half=half, step=step)


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True], ids=["whole", "half"])
@pytest.mark.parametrize("layout", ["allennlp", "dygie", "e2e-coref", "flat", "manylangs"])
def test_death_before_every_call_to_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, half: bool
) -> None:
    """As above, at every single call."""
    check_deaths(tmp_path, monkeypatch, layout, half=half, step=1)


def test_death_while_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback that is not complete must not be taken for one."""
    undisturbed = tmp_path / "out.hdf5"
    n_calls = n_calls_of(monkeypatch, undisturbed, "dygie")
    for n in range(random.randrange(9), n_calls, 9):
        out = tmp_path / f"{n}" / "out.hdf5"
        out.parent.mkdir()
        with faulty(monkeypatch, Fault(n, Death())), pytest.raises(Death):
            writer_runs.run(out, layout="dygie")
        for again in range(0, 12, 3):
            with (
                faulty(monkeypatch, Fault(again, Death())),
                pytest.raises(Death) if n < n_calls - 12 else _maybe(Death),
            ):
                writer_runs.run(out, layout="dygie", resume=True)
        writer_runs.run(out, layout="dygie", resume=True)
        assert out.read_bytes() == undisturbed.read_bytes(), f"call {n} of {n_calls}"


@contextmanager
def _maybe(error: type[BaseException]) -> Iterator[None]:
    """Near the end there may be fewer calls left than the fault lets pass."""
    try:
        yield
    except error:
        return


@pytest.mark.parametrize(
    ("layout", "code"),
    [("allennlp", errno.ENOSPC), ("flat", errno.EDQUOT), ("e2e-coref", errno.EFBIG)],
)
def test_no_space_at_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str, code: int
) -> None:
    """The user is told, HDF5 is left closed, and with space again the run goes on."""
    undisturbed = tmp_path / "out.hdf5"
    n_calls = n_calls_of(monkeypatch, undisturbed, layout)
    for n in range(random.randrange(10), n_calls, 10):
        out = tmp_path / f"{n}" / "out.hdf5"
        out.parent.mkdir()
        fault = Fault(n, OSError(code, os.strerror(code)))
        with faulty(monkeypatch, fault), pytest.raises(OutputError) as caught:
            writer_runs.run(out, layout=layout)
        assert str(caught.value) == f"{out}.part: no space left ({os.strerror(code)})"
        assert "`--resume`" in caught.value.hint
        assert open_in_hdf5() == 0
        writer_runs.run(out, layout=layout, resume=True)
        assert out.read_bytes() == undisturbed.read_bytes(), f"call {n} of {n_calls}"


def test_interrupt_inside_hdf5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C that reaches a callback of HDF5 crashes it, or comes out as something else."""
    # A shell starts what is to run behind it with Ctrl-C ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    undisturbed = tmp_path / "out.hdf5"
    n_calls = n_calls_of(monkeypatch, undisturbed, "allennlp")
    for n in range(random.randrange(6), n_calls, 6):
        out = tmp_path / f"{n}.hdf5"
        with faulty(monkeypatch, Interrupt(n)), pytest.raises(KeyboardInterrupt):
            writer_runs.run(out, layout="allennlp")
        assert open_in_hdf5() == 0
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        writer_runs.run(out, layout="allennlp", resume=True)
        assert out.read_bytes() == undisturbed.read_bytes(), f"call {n} of {n_calls}"


RUNNER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import writer_runs
print("ready", flush=True)
writer_runs.run(Path(sys.argv[2]), layout=sys.argv[3], n=int(sys.argv[4]), block=8, resume=True)
"""


def kill_after(delay_s: float, out: Path, layout: str, n: int) -> bool:
    """Go on with a run in a process of its own and kill it; whether it was still alive."""
    command = [sys.executable, "-c", RUNNER, str(Path(__file__).parent), str(out), layout, str(n)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        stderr = process.communicate()[1]
    assert process.returncode in (0, -signal.SIGKILL), stderr.decode()
    return process.returncode != 0


def check_kills(tmp_path: Path, *, layout: str, n: int, delays_s: list[float]) -> None:
    undisturbed, out = tmp_path / "whole.hdf5", tmp_path / "out.hdf5"
    writer_runs.run(undisturbed, layout=layout, n=n, block=8)
    n_killed = sum(kill_after(delay_s, out, layout, n) for delay_s in delays_s)
    assert n_killed > 0
    writer_runs.run(out, layout=layout, n=n, block=8, resume=True)
    assert out.read_bytes() == undisturbed.read_bytes()
    assert left_over(out) == ["whole.hdf5"]


def test_kill_9_of_a_process(tmp_path: Path) -> None:
    """The true thing: SIGKILL at moments nobody chose, again and again on one run."""
    delays_s = [random.random() * 0.3 for _ in range(3)]
    check_kills(tmp_path, layout="allennlp", n=2000, delays_s=delays_s)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["allennlp", "e2e-coref", "flat"])
def test_many_kills(tmp_path: Path, layout: str) -> None:
    """As above, often enough to hit the short moments of a commit."""
    delays_s = [random.random() * 0.3 for _ in range(50)]
    check_kills(tmp_path, layout=layout, n=8000, delays_s=delays_s)


def test_file_size_limit_ends_the_process_cleanly(tmp_path: Path) -> None:
    """HDF5 that still has something to write at exit would crash, or print its error stack."""
    out = tmp_path / "out.hdf5"
    limit = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))\n"
        "import elmo_cli.errors\n"
        "try:\n    exec(sys.argv.pop(1))\n"
        "except elmo_cli.errors.OutputError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", f"import sys\n{limit}", RUNNER]
    arguments = [str(Path(__file__).parent), str(out), "bilm", "500"]
    done = subprocess.run(command + arguments, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"ready\n{out}.part: no space left (File too large)\n"
    journal = read_journal(f"{out}.part")
    assert journal is not None
    assert 0 < journal.sentences < 500


def test_exit_without_close(tmp_path: Path) -> None:
    """A program that forgets its writer must not crash in HDF5 when Python is gone."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import writer_runs as runs\n"
        "from elmo_cli.store.writer import EmbeddingsWriter\n"
        "writer = EmbeddingsWriter.create(sys.argv[2], layout='flat', header={})\n"
        "s = runs.sentences(1)[0]; writer.append(s, runs.array(s))\n"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(tmp_path / "out.hdf5")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_power_failure_that_cut_the_part(tmp_path: Path) -> None:
    """A part that lost committed bytes can't be made whole; going on would make a false file."""
    out = tmp_path / "out.hdf5"
    with EmbeddingsWriter.create(out, layout="bilm", header={}) as writer:
        writer_runs.write(writer, writer_runs.sentences(4), block=2)
    part = tmp_path / "out.hdf5.part"
    size = part.stat().st_size
    os.truncate(part, size - 1)
    with pytest.raises(ResumeError) as caught:
        EmbeddingsWriter.resume(out, layout="bilm", header={})
    assert str(caught.value) == (f"{part}: damaged, {size - 1} bytes where its journal says {size}")
    assert caught.value.hint == "`--overwrite` starts the run anew"


@pytest.mark.parametrize("most", [1, 1000, 1_000_000])
def test_writes_that_take_less_than_was_given(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it what a file system leaves over of a large write would be lost, or stand twice."""
    expected = tmp_path / "expected.hdf5"
    writer_runs.run(expected, layout="allennlp")

    def short(descriptor: int, views: list[memoryview], offset: int) -> int:
        content = b"".join(views)
        return os.pwrite(descriptor, content[:most], offset)

    monkeypatch.setattr(os, "pwritev", short)
    found = tmp_path / "found.hdf5"
    writer_runs.run(found, layout="allennlp")
    assert found.read_bytes() == expected.read_bytes()
