"""Behind: one task at a time in a thread of its own, while the caller goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import TracebackType


class Behind:
    """Runs tasks one after the other behind its caller; used in a `with`.

    Its end waits for the task that runs, whatever the reason and however often Ctrl-C is pressed:
    what the task works with may be closed after it, and not before.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None

    def begin(self, task: Callable[[], None]) -> None:
        """Begin a task once the one before is done.

        Raises:
            BaseException: what the one before raised.
        """
        self.wait()
        self._last = self._pool.submit(task)

    def wait(self) -> None:
        """Let the task that runs end.

        Raises:
            BaseException: what it raised.
        """
        if self._last is not None:
            self._last.result()
            self._last = None

    def __enter__(self) -> Behind:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.wait()
        finally:
            self._settle()
            self._pool.shutdown()

    def _settle(self) -> None:
        while self._last is not None and not self._last.done():
            try:
                wait([self._last])
            except KeyboardInterrupt:
                continue  # one is on its way to the caller already
