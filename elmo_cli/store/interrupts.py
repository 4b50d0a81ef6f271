"""Interrupts: Ctrl-C while HDF5 is at work, kept until it is done.

HDF5 calls back into Python for its bytes, and Python raises KeyboardInterrupt wherever it comes
next, so most often there. HDF5 does not survive an exception from below.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Holds SIGINT and SIGTERM back while it is entered, from its making to `restore`.

    Signals without a handler in Python do what they do. Threads other than the main one are never
    interrupted, so there nothing has to be done.
    """

    def __init__(self) -> None:
        self._entered = False
        self._held: list[int] = []
        self._before: dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            handler = signal.getsignal(number)
            if callable(handler):
                self._before[number] = handler
                signal.signal(number, self._on_signal)

    def restore(self) -> None:
        """Give the signals their handlers back."""
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, handler)
        self._before = {}

    def __enter__(self) -> None:
        self._entered = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._entered = False
        while self._held:
            signal.raise_signal(self._held.pop())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._entered:
            self._held.append(number)
        elif number in self._before:
            self._before[number](number, frame)
