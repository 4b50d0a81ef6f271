"""Ctrl-C and SIGTERM as a wish: the step that is going on is finished, then all is saved."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Notes SIGINT and SIGTERM while it is entered; the second of a kind does what it always did.

    Only the main thread meets signals; elsewhere nothing is done, nor where one is ignored.

    Attributes:
        received: whether one has come.
    """

    def __init__(self) -> None:
        self.received = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._before = {
                number: signal.signal(number, self._note)
                for number in _SIGNALS
                if signal.getsignal(number) is not signal.SIG_IGN  # of a job in the background
            }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in list(self._before):
            self._restore(number)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = True
        self._restore(number)

    def _restore(self, number: int) -> None:
        before = self._before.pop(number, None)
        if before is not None:
            signal.signal(number, before)
