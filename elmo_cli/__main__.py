"""The process of the command `elmo`, also started by `python -m elmo_cli`.

Signal handlers come first, then the imports: Ctrl-C at the start prints no traceback.
"""

from __future__ import annotations

import os
import sys

from elmo_cli import INTERRUPTED_HINT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
else:
    import _signal as signal  # does not import enum, which is slower than all imports above


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt on Ctrl-C or SIGTERM; end the process during an import or outside
    `_run`.

    Some libraries swallow exceptions while they are imported; others are left half initialized.
    """
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        if frame.f_code is _run.__code__:
            raise KeyboardInterrupt
        frame = frame.f_back
    _exit_interrupted()


def _exit_interrupted() -> None:
    try:
        os.write(2, f"error: interrupted\nhint: {INTERRUPTED_HINT}\n".encode())
    finally:
        os._exit(130)


# torch computes with libgomp on Linux, whose waiting threads spin 300,000 times before they sleep:
# where another process needs the core, a training step takes several times as long.
_SPIN_COUNT = "10000"


def command() -> None:
    """Run the command line and end the process.

    torch's modules are some hundred thousand objects, all of which stay: the garbage collector need
    not visit them while they are created, nor Python destroy them one by one at the end, which
    together takes a second.
    """
    try:
        _run()
    except KeyboardInterrupt:
        _exit_interrupted()


def _run() -> None:
    import atexit
    import gc
    from contextlib import suppress

    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)  # read when torch is imported
    from elmo_cli.cli.main import main

    gc.set_threshold(100_000)
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # reported by `main`, or closed
            stream.flush()
    os._exit(code)


for number, default in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGTERM, signal.SIG_DFL),  # sent by cluster schedulers and by `timeout`
):
    if signal.getsignal(number) is default:
        signal.signal(number, _interrupt)

if __name__ == "__main__":
    command()
