"""Commands in child processes that are killed before a chosen call which changes a file.

The calls are recorded in an undisturbed run, as (name, file name): opening for writing, renaming,
removing, truncating and synchronizing. What a process has written between two of these calls is in
the file when it is killed; Python's buffers are lost, as with `kill -9`. A test may add calls with
`sys.audit(WRITE, path)`, where a library that is not written in Python writes.

The calls of the process in which a command reads untrusted files are counted too. It is killed
together with the command, as the system does it.
"""

from __future__ import annotations

import mmap
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from command_line import made

from elmo_cli.cli import console
from elmo_cli.cli.main import main

WRITE = "killed_commands.write"
_CHANGES = {  # audit event -> which of its arguments names the file
    "open": 0,
    "os.rename": 1,
    "os.remove": 0,
    "os.truncate": 0,
    "os.mkdir": 0,
    "os.rmdir": 0,
    WRITE: 0,
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_SAMPLED = 15  # each such call of a quick check
_RANDOM = re.compile(r"\.[0-9a-f]{8}\.part$")
_OPTION = re.compile(r"`(--resume|--overwrite)`")
_LEAVE_OUT = re.compile(r"leave out `(--resume)`")


@dataclass(frozen=True)
class EndOfChild:
    """How a child ended: its exit code (-9 where it was killed), its stderr and its calls."""

    code: int
    err: str
    calls: list[str]


class _Calls:
    """Counts the calls that change files of a folder; kills this process before one.

    The process that this one forks counts on, while this one waits for it.
    """

    def __init__(self, folder: Path, kill_at: int, record: int) -> None:
        self._folder = os.path.realpath(folder)
        self._kill_at = kill_at
        self._record = record  # a descriptor
        self._shared = mmap.mmap(-1, 8)  # with the number of calls so far
        self._pid = os.getpid()

    def install(self) -> None:
        sys.addaudithook(self._on_event)  # stays until the process ends
        fsync = os.fsync

        def counted_fsync(descriptor: int) -> None:
            self._count("fsync", os.readlink(f"/proc/self/fd/{descriptor}"))
            fsync(descriptor)

        os.fsync = counted_fsync  # type: ignore[assignment]

    def _on_event(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _CHANGES:
            return
        path = args[_CHANGES[event]]
        if event == "open" and (isinstance(path, int) or not args[2] & _WRITING):
            return
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        self._count(event, os.fspath(path))

    def _count(self, name: str, path: str | bytes) -> None:
        absolute = os.path.abspath(os.fsdecode(path))
        if not absolute.startswith(f"{self._folder}{os.sep}"):
            return
        n_calls = int.from_bytes(self._shared[:], "little")
        if n_calls == self._kill_at:
            os.kill(self._pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        self._shared[:] = (n_calls + 1).to_bytes(8, "little")
        shown = _RANDOM.sub(".part", os.path.relpath(absolute, self._folder))
        os.write(self._record, f"{name} {shown}\n".encode())


def run_in_child(words: Sequence[object], folder: Path, kill_at: int = -1) -> EndOfChild:
    """Run `elmo` in a child process that shares the imports of this one.

    Args:
        folder: whose changes are counted.
        kill_at: number of the call, from 0, before which the child is killed; -1 for none.
    """
    with tempfile.TemporaryFile() as err, tempfile.TemporaryFile() as record:
        alive, held_open = os.pipe()
        pid = os.fork()
        if pid == 0:
            _run(words, folder, kill_at, err.fileno(), record.fileno())
        _, status = os.waitpid(pid, 0)
        os.close(held_open)
        os.read(alive, 1)  # returns when the last process that has inherited the pipe has ended
        os.close(alive)
        err.seek(0)
        record.seek(0)
        calls = record.read().decode().splitlines()
        code = os.waitstatus_to_exitcode(status)
        return EndOfChild(code=code, err=err.read().decode(), calls=calls)


def _run(words: Sequence[object], folder: Path, kill_at: int, err: int, record: int) -> None:
    code = 99
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(err, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - pytest has replaced them
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        console.running = console.RunningCommand()
        torch.set_num_threads(1)
        _Calls(folder, kill_at, record).install()
        main([str(word) for word in words])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 98
        sys.stderr.flush()
    finally:
        os._exit(code)


def options_named_by(err: str) -> list[str]:
    """The changes of a command that its hint advises: an option to add, or one to leave out."""
    hint = err.splitlines()[-1]
    left_out = _LEAVE_OUT.findall(hint)
    return [f"-{option}" for option in left_out] or _OPTION.findall(hint)


def repaired(words: Sequence[object], change: str) -> list[object]:
    """The command with an option more ("--resume") or one less ("---resume")."""
    if change.startswith("---"):
        return [word for word in words if word != change[1:]]
    return [*words, change]


@dataclass(frozen=True)
class KilledCommand:
    """A command, and what it must have written in the end.

    Attributes:
        words: of the command, without `elmo`; it runs in a folder of each run.
        prepare: makes that folder as the command finds it.
        content: the result, which must be that of an undisturbed run.
    """

    words: Sequence[object]
    prepare: Callable[[Path], None]
    content: Callable[[Path], Any]

    def check(
        self,
        folder: Path,
        *,
        is_exhaustive: bool,
        last_call: str = "",
        is_repeated_as_it_is: bool = False,
    ) -> int:
        """Kill it at its calls, one run each, and repeat it; return the number of these runs.

        Args:
            is_exhaustive: at all calls, and with each option that a hint names; otherwise at the
                first renaming of each file and some other calls, with the first option.
            last_call: it is not killed after the first call of this name; "" for no such limit.
            is_repeated_as_it_is: no hint may name an option; the same command must be enough.
        """
        self.run_once(folder / "imports")  # so that they are not done in each child
        calls, content, files = self._undisturbed(folder / "undisturbed")
        assert any(call.startswith("os.rename") for call in calls)
        if last_call:
            del calls[calls.index(last_call) + 1 :]
        n_runs = 0
        for number, call in enumerate(calls):
            is_first_renaming = call.startswith("os.rename") and calls.index(call) == number
            is_sampled = is_first_renaming or number % _SAMPLED == 0
            if not is_exhaustive and not is_sampled:
                continue
            for n_options in (1, 2) if is_exhaustive else (1,):
                run_folder = folder / f"{number}-{n_options}"
                self._kill(run_folder, number)
                left = files_in(run_folder)
                way = self._repeat(run_folder, n_options=n_options)
                where = f"killed before call {number}, {call}, with {left}; then {way}"
                assert self.content(run_folder) == content, where
                assert files_in(run_folder) == files, where
                n_runs += 1
                if way == "again":
                    break
                assert not is_repeated_as_it_is, where
        return n_runs

    def run_once(self, folder: Path) -> None:
        """Run it undisturbed in this process."""
        self._begin(folder)
        made(*self.words)

    def _begin(self, folder: Path) -> None:
        folder.mkdir()
        self.prepare(folder)
        os.chdir(folder)

    def _undisturbed(self, folder: Path) -> tuple[list[str], Any, set[str]]:
        """Run it to its end; its calls, its result, and the names of all files."""
        self._begin(folder)
        ended = run_in_child(self.words, folder)
        assert ended.code == 0, ended.err
        return ended.calls, self.content(folder), files_in(folder)

    def _kill(self, folder: Path, number: int) -> None:
        self._begin(folder)
        ended = run_in_child(self.words, folder, kill_at=number)
        assert ended.code == -signal.SIGKILL, (ended.code, ended.err)

    def _repeat(self, folder: Path, *, n_options: int) -> str:
        """Run it again, and if it is refused with the n-th option that its hint names.

        Returns:
            how it went on: "again", or the option.
        """
        ended = run_in_child(self.words, folder)
        if ended.code == 0:
            return "again"
        changes = options_named_by(ended.err)
        assert changes, f"stuck: {ended.err}"
        change = changes[min(n_options, len(changes)) - 1]
        ended = run_in_child(repaired(self.words, change), folder)
        assert ended.code == 0, f"with {change}: {ended.err}"
        return change


def files_in(folder: Path) -> set[str]:
    """The relative names of all files under a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
