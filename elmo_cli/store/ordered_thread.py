"""OrderedThread: a thread that makes calls in order, and none after one that failed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from threading import Semaphore
from typing import Any, TypeVar

Result = TypeVar("Result")


class OrderedThread:
    """Makes calls one after the other in a thread of its own, which starts with the first call.

    After a call that failed, no later one is made: their futures have the error of that call.

    Args:
        max_waiting: how many calls may wait while one is made.
    """

    def __init__(self, max_waiting: int) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._free_slots = Semaphore(max_waiting)  # for calls that wait
        self._last_call: Future[Any] | None = None
        self._error: BaseException | None = None  # of the call that failed

    @property
    def is_idle(self) -> bool:
        """Whether all calls so far are finished."""
        return self._last_call is None or self._last_call.done()

    def submit(self, call: Callable[..., Result], *args: Any) -> Future[Result]:
        """Make a call after all those before it; while too many calls wait, do not return."""
        self._free_slots.acquire()
        future = self._pool.submit(self._call, call, args)
        self._last_call = future
        return future

    def wait(self) -> None:
        """Wait for all calls so far, and raise the error of the one that failed."""
        if self._last_call is not None:
            self._last_call.result()

    def close(self) -> None:
        """Wait for all calls however often Ctrl-C is pressed, and end the thread."""
        last_call = self._last_call
        while last_call is not None and not last_call.done():
            with suppress(KeyboardInterrupt):
                wait([last_call])
        self._pool.shutdown()

    def _call(self, call: Callable[..., Result], args: tuple[Any, ...]) -> Result:
        self._free_slots.release()
        if self._error is not None:
            raise self._error
        try:
            return call(*args)
        except BaseException as error:
            self._error = error
            raise
