"""Ctrl-C while HDF5 is at work, kept until it is done.

HDF5 calls back into Python for its bytes, and Python raises KeyboardInterrupt wherever it comes next,
so most often there. HDF5 does not survive an exception from below.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold back the handlers of SIGINT and SIGTERM; they run when the block has ended.

    Signals without a handler in Python do what they do, and other threads are never interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _SIGNALS}
    replaced = {number: handler for number, handler in handlers.items() if callable(handler)}
    try:
        for number in replaced:
            signal.signal(number, lambda number, frame: held.append(number))
        yield
    finally:
        _restore(replaced)
        for number in held:
            signal.raise_signal(number)


def _restore(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
