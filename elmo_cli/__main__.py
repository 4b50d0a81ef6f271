"""The process of the command `elmo`, also started by `python -m elmo_cli`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from elmo_cli.messages import INTERRUPTED_HINT

# torch computes with libgomp on Linux, whose waiting threads spin 300,000 times before they sleep:
# where another process needs the core, a training step takes several times as long.
_SPIN_COUNT = "10000"


def command() -> None:
    """Run the command line and end the process.

    Leaving by `os._exit` saves Python the second that it takes to destroy torch's objects.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupt)  # sent by cluster schedulers and by `timeout`
    gc.set_threshold(100_000)  # torch's modules are some hundred thousand objects, which all stay
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)  # read when torch is imported
    try:
        code = _run()
    except KeyboardInterrupt:
        _write_interrupted()
        code = 130
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run() -> int:
    from elmo_cli.cli.main import main

    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def _write_interrupted() -> None:
    os.write(2, f"error: interrupted\nhint: {INTERRUPTED_HINT}\n".encode())


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # reported by `main`, or closed
            stream.flush()


if __name__ == "__main__":
    command()
