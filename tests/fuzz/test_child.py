"""in_child: whatever the child does, the parent goes on with one error."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from elmo_cli import child
from elmo_cli.child import in_child
from elmo_cli.errors import EmbeddingsFileError, InputError


def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def test_what_it_returns_comes_back() -> None:
    assert in_child(lambda: {"pid": os.getpid()}, [], InputError) != {"pid": os.getpid()}


def test_a_long_answer_comes_back_whole() -> None:
    """A pipe holds 64 KiB; without the loop the rest would be lost."""
    assert in_child(lambda: b"." * 3_000_000, [], InputError) == b"." * 3_000_000


def test_an_error_of_ours_comes_back_with_its_hint() -> None:
    def refuse() -> None:
        raise InputError("a.txt: bad", "mend it")

    with pytest.raises(InputError, match=r"a\.txt: bad") as raised:
        in_child(refuse, ["a.hdf5"], EmbeddingsFileError)
    assert raised.value.hint == "mend it"


def test_a_fault_of_ours_comes_back_with_its_traceback() -> None:
    """`--debug` has to show where; a lambda in the error doesn't pickle."""

    def fail() -> None:
        raise ValueError(lambda: 0)

    with pytest.raises(RuntimeError, match="ValueError") as raised:
        in_child(fail, ["a.hdf5"], EmbeddingsFileError)
    assert "in fail" in str(raised.value.__cause__)


def test_a_crash_is_one_error_that_names_the_files() -> None:
    with pytest.raises(EmbeddingsFileError) as raised:
        in_child(crash, ["a.hdf5", "b.hdf5"], EmbeddingsFileError)
    assert raised.value.message == "a.hdf5 and 1 more: its reader crashed (SIGSEGV)"
    assert raised.value.hint


def test_a_program_that_sees_to_its_children_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers ignore SIGCHLD, and then nobody tells how a child ended; its answer has come."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert in_child(lambda: 7, [], InputError) == 7
        with pytest.raises(EmbeddingsFileError, match=r"crashed \(no answer\)"):
            in_child(crash, ["a.hdf5"], EmbeddingsFileError)
        monkeypatch.setattr(child, "STUCK_S", 0.2)
        with pytest.raises(EmbeddingsFileError, match="has not come back for"):
            in_child(lambda: sum(range(10**13)), ["a.hdf5"], EmbeddingsFileError)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_program_with_many_open_files() -> None:
    """`select` takes no number from 1,024 on."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= before[1] < 1100:
        pytest.skip("no more than 1,024 files can be open here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], 1100), before[1]))
    with open(os.devnull) as null, ExitStack() as opened:
        for _ in range(1030):
            opened.callback(os.close, os.dup(null.fileno()))
        assert in_child(lambda: 7, [], InputError) == 7
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_memory_is_limited_by_the_size_of_the_files(tmp_path: Path) -> None:
    path = tmp_path / "a.hdf5"
    path.write_bytes(b"x")
    most = child.FLOOR + child.FACTOR

    def take(n_bytes: int) -> Callable[[], int]:
        return lambda: len(bytes(n_bytes))

    assert in_child(take(most // 2), [path], EmbeddingsFileError) == most // 2
    with pytest.raises(EmbeddingsFileError, match="asks for more memory than 16 times its bytes"):
        in_child(take(2 * most), [path], EmbeddingsFileError)


def test_one_that_is_stuck_in_a_call_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over a range looks for no signal, as HDF5 does not."""
    monkeypatch.setattr(child, "STUCK_S", 0.3)
    began = time.monotonic()
    with pytest.raises(EmbeddingsFileError, match="has not come back for"):
        in_child(lambda: sum(range(10**13)), ["a.hdf5"], EmbeddingsFileError)
    assert time.monotonic() - began < 60


def test_one_that_takes_long_but_moves_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "STUCK_S", 0.4)
    monkeypatch.setattr(child, "_BEAT_S", 0.05)
    assert in_child(lambda: time.sleep(1.0) or "done", [], EmbeddingsFileError) == "done"


def test_one_that_waits_for_a_disk_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it `elmo merge` onto a slow disk would end as if its input were damaged."""
    monkeypatch.setattr(child, "STUCK_S", 0.3)

    def work() -> int:
        with child.patience():
            return sum(range(4 * 10**7))  # looks for no signal, as a call that waits for a disk

    began = time.monotonic()
    assert in_child(work, [], EmbeddingsFileError) == sum(range(4 * 10**7))
    assert time.monotonic() - began > 0.3  # or the test shows nothing
    with pytest.raises(EmbeddingsFileError, match="has not come back for"):
        in_child(lambda: (work(), sum(range(10**13))), ["a.hdf5"], EmbeddingsFileError)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_an_interrupt_reaches_it_so_that_it_clears_away(tmp_path: Path) -> None:
    """`elmo merge` removes its unfinished file; the child of a dead parent would never know."""
    begun, cleared = tmp_path / "begun", tmp_path / "cleared"

    def work() -> None:
        try:
            begun.touch()
            time.sleep(60)
        except KeyboardInterrupt:
            cleared.touch()

    pid = os.fork()
    if not pid:
        try:
            in_child(work, [], EmbeddingsFileError)
        except KeyboardInterrupt:
            os._exit(130)
        finally:
            os._exit(1)
    while not begun.exists():
        time.sleep(0.01)
    os.kill(pid, signal.SIGINT)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert cleared.exists()


def test_a_long_answer_is_listened_to_in_time_that_grows_with_it() -> None:
    """A sample of vectors of 100 MB took minutes to come over."""
    begun = time.process_time()
    assert len(in_child(lambda: bytes(100 << 20), [], InputError)) == 100 << 20
    assert time.process_time() - begun < 5
