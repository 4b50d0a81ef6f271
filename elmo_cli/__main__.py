"""The process of the command `elmo`, also started by `python -m elmo_cli`.

Signal handlers come first, then the imports: Ctrl-C at the start prints no traceback.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from elmo_cli.errors import INTERRUPTED_HINT

# torch computes with libgomp on Linux, whose waiting threads spin 300,000 times before they sleep:
# where another process needs the core, a training step takes several times as long.
_SPIN_COUNT = "10000"


def command() -> None:
    """Run the command line and end the process.

    torch's modules are some hundred thousand objects, all of which stay: the garbage collector need
    not visit them while they are created, nor Python destroy them one by one at the end, which
    together takes a second.
    """
    for number, default in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_DFL),  # sent by schedulers of clusters and by `timeout`
    ):
        if signal.getsignal(number) is default:
            signal.signal(number, _interrupt)
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)  # read when torch is imported
    try:
        import atexit
        import gc
        from contextlib import suppress

        from elmo_cli.cli.main import main

        gc.set_threshold(100_000)
        main()
    except KeyboardInterrupt:
        _exit_interrupted()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # reported by `main`, or closed
            stream.flush()
    os._exit(code)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt on Ctrl-C or SIGTERM; during an import, end the process.

    Some libraries swallow an exception while they are imported, others stay half initialized.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _exit_interrupted()
        frame = frame.f_back
    raise KeyboardInterrupt


def _exit_interrupted() -> None:
    try:
        os.write(2, f"error: interrupted\nhint: {INTERRUPTED_HINT}\n".encode())
    finally:
        os._exit(130)


if __name__ == "__main__":
    command()
