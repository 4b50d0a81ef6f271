"""The process of `elmo` without its start: a child that shares the imports of this one."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import IO, NoReturn

import torch

from elmo_cli.__main__ import command
from elmo_cli.cli import console


def run_and_exit(*words: object) -> NoReturn:
    """In a child after `os.fork`: run the command on its descriptors 0, 1 and 2."""
    try:
        atexit._clear()  # what pytest wants done is done by the parent
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - pytest has replaced them
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        sys.argv = ["elmo", *map(str, words)]
        console.running = console.RunningCommand()
        torch.set_num_threads(1)
        command()
    finally:
        os._exit(99)


class ForkedElmo:
    """A running command, with the methods of `subprocess.Popen` that tests use.

    Attributes:
        returncode: as that of Popen; None until the end of the process is known.
    """

    def __init__(
        self,
        *words: object,
        stdin: int | None = None,
        stdout: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            stdin, stdout: descriptors; those of this process by default.
            environment: further variables.
        """
        self.returncode: int | None = None
        self._said = ""
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed at the end
        self._pid = os.fork()
        if self._pid == 0:
            for descriptor, target in ((stdin, 0), (stdout, 1), (self._stderr.fileno(), 2)):
                if descriptor is not None:
                    os.dup2(descriptor, target)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # ends of pipes among them
            os.environ.update(environment or {})
            run_and_exit(*words)

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
                self._stderr.seek(0)
                self._said = self._stderr.read().decode()
                self._stderr.close()
        return self.returncode

    def wait(self, limit_s: float = 240) -> int:
        """Wait for its end and return the exit code."""
        end_s = time.monotonic() + limit_s
        while self.poll() is None:
            assert time.monotonic() < end_s
            time.sleep(0.002)
        assert self.returncode is not None
        return self.returncode

    def communicate(self) -> tuple[None, str]:
        """Wait for its end; what it has written to standard error comes second."""
        self.wait()
        return None, self._said

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self._pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
