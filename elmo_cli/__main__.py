"""The process of the command `elmo`, also started by `python -m elmo_cli`."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress

from elmo_cli.messages import INTERRUPTED_HINT

# torch computes with libgomp on Linux, whose waiting threads spin 300,000 times before they sleep:
# where another process needs the core, a training step takes several times as long.
_SPIN_COUNT = "10000"


def command() -> None:
    """Run the command line and end the process.

    Leaving by `os._exit` saves Python the second that it takes to destroy torch's objects.
    """
    if sys.platform == "win32":  # which lacks the module fcntl
        _write_error(
            "elmo does not run on Windows", "use it in WSL, the Windows Subsystem for Linux"
        )
        sys.exit(1)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        # As Ctrl-C: cluster schedulers and `timeout` send SIGTERM.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    gc.set_threshold(100_000)  # torch's modules are some hundred thousand objects, which all stay
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)  # read when torch is imported
    try:
        code = _run()
    except KeyboardInterrupt:
        _write_error("interrupted", INTERRUPTED_HINT)
        code = 130
    atexit._run_exitfuncs()
    _flush()
    os._exit(code)


def _run() -> int:
    """Run `cli.main.main` and return its exit code."""
    from elmo_cli.cli.main import main

    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def _write_error(message: str, hint: str) -> None:
    """Write the two lines of an error; `sys.stderr` may be in use at an interrupt."""
    os.write(2, f"error: {message}\nhint: {hint}\n".encode())


def _flush() -> None:
    """Write what Python has buffered, which `os._exit` would discard."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # reported by `main`, or closed
            stream.flush()


if __name__ == "__main__":
    command()
