"""Behind: a task runs while its caller goes on, and nothing of it is lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from contextlib import suppress

import pytest

from elmo_cli.embed.behind import Behind


def test_the_caller_goes_on() -> None:
    """Without it writing would wait for computing, and computing for writing."""
    gone_on = threading.Event()
    with Behind() as behind:
        behind.begin(lambda: None if gone_on.wait(10) else pytest.fail("the caller waited"))
        gone_on.set()


def test_tasks_run_one_after_the_other() -> None:
    """Without it two blocks would be written into one file at the same time."""
    running, seen = threading.Lock(), []

    def task(k: int) -> None:
        assert running.acquire(blocking=False)
        seen.append(k)
        running.release()

    with Behind() as behind:
        for k in range(50):
            behind.begin(lambda k=k: task(k))  # type: ignore[misc]
    assert seen == list(range(50))


def failing() -> None:
    raise OSError("no space left")


def test_what_a_task_raises_comes_with_the_next_or_at_the_end() -> None:
    """Without it a full disk would be found out never, or the next block be written behind it."""
    began: list[int] = []

    def run(*tasks: Callable[[], None]) -> None:
        with Behind() as behind:
            for task in tasks:
                behind.begin(task)

    with pytest.raises(OSError, match="no space left"):
        run(failing)
    with pytest.raises(OSError, match="no space left"):
        run(failing, lambda: began.append(1))
    assert not began


def test_an_error_of_the_caller_waits_for_the_task() -> None:
    """Without it a file would be closed while a block is written into it."""
    going, done = threading.Event(), []

    def task() -> None:
        going.wait(10)
        done.append(1)

    def run() -> None:
        with Behind() as behind:
            behind.begin(task)
            threading.Timer(0.1, going.set).start()
            raise ValueError("of the caller")

    with pytest.raises(ValueError, match="of the caller"):
        run()
    assert done


def test_ctrl_c_again_and_again_waits_for_the_task() -> None:
    """Without it the second Ctrl-C would close the file under the thread that writes it."""
    going, done = threading.Event(), []

    def task() -> None:
        going.wait(10)
        done.append(1)

    def press() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with suppress(KeyboardInterrupt), Behind() as behind:
        behind.begin(task)
        for seconds in (0.1, 0.2, 0.3):
            threading.Timer(seconds, press).start()
        threading.Timer(0.6, going.set).start()
        behind.wait()
    assert done
